"""Work queues: messages in SQL for people and programs, ordered, claimed, settled, reviewed, audited.

A message's walk goes through the packages in this order:

    publish/      a publisher's messages are checked and become rows
    ready_index/  their order in Redis, which can be thrown away
    consume/      a worker claims them, sends parts of results, completes them, fails them or gives them back
    broadcast/    the same for every subscription of a broadcast queue
    dead_letters/ those that failed for good wait for a decision, and come back by a replay
    retention/    finished ones are archived, erased, added up

Beside the walk: `routing/` (rules), `review/` (people decide), `schemas/`, `webhooks/`, `tenancy/` (tenants, scopes, queues),
`access/` (keys and grants), `audit/`, `reading/` (search, usage, events). Below all of it `message/` (what a message is and how
it changes its state) and `store/` (transactions, statements, tables). `work_queues.py` puts the parts together; none of them
imports it.
"""

from relevo.errors import DependencyMissing

try:
    import sqlalchemy  # noqa: F401  # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as error:
    raise DependencyMissing(what="relevo.work", package="sqlalchemy", extra="relevo[server]") from error
