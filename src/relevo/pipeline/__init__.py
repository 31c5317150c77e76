"""Room three: what happened in the queues as facts for Spark, and what Spark computes as work. See docs/how-to."""
