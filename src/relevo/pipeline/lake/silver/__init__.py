"""silver: one row a run, one a job, one a human decision; and the partial sums gold adds up."""
