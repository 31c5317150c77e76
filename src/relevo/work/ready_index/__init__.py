"""The order of pending messages in Redis: an index that can be thrown away, because the rows have it too.

Comes in: messages that are ready, after the commit that made them so. Goes out: the ids to claim next. Next: consume/.
"""
