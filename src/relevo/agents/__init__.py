"""The system agents: what happens to messages while nobody asks. One agent a file; `agents.py` runs them."""
