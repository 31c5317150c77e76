"""What becomes of finished messages: the archive, erasure, and the counters of past days.

Comes in: messages in their end state. Goes out: rows of the archive, bodies that are gone, one counter row for a day.
"""
