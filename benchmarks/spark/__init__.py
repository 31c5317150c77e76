"""The parts of `python -m benchmarks.spark_ingest`: what Spark reads, writes and builds, beside what plain processes do."""
