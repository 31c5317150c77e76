"""Tenants, their scopes and queues, which scope trusts which, and what goes when one of them is deleted.

Comes in: what people set up. Goes out: the record of a queue, from a cache, to everything on a message's walk.
"""
