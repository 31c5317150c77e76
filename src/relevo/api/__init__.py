"""Work queues over HTTP: one router a file in routes/, and in front of the framework the few fast routes (fast_routes.py)."""
