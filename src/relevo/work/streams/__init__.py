"""Messages that are worked on as jobs of stream queues.

Comes in: a message that a rule routed to a stream queue. Goes out: the row of its job, for the bridge among the agents. Next:
the engine; its outcome comes back through routing/.
"""
