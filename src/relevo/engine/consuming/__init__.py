"""From Redis to the handler: `reader` reads, `queue_limiter` holds back, `runner` runs, `lease_keeper` keeps what is held.

In: entries of the stream. Out: deliveries with their outcome. Next: `settling`.
"""
