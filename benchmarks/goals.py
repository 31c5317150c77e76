"""What we want to reach, each as a ratio within one run."""

from __future__ import annotations

from typing import NamedTuple

from rich.table import Table

from benchmarks.tally import Tally


class Goal(NamedTuple):
    """`case` of relevo against `case_of_rival` of `rival`: at least `times`."""

    title: str
    case: str
    rival: str
    times: float
    case_of_rival: str | None = None


GOALS = (
    Goal("drain, events off, like for like", "drain", "chasquimq 1.3.0", 8),
    Goal("drain, events off, their best tuning", "drain", "chasquimq 1.3.0, tuned", 4),
    Goal("drain, share of the server's read-and-ack rate", "drain", "the server itself", 0.8, "read_ack"),
    Goal("drain, events on", "drain_events", "chasquimq 1.3.0", 8),
    Goal("CPU of our process a drained job", "cpu", "chasquimq 1.3.0", 10),
    Goal("100 concurrent adds", "add_concurrent", "chasquimq 1.3.0", 8),
    Goal("bulk of 500", "add_bulk_500", "chasquimq 1.3.0", 2.5),
    Goal(
        "bulk of 500, two in flight, share of raw XADD IDMP", "add_bulk_500_two", "the server itself", 0.7, "xadd_idmp"
    ),
    Goal("single add", "add_single", "chasquimq 1.3.0", 2),
    Goal("latency p50", "latency_p50", "chasquimq 1.3.0", 2),
    Goal("latency p99, no worse", "latency_p99", "chasquimq 1.3.0", 1),
    Goal("retry storm", "retry_storm", "chasquimq 1.3.0", 10),
    Goal("promotion", "delayed", "chasquimq 1.3.0", 5),
)


def goal_table(tally: Tally) -> Table:
    table = Table(title="goals, as ratios in this run")
    for column in ("goal", "wanted", "reached", ""):
        table.add_column(column, justify="left" if column in ("goal", "") else "right")
    for goal in GOALS:
        reached = tally.ratio(goal.case, "relevo", goal.rival, their_case=goal.case_of_rival)
        shown = "-" if reached is None else f"{reached:.2f}"
        met = "" if reached is None else ("[green]met[/]" if reached >= goal.times else "[yellow]not met[/]")
        table.add_row(goal.title, f"{goal.times:g}", shown, met)
    slept = tally.median("relevo", "drain_5ms")
    if slept is not None:
        share = slept / 20_000  # 100 slots, 5 ms each
        table.add_row(
            "5 ms handlers, share of the arithmetic limit",
            "0.8",
            f"{share:.2f}",
            "[green]met[/]" if share >= 0.8 else "[yellow]not met[/]",
        )
    return table
