"""The Redis side: connections, what a server can do, scripts, and the embedded server. Knows commands, not queues."""
