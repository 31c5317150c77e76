"""The database: tables, migrations, the statements of the hot path in three dialects, and the transactions they run in.

Comes in: changes of rows with their counters, events and audit entries. Goes out: a commit, and what is to be done after it.
"""
