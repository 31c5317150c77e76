"""Publishing: what a caller hands in is checked, asked about, given its place and written.

Comes in: new messages from api/ and from agents. Goes out: rows of `messages`, their keys and labels, and ready messages
for the order index. Next: consume/, or review/ and routing/ when they have a say.
"""
