"""The queue: what producers and workers do. One noun a file; a job's walk is queue, sender, reader, runner, settler."""
