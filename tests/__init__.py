"""The tests of relevo, and the servers they run on."""
