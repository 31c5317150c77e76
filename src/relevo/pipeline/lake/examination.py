"""Looks at rows with Spark: which expectations hold, and the rows without those that may be dropped."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DateType, NumericType, TimestampNTZType, TimestampType

from relevo.pipeline.lake.expectations import Expectation, Finding, Rule, Unique

SAMPLES = 5
"""So many of the rows that break an expectation are kept."""
NAMES = frozenset(
    (
        *(
            "source",
            "room",
            "tenant",
            "queue",
            "name",
            "job_id",
            "message_id",
            "review_id",
            "id",
            "subscription",
            "worker",
        ),
        *(
            "e",
            "outcome",
            "kind",
            "measure",
            "grain",
            "metric",
            "side",
            "state",
            "action",
            "decision",
            "_stream",
            "_id",
        ),
    )
)
"""Columns whose text names something. No sample has another text, of a table of ours or of a user's: people may have written
it, and an erasure does not look for it there."""
_PLAIN = (BooleanType, DateType, NumericType, TimestampNTZType, TimestampType)


def examined(rows: DataFrame, rules: Sequence[Rule], expected_rows: int | None = None) -> list[Finding]:
    """What is true of `rows`: all rules in one pass, and one more for each that is broken."""
    simple = [rule for rule in rules if isinstance(rule, Expectation)]
    unique = [rule for rule in rules if isinstance(rule, Unique)]
    counted = rows.agg(
        F.count(F.lit(1)).alias("rows"),
        *(F.sum(_violated(rule)).alias(f"r{place}") for place, rule in enumerate(simple)),
        # 64 bits of hash stand for the key: a shuffle of numbers, not of texts.
        *(F.count_distinct(_key(rule)).alias(f"u{place}") for place, rule in enumerate(unique)),
    ).first()
    assert counted is not None
    total = int(counted["rows"])
    found = [
        *((rule, int(counted[f"r{place}"] or 0)) for place, rule in enumerate(simple)),
        *((rule, total - int(counted[f"u{place}"])) for place, rule in enumerate(unique)),
    ]
    told = [Finding(rule.name, rule.severity, total, broken) for rule, broken in found]
    told = [
        replace(finding, samples=_samples(rows, rule, rules)) if finding.broken else finding
        for finding, (rule, _) in zip(told, found, strict=True)
    ]
    if expected_rows is not None and total != expected_rows:
        name = f"there are as many rows as were written ({expected_rows})"
        told.append(Finding(name, "fail", total, abs(total - expected_rows)))
    return told


def without_dropped(rows: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """The rows that no expectation of severity `drop` is broken for; of several with one key one stays."""
    dropping = [rule for rule in rules if rule.severity == "drop"]
    good = [_violated(rule) == 0 for rule in dropping if isinstance(rule, Expectation)]
    kept = rows.where(reduce(lambda one, other: one & other, good)) if good else rows
    for rule in dropping:
        if isinstance(rule, Unique):
            kept = kept.dropDuplicates([*rule.columns])
    return kept


def _samples(rows: DataFrame, rule: Rule, rules: Sequence[Rule]) -> tuple[str, ...]:
    """Some rows that break a rule, as JSON: what they are told apart by, and what the rule is about."""
    keys = [column for one in rules if isinstance(one, Unique) for column in one.columns]
    if isinstance(rule, Unique):
        several = rows.groupBy(*(F.col(f"`{column}`") for column in rule.columns)).agg(F.count(F.lit(1)).alias("times"))
        bad, names = several.where("times > 1"), [*rule.columns, "times"]
    else:
        about = [column for column in rows.columns if re.search(rf"\b{re.escape(column)}\b", rule.holds)]
        bad, names = rows.where(_violated(rule) == 1), [*dict.fromkeys((*keys, *about))]
    told = NAMES | {"times"} | {field.name for field in rows.schema if isinstance(field.dataType, _PLAIN)}
    shown = [name for name in names if name in told]
    if not shown:
        return ()
    some = bad.select(F.to_json(F.struct(*(F.col(f"`{name}`") for name in shown))).alias("row")).limit(SAMPLES)
    return tuple(json.dumps(json.loads(row["row"]), ensure_ascii=False) for row in some.collect())


def _key(rule: Unique) -> Column:
    return F.xxhash64(*(F.col(f"`{column}`") for column in rule.columns))


def _violated(rule: Expectation) -> Column:
    return F.when(F.expr(rule.holds), 0).otherwise(1)
