"""The hot path on MariaDB: the driver, and a file for each of its statements."""
