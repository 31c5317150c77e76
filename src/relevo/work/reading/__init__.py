"""Looking at messages without changing them: search, usage, the feed of events.

Comes in: a caller's question. Goes out: pages of answers.
"""
