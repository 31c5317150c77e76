"""The queue itself. The tree is a job's walk:

- a plain job passes `Queue`, `JobEncoder`, `PendingAdd` and `StreamWriter`; then, in a worker, `Reader`, `RunQueue`, `Runner`,
  your handler, `Settler` and `SettleRequest`; all of it goes through the broker's `Transport`
- what is more than that: `ScriptedAdds` writes jobs that are not plain, `QueueLimiter` lets jobs of a limited queue in,
  `OutcomePolicy` judges runs that failed
- `queue.py` (what producers call) -> `producing/` -> Redis -> `consuming/` -> your handler -> `settling/` -> Redis -> `events/`
- `worker.py` puts `consuming/`, `settling/` and `duties/` together; `sync_queue.py` is `queue.py` for threads and scripts
- `schedules/` and `lanes/` bring jobs into the stream in their own time; `admin/` looks inside; `tasks/` stands on top
- `job/` and `service/` are what all of them are made of

Which may import which is written in tests/unit/test_architecture.py.
"""
