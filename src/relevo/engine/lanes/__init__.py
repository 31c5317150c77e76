"""Lanes: jobs that share a key take turns. In: jobs added with a `lane`. Out: entries of the stream, in turn."""
