"""A message: its states and priorities, its row, its history, its order, and how it ends.

Comes in: what a publisher handed in, or a row that a transaction holds. Goes out: rows and changes of rows. Next: publish/, and
whoever changes a message's state.
"""
