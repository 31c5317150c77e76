"""Typed tasks: functions with names. A call is checked by the type checker from the producer to the handler.

tasks = Tasks()

@tasks.task()
async def send(to: str, *, subject: str) -> None: ...

await send.enqueue(queue, "ada@example.org", subject="Hello")   # checked like a call of `send`
await Worker("emails", tasks).run()

In comes a call, as a producer makes it (`task`, `arguments`, `annotations`, `values`, `shapes`); out goes a job for the queue.
A worker gives its jobs to the `registry`, which runs the task that a job names.
"""

from relevo.engine.producing.call import Call
from relevo.engine.tasks.registry import Tasks
from relevo.engine.tasks.task import Task
from relevo.engine.tasks.task_job import TaskJob

__all__ = ["Call", "Task", "TaskJob", "Tasks"]
