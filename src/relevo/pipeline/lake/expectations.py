"""Expectations: what must be true of a table before a new version of it becomes visible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


@dataclass(frozen=True)
class Expectation:
    """`holds` is SQL over one row; a row for which it is false or null breaks the expectation."""

    name: str
    holds: str


@dataclass(frozen=True)
class Unique:
    """No two rows have the same values in these columns."""

    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"no two rows have the same {', '.join(self.columns)}"


@dataclass(frozen=True)
class Breach:
    """An expectation that does not hold, for how many rows."""

    expectation: str
    rows: int

    def __str__(self) -> str:
        return f"{self.expectation}: not so for {self.rows} {'row' if self.rows == 1 else 'rows'}"


Rule = Expectation | Unique


def not_null(*columns: str) -> list[Rule]:
    return [Expectation(f"{column} is there", f"{column} IS NOT NULL") for column in columns]


def one_of(column: str, values: Sequence[str]) -> Rule:
    listed = ", ".join(f"'{value}'" for value in values)
    return Expectation(f"{column} is one of {', '.join(values)}", f"{column} IN ({listed})")


def not_negative(*columns: str) -> list[Rule]:
    return [Expectation(f"{column} is not negative", f"{column} IS NULL OR {column} >= 0") for column in columns]


def breaches(rows: DataFrame, rules: Sequence[Rule], expected_rows: int | None = None) -> list[Breach]:
    """What is broken in `rows`: all rules in one pass."""
    simple = [rule for rule in rules if isinstance(rule, Expectation)]
    broken: list[Breach] = []
    unique = [rule for rule in rules if isinstance(rule, Unique)]
    counted = rows.agg(
        F.count(F.lit(1)).alias("rows"),
        *(F.sum(_violated(rule)).alias(f"r{place}") for place, rule in enumerate(simple)),
        # 64 bits of hash stand for the key: a shuffle of numbers, not of texts.
        *(F.count_distinct(_key(rule)).alias(f"u{place}") for place, rule in enumerate(unique)),
    ).first()
    assert counted is not None
    broken += (
        Breach(rule.name, int(counted[f"r{place}"])) for place, rule in enumerate(simple) if counted[f"r{place}"]
    )
    broken += (
        Breach(rule.name, int(counted["rows"] - counted[f"u{place}"]))
        for place, rule in enumerate(unique)
        if counted[f"u{place}"] != counted["rows"]
    )
    if expected_rows is not None and counted["rows"] != expected_rows:
        off = abs(counted["rows"] - expected_rows)
        broken.append(Breach(f"there are as many rows as were written ({expected_rows})", off))
    return broken


def _key(rule: Unique) -> Column:
    return F.xxhash64(*(F.col(f"`{column}`") for column in rule.columns))


def _violated(rule: Expectation) -> Column:
    return F.when(F.expr(rule.holds), 0).otherwise(1)
