"""The SQL side of work queues: tables, migrations, and one driver for each database."""
