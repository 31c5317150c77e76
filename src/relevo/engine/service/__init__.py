"""What every background duty is made of: a loop that ticks, signals that tests wait for, the lock of a leader."""
