"""The report: one HTML file with everything in it. Its numbers come from gold, and from nowhere else."""
