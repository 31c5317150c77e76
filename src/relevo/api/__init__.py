"""Work queues over HTTP: one router a file; the few hot routes are answered before the framework, see hot.py."""
