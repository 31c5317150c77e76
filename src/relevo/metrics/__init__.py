"""Numbers for Prometheus, and answers to a platform's probes. Listens to the engine, which knows nothing of it."""
