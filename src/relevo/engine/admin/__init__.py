"""What operators and callers ask of a queue: counts, searches, results, progress, dead letters, pause, removal."""
