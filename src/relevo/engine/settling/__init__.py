"""From the end of a run to Redis: `outcome_policy` decides what becomes of a job, `settler` collects, `settle_request` writes.

In: deliveries that ran. Out: acks, results, retries, dead letters and events, many in one write.
"""
