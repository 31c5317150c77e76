"""A job and how it is asked for: its options, delays, retries and dedup. In: what the caller writes. Out: checked values.

Everything else builds on this.
"""
