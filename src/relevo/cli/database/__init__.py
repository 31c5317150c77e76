"""Commands that open the SQL database of work queues themselves: `relevo db` and `relevo audit`."""
