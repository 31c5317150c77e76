"""Work queues beside what a user would pick instead: `python -m benchmarks.work_queues`, or `make bench-work`."""
