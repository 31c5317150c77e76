"""Who may do what: API keys, grants, rate limits, and sessions of the console.

Comes in: a key or a session's token. Goes out: a `Caller`, to everything that changes something.
"""
