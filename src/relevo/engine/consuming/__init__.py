"""From Redis to the handler: `reader` reads into `run_queue`, `queue_limiter` holds back what waits there, `runner` runs it,
`lease_keeper` keeps what is held.

In: entries of the stream. Out: deliveries with their outcome. Next: `settling`.
"""
