"""Stream queues: `relevo add`, `inspect`, `watch`, `events`, `job`, `dlq`, `schedule`, `lanes`, `flow`, `doctor`, a file each;
queue_ops.py has `pause`, `resume`, `drain`, `clean` and `obliterate`."""
