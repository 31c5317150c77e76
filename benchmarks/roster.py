"""The contestants. Each rival is driven by its public API, as fast as its own documentation makes it; what it cannot do, or
only with another program beside it, it is not asked."""

from __future__ import annotations

from benchmarks.contestant import Contestant

ADDS = ("add_single", "add_concurrent")
BULKS = ("add_bulk_50", "add_bulk_500")
DRAINS = ("drain", "drain_results", "drain_5ms")
REST = ("delayed", "retry_storm", "latency")
ALL = (*ADDS, *BULKS, "add_bulk_500_two", "drain_events", *DRAINS, *REST)

BASE = "chasquimq"
"""Whom ratios are against."""

CONTESTANTS = (
    Contestant("the server itself", "ceiling.py", ("ceiling",)),
    Contestant("relevo", "chasqui.py", ALL, arguments=("relevo",), adds_per_s=10_000),
    Contestant(BASE, "chasqui.py", ALL, home="chasquimq", arguments=("chasquimq",), adds_per_s=3_000),
    Contestant(
        "chasquimq, tuned",
        "chasqui.py",
        ("drain",),
        home="chasquimq",
        arguments=("chasquimq",),
        options={"uvloop": True, "worker": {"read_count": 256}},
        one_core=True,
    ),
    Contestant(
        "relevo, frames of 50",
        "chasqui.py",
        ("add_bulk_500", "add_bulk_500_two", "drain"),
        arguments=("relevo",),
        options={"frame": 50},
    ),
    Contestant("relevo on Redis 7", "chasqui.py", ("drain",), arguments=("relevo",), server="redis7"),
    Contestant("relevo on Valkey", "chasqui.py", ("drain",), arguments=("relevo",), server="valkey"),
    Contestant(
        "bullmq (Node)",
        "bullmq_node.mjs",
        (*ADDS, *BULKS, "drain_events", "drain_results", "drain_5ms", *REST),
        home="bullmq-node",
    ),
    Contestant(
        "bullmq (Python)",
        "bullmq_driver.py",
        (*ADDS, *BULKS, "drain_events", "drain_results", "drain_5ms", *REST),
        home="bullmq",
    ),
    Contestant("docket", "docket_driver.py", (*ADDS, *BULKS, *DRAINS, *REST), home="pydocket"),
    Contestant("streaq", "streaq_driver.py", (*ADDS, *BULKS, *DRAINS, *REST), home="streaq"),
    Contestant("taskiq", "taskiq_driver.py", (*ADDS, *DRAINS, "retry_storm", "latency"), home="taskiq"),
    Contestant("arq", "arq_driver.py", (*ADDS, *DRAINS, *REST), home="arq"),
    Contestant("saq", "saq_driver.py", (*ADDS, *DRAINS, *REST), home="saq"),
    Contestant("dramatiq", "dramatiq_driver.py", ("add_single", *DRAINS, *REST), home="dramatiq"),
    Contestant("huey", "huey_driver.py", ("add_single", *DRAINS, *REST), home="huey"),
    Contestant("celery", "celery_driver.py", ("add_single", *DRAINS, *REST), home="celery"),
    Contestant("rq", "rq_driver.py", ("add_single", *BULKS, *DRAINS, "retry_storm", "latency"), home="rq"),
)


def chosen(parts: list[str]) -> list[Contestant]:
    """Those whose name has one of `parts` in it; without parts, all. Whoever this machine cannot run is left out."""
    wanted = [each for each in CONTESTANTS if not parts or any(part in each.name for part in parts)]
    return [each for each in wanted if each.available()]
