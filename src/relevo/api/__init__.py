"""Work queues over HTTP: one router a file; the few fast routes are answered before the framework, see fast_routes.py."""
