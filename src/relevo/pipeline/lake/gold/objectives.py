"""Objectives: how soon a job should be done, and for what share of jobs. What gold.slo measures against."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate

from pyspark.sql import Column
from pyspark.sql import functions as F

from relevo.errors import BadArgument


@dataclass(frozen=True)
class Objective:
    """`target` of the jobs of a queue are done within `total_ms` of their arrival. The first objective that matches counts."""

    queue: str = "*"
    total_ms: int = 60_000
    target: float = 0.99

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            remedy = "Write a share such as 0.99: with all of it there is no error budget to burn."
            raise BadArgument(argument="target", value=self.target, reason="not between 0 and 1", remedy=remedy)
        if self.total_ms <= 0:
            raise BadArgument(
                argument="total_ms", value=self.total_ms, reason="must be greater than 0", remedy="Write ms."
            )

    @staticmethod
    def parse(text: str) -> Objective:
        """QUEUE=SHARE@SECONDS, as the command line writes it.

        >>> Objective.parse("mail*=99.5%@30")
        Objective(queue='mail*', total_ms=30000, target=0.995)
        """
        found = re.fullmatch(r"(?P<queue>[^=]+)=(?P<share>[\d.]+)%@(?P<seconds>[\d.]+)s?", text.strip())
        if found is None:
            remedy = "Write queue=share%@seconds, such as 'emails=99.5%@30'; the queue may be a glob."
            raise BadArgument(argument="objective", value=text, reason="not of that form", remedy=remedy)
        share, seconds = float(found["share"]), float(found["seconds"])
        return Objective(found["queue"], round(seconds * 1000), round(share / 100, 6))


DEFAULT = (Objective(),)


def matching(objectives: Sequence[Objective]) -> tuple[Column, Column]:
    """Limit in ms and target for the column `queue`: of the first objective whose glob matches, else of the default."""
    limit, target = F.lit(DEFAULT[0].total_ms), F.lit(DEFAULT[0].target)
    for objective in reversed(objectives):
        ours = F.col("queue").rlike(_java(objective.queue))
        limit = F.when(ours, objective.total_ms).otherwise(limit)
        target = F.when(ours, objective.target).otherwise(target)
    return limit, target


def _java(glob: str) -> str:
    """`fnmatch`'s expression as Java reads it."""
    return "^" + translate(glob).removeprefix("(?s:").removesuffix(r")\z").removesuffix(r")\Z") + "$"
