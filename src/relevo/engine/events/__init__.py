"""A queue's events: written by `EventLog` with what a worker settles, read by `QueueEvents` from anywhere."""
