"""Expectations: what must be true of a table before a new version of it becomes visible, and what happens where it is not.

An expectation has a severity. `fail`: the new version is thrown away and the last good one stays. `drop`: the rows that break
it are left out. `warn`: they stay. Whatever happens is told, and written to gold.expectations with some of those rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Severity = Literal["warn", "drop", "fail"]


@dataclass(frozen=True)
class Expectation:
    """`holds` is SQL over one row; a row for which it is false or null breaks the expectation."""

    name: str
    holds: str
    severity: Severity = "fail"


@dataclass(frozen=True)
class Unique:
    """No two rows have the same values in these columns."""

    columns: tuple[str, ...]
    severity: Severity = "fail"

    @property
    def name(self) -> str:
        return f"no two rows have the same {', '.join(self.columns)}"


Rule = Expectation | Unique


@dataclass(frozen=True)
class Finding:
    """What was found of one expectation: of how many rows, for how many it does not hold, and some of those as JSON."""

    expectation: str
    severity: Severity
    rows: int
    broken: int
    samples: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.expectation}: not so for {self.broken} {'row' if self.broken == 1 else 'rows'}"

    @property
    def outcome(self) -> str:
        """
        >>> Finding("n is there", "drop", 10, 1).outcome, Finding("n is there", "drop", 10, 0).outcome
        ('dropped', 'held')
        """
        return {"warn": "warned", "drop": "dropped", "fail": "failed"}[self.severity] if self.broken else "held"


def not_null(*columns: str, severity: Severity = "fail") -> list[Rule]:
    return [Expectation(f"{column} is there", f"{column} IS NOT NULL", severity) for column in columns]


def one_of(column: str, values: Sequence[str], severity: Severity = "fail") -> Rule:
    listed = ", ".join(f"'{value}'" for value in values)
    return Expectation(f"{column} is one of {', '.join(values)}", f"{column} IN ({listed})", severity)


def not_negative(*columns: str, severity: Severity = "fail") -> list[Rule]:
    return [
        Expectation(f"{column} is not negative", f"{column} IS NULL OR {column} >= 0", severity) for column in columns
    ]
