"""What profiles show: printed beside a goal that a run did not meet, and beside a line of growth that is not flat. Written by
hand from profiles of the process (perf, cProfile) and of the server (INFO commandstats); numbers come from the run itself."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.goals import CEILING, Goal, outcomes
from benchmarks.points import Point, Points
from benchmarks.tally import Tally

FLAT = 1.3
"""How much dearer the largest size may be before the report has to say why."""

_CPU = {"drain": ("cpu", "cpu_server"), "drain_events": ("cpu_events", "cpu_events_server")}

BY_CASE = {
    "drain": "A job costs Redis one XREADGROUP and one XACKDEL, and our process about as much: two fifths of it the slot "
    "(the handler's call and the book-keeping around it), a quarter decoding the entry, the rest replies and acks. Both work "
    "at the same time, so the slower of the two decides, and with it whatever else runs on the machine's cores.",
    "drain_events": "Two XADDs a job double what Redis does for it, and are two fifths of what our process does. Both are busy "
    "most of the time; what is left are the moments in which one waits for the other.",
    "cpu": "Two fifths are the slot and the handler's call, a quarter decoding, the rest replies and acks. Most of what a "
    "rival in Rust spends is the hand-over between threads, which becomes cheaper when a busy machine leaves them one core.",
    "add_concurrent": "A future, an id and an envelope for each add; the write itself is shared by all adds of one turn.",
    "add_bulk_500": "Encoding 500 envelopes takes as long as Redis takes to store them, and a caller who awaits each bulk has "
    "one after the other.",
    "add_bulk_500_two": "The process is the limit: while it encodes, the server has one write to work on and is done with it "
    "first.",
    "add_single": "One round trip an add, most of it the kernel's and the server's, which both sides pay alike.",
    "drain_5ms": "A timer, a wake-up of the loop and a wake-up of the slot for each job, most of it asyncio's own.",
    "latency_p50": "Two trips through the loop and the server: the add, and the blocked read that it ends.",
    "latency_p99": "The slowest in a hundred met something else: the garbage collector, a duty's tick, another process.",
    "retry_storm": "Two reads, two scripts and an ack a job: the settle that delays it, the promotion, and its good end.",
    "delayed": "Redis is the limit: moving a job from the sorted set into the stream costs it as much as the drain does.",
}

BY_LINE = {
    "waiting": "Redis' memory grows beyond the caches of the CPU; the process does the same for every job.",
    "processes": "Redis is one thread: more processes share its rate, read smaller batches each, and wake more often for them.",
    "queues": "Every queue has connections, leases and batches of its own: the same jobs in a thousand queues are a thousand "
    "small reads and flushes instead of a few large ones. An idle queue costs its locks and its share of the idle watch.",
    "payload": "A job is as dear as its bytes: they are copied by the kernel, the server and the decoder.",
    "delayed": "The sorted set costs Redis a step more for every doubling.",
    "schedules": "A fire is one script call and a job; the fewer they are, the more of an idle worker's ticks fall on "
    "each.",
}


def standing_in_the_way(tally: Tally) -> Iterator[str]:
    """A line for each goal that was not met: how far, how busy both sides were, and what the profile shows."""
    for goal, reached, met in outcomes(tally):
        if met is False and reached is not None:
            share = reached / goal.times
            seen = _busy(tally, goal) + _bound(tally, goal)
            yield f"- **{goal.title}**: {share:.0%} of the goal. {seen}{BY_CASE.get(goal.case, '')}"


def _busy(tally: Tally, goal: Goal) -> str:
    """CPU seconds for 100k jobs, times the rate, is the share of the time in which a side was at work."""
    ours, servers = _CPU.get(goal.case, ("", ""))
    rate, mine, theirs = (tally.median(goal.who, case) for case in (goal.case, ours, servers))
    if rate is None or mine is None or theirs is None:
        return ""
    both = f"our process was busy {mine * rate / 1e5:.0%} of the time, Redis {theirs * rate / 1e5:.0%}"
    return f"A job took {mine * 10:.1f} µs of our process and {theirs * 10:.1f} µs of Redis: {both}. "


def _bound(tally: Tally, goal: Goal) -> str:
    """One add after the other cannot be faster than one bare XADD after the other."""
    ours, theirs = tally.median(goal.who, goal.case), tally.median(goal.rival, goal.case)
    bare = tally.median(CEILING, "raw_round_trip")
    if goal.case != "add_single" or ours is None or theirs is None or bare is None:
        return ""
    return (
        f"The bound is a client that does nothing but XADD, one after the other: relevo is at {ours / bare:.0%} of it, "
        f"the goal at {goal.times * theirs / bare:.0%}, {goal.rival} at {theirs / bare:.0%}. "
    )


def not_flat(points: Points) -> Iterator[str]:
    """A line for each thing whose growth makes a job dearer than `FLAT` times what it was at the smallest size."""
    told: set[str] = set()
    for (line, what), each in points.lines.items():
        worst = max(zip(Points.dearer(each), each, strict=True), key=lambda pair: pair[0])
        if worst[0] > FLAT:
            why = "" if line in told else f" {BY_LINE.get(line, '')}"
            told.add(line)
            yield f"- **{line}**, {what}: {worst[0]:.1f} times as dear at {_size(worst[1])}.{why}"


def _size(point: Point) -> str:
    return f"{point.size:,}"
