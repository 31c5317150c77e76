"""What several suites share, and none of them owns."""
