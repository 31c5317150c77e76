"""Dead letters: messages that do not run again by themselves, listed, and brought back by a replay.

Comes in: messages that consume/, broadcast/ and the agents gave up. Goes out: the same messages, pending in the queue they came
from. Next: consume/.
"""
