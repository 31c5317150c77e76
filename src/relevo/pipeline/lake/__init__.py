"""The lake: what happened, in three layers. bronze as it came, silver a row a run and a row a job, gold what people ask for."""
