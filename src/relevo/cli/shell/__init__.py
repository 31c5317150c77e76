"""What all commands share: what they print, what they ask, what they read from the command line, and the Redis they talk to."""
