"""ChasquiMQ's low-level classes. `import relevo as chasquimq` has them too. For new code `Queue` and `Worker` are better."""
