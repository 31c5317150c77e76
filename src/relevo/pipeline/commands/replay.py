"""The replay command: dead letters picked by SQL on Spark, changed by SQL on the way, and sent back to their queue.

A letter goes back through the sink under an id made of its queue and entry, and is deleted once it has arrived. Killed in
between and run again, the sink knows the id and sends nothing twice; the letter is deleted then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from relevo.errors import BadArgument
from relevo.pipeline.commands.tries import Tries
from relevo.pipeline.connector.connection import Directory
from relevo.pipeline.connector.options import SourceOptions
from relevo.pipeline.session import activated
from relevo.wire.keys import QueueKeys

_COLUMNS = ("name", "data")
"""What SQL may change on the way."""


REMEMBERED_S = 7 * 86_400
"""For how long a replay that was cut short can be run again without sending anything twice."""

_PAGE = 1000

Told = Callable[[int, int], None]


def _untold(_: int, __: int) -> None:
    """Told to nobody."""


@dataclass(frozen=True)
class Replayed:
    """What a replay did, or would do."""

    letters: int
    chosen: int
    sent: int
    reasons: dict[str, int]
    sample: list[dict[str, str | None]]


def letters(spark: SparkSession, queue: str, **options: str) -> DataFrame:
    """The dead letters of a queue: name, data (JSON), reason, detail, attempt, created_at, died_at, job_id, `_id`."""
    rows = spark.read.format("relevo").options(queues=queue, what="dlq", **options).load()
    return rows.withColumn("died_at", F.col("_ts"))


def chosen(dead: DataFrame, where: str | None, change: Mapping[str, str]) -> DataFrame:
    """Those for which `where` is true, with `name` and `data` as `change` says, both in Spark SQL.

    Letters that are no jobs (`bad` says why) are never chosen: there is nothing to run.
    """
    unknown = sorted(set(change) - set(_COLUMNS))
    if unknown:
        remedy = f"Change {' or '.join(_COLUMNS)}; a replayed job keeps the rest."
        raise BadArgument(argument="set", value=unknown[0], reason="a replay cannot change it", remedy=remedy)
    try:
        picked = dead.where(F.col("bad").isNull() & F.col("job_id").isNotNull())
        if where:
            picked = picked.where(where)
        for name, expression in change.items():
            picked = picked.withColumn(name, F.expr(expression).cast("string"))
        picked.schema  # noqa: B018 - the analysis happens here, before anything is read
    except (AnalysisException, ParseException) as error:
        said = " ".join(str(error).split("\n")[0].split())
        remedy = f"Write Spark SQL over {', '.join(dead.columns)}, such as reason = 'retries_exhausted'."
        raise BadArgument(argument="where or set", value=where or dict(change), reason=said, remedy=remedy) from None
    return picked


def replay(
    spark: SparkSession,
    queue: str,
    *,
    where: str | None = None,
    change: Mapping[str, str] | None = None,
    to: str | None = None,
    dry_run: bool = False,
    options: Mapping[str, str] | None = None,
    told: Told = _untold,
    tries: Tries | None = None,
) -> Replayed:
    """Sends the chosen letters to `to` (back to `queue`), with their data and retry settings and a fresh budget of attempts."""

    def once() -> Replayed:
        return _replay(spark, queue, where, dict(change or {}), to or queue, dry_run, dict(options or {}), told)

    return (tries or Tries()).run(once, "the replay")


def _replay(
    spark: SparkSession,
    queue: str,
    where: str | None,
    change: Mapping[str, str],
    to: str,
    dry_run: bool,
    given: Mapping[str, str],
    told: Told,
) -> Replayed:
    dead = letters(spark, queue, **given)
    there = dead.count()
    picked = chosen(dead, where, change).persist()  # as they are now: letters that come meanwhile are not meant
    try:
        reasons = {row["reason"] or "": row["count"] for row in picked.groupBy("reason").count().collect()}
        number = sum(reasons.values())
        sample = [
            {"job_id": row["job_id"], "name": row["name"], "reason": row["reason"], "data": row["data"]}
            for row in picked.orderBy("_id").limit(5).collect()
        ]
        if not dry_run and number:
            # The letter's own entry makes the id: the same letter sent by a second run is known by it.
            once = F.concat(F.lit(f"replay:{queue}:"), F.col("_id"))
            rows = picked.select("name", "data", "retry", once.alias("job_id"))
            activated(spark)
            known = {"queue": to, "idWindowSeconds": str(REMEMBERED_S), **given}
            rows.write.format("relevo").options(**known).mode("append").save()
            _delete(queue, [row["_id"] for row in picked.select("_id").toLocalIterator()], given, told, number)
        return Replayed(there, number, 0 if dry_run else number, reasons, sample)
    finally:
        picked.unpersist()


def _delete(queue: str, ids: list[str], options: Mapping[str, str], told: Told, number: int) -> None:
    """Takes the letters that have arrived out of the dead letters."""
    source = SourceOptions.parse({"queues": queue, "what": "dlq", **options})
    key = QueueKeys(queue).dead
    directory = Directory(source.connection.address(), timeout_s=source.connection.timeout_s)
    try:
        for at in range(0, len(ids), _PAGE):
            directory.ask(key, "XDEL", key, *ids[at : at + _PAGE])
            told(min(number, at + _PAGE), number)
    finally:
        directory.close()
