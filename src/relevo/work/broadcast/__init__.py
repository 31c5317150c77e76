"""Broadcast queues: every subscription gets every message, with claims, tries and failures of its own.

Comes in: messages that publish/ has written to a broadcast queue. Goes out: deliveries, claimed and settled as messages are,
and the end of a message when its last delivery ends. Next: dead_letters/ or retention/.
"""
