"""The hot path on PostgreSQL: the driver, and a file for each of its statements."""
