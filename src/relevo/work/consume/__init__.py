"""Claiming and settling: a worker takes the next messages for a time and says what became of them.

Comes in: a worker's claims and verdicts. Goes out: messages in its hands, then their end, their next try, or their dead letter.
Next: dead_letters/ or retention/.
"""
