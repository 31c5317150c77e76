"""Real servers for tests and benchmarks: installed once, started on loopback, stopped by their own pid."""
