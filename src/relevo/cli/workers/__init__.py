"""`relevo worker`: the command, the process that works, and the supervisor of several of them."""
