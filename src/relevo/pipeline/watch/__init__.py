"""What goes wrong while it goes wrong: events of queues come in, alerts go out.

rules.py says when something is wrong, queue_watch.py finds it in the events of one queue, processor.py lets Spark keep what it
knows, alert.py is what is told, delivery.py tells it. jobs/watch.py runs all of it as one query.
"""
