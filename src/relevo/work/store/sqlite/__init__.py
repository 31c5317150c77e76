"""The hot path on SQLite: the driver, and a file for each of its statements."""
