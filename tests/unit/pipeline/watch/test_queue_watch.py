"""What the watch finds in the events of one queue, with a memory of plain dicts."""

from typing import Any

from relevo.pipeline.lake.gold.objectives import Objective
from relevo.pipeline.watch.alert import Alert
from relevo.pipeline.watch.queue_watch import FORGOTTEN_MS, HOUR_MS, Facts, Happening, Life, QueueWatch
from relevo.pipeline.watch.rules import QueueRules

RULES = QueueRules(stuck_ms=60_000, overdue_ms=120_000)
START = 1_700_000_040_000  # a full minute


class DictMemory:
    """A queue's memory, and a clock that wakes the watch as Spark does."""

    def __init__(self, rules: QueueRules = RULES) -> None:
        self.rules = rules
        self.known = Facts()
        self.lives: dict[str, Life] = {}
        self.dues: dict[int, list[str]] = {}
        self.timers: set[int] = set()

    def facts(self) -> Facts:
        return self.known

    def keep_facts(self, facts: Facts) -> None:
        self.known = facts

    def life(self, job: str) -> Life | None:
        return self.lives.get(job)

    def keep_life(self, job: str, life: Life) -> None:
        self.lives[job] = life

    def forget_life(self, job: str) -> None:
        self.lives.pop(job, None)

    def due(self, at_ms: int) -> list[str]:
        return self.dues.get(at_ms, [])

    def keep_due(self, at_ms: int, jobs: list[str]) -> None:
        self.dues[at_ms] = jobs
        if not jobs:
            del self.dues[at_ms]

    def wake_at(self, at_ms: int) -> None:
        self.timers.add(at_ms)

    def batch(self, now_ms: int, *happenings: Happening) -> list[Alert]:
        """What a batch tells: its events first, then the timers that are due."""
        told = list(self._watch(now_ms).take(happenings)) if happenings else []
        while due := sorted(each for each in self.timers if each <= now_ms):
            self.timers.remove(due[0])
            told += self._watch(now_ms).wake(due[0])
        return told

    def _watch(self, now_ms: int) -> QueueWatch:
        return QueueWatch("here", "mail", self.rules, self, now_ms)


def event(word: str, job: str = "j", at: int = START, **more: Any) -> Happening:
    return Happening(at, more.pop("seq", 0), word, job, more.pop("name", "send"), at, **more)


def kinds(alerts: list[Alert]) -> list[tuple[str, str, str]]:
    return [(each.kind, each.state, each.job_id) for each in alerts]


def test_a_job_that_runs_for_too_long_is_told_once_and_then_that_it_is_over() -> None:
    memory = DictMemory()
    assert memory.batch(START, event("active")) == []
    assert memory.batch(START + 59_000) == []
    (told,) = memory.batch(START + 70_000)
    assert (told.kind, told.state, told.job_id, told.name) == ("stuck", "open", "j", "send")
    assert told.detail == "it runs for 70 s, the limit is 60 s"
    assert memory.batch(START + 700_000) == []
    (over,) = memory.batch(START + 800_000, event("completed", at=START + 790_000))
    assert (over.state, over.alert_id) == ("over", told.alert_id)
    assert over.told_id != told.told_id
    assert memory.lives == {}


def test_a_job_that_ends_in_time_is_never_told_and_leaves_nothing_behind() -> None:
    memory = DictMemory()
    memory.batch(START, event("waiting"), event("active", at=START + 5))
    memory.batch(START + 1000, event("completed", at=START + 900))
    assert memory.batch(START + HOUR_MS) == []
    assert (memory.lives, memory.dues) == ({}, {})


def test_a_job_that_waits_for_too_long_is_overdue_from_when_it_is_due() -> None:
    memory = DictMemory()
    memory.batch(START, event("retry-scheduled", pause_ms=600_000))
    assert memory.batch(START + 700_000) == []
    (told,) = memory.batch(START + 725_000)
    assert (told.kind, told.since_ms) == ("overdue", START + 600_000)
    assert kinds(memory.batch(START + 800_000, event("active", at=START + 790_000))) == [("overdue", "over", "j")]


def test_a_batch_that_runs_again_makes_the_same_alerts() -> None:
    first, second = DictMemory(), DictMemory()
    for memory in (first, second):
        memory.batch(START, event("active"))
    assert first.batch(START + 90_000) == second.batch(START + 90_000)


def test_what_is_long_over_when_it_is_read_is_not_told() -> None:
    memory = DictMemory()
    assert memory.batch(START + HOUR_MS, event("active"), event("completed", at=START + 900_000)) == []


def test_an_entry_that_is_read_after_what_came_of_it_changes_nothing() -> None:
    memory = DictMemory()
    memory.batch(START + 10_000, event("active", at=START + 5_000))
    memory.batch(START + 11_000, event("waiting", at=START))
    assert memory.lives["j"].running


def test_events_that_come_twice_or_in_any_order_tell_one_story() -> None:
    memory = DictMemory()
    events = [event("active", at=START + 2), event("waiting", at=START), event("completed", at=START + 9)]
    assert memory.batch(START + 10, *events, *events) == []
    assert memory.lives == {}


def test_a_told_job_is_forgotten_when_its_end_never_comes() -> None:
    memory = DictMemory()
    memory.batch(START, event("active"))
    memory.batch(START + 61_000)
    assert memory.lives
    assert memory.batch(START + 62_000 + FORGOTTEN_MS + 60_000) == []
    assert (memory.lives, memory.dues) == ({}, {})


def test_a_job_without_a_limit_is_forgotten_when_its_end_never_comes() -> None:
    memory = DictMemory(QueueRules(objective=Objective("mail", total_ms=1000, target=0.9)))
    memory.batch(START, event("active"))
    assert memory.batch(START + FORGOTTEN_MS - 1) == []
    assert memory.lives
    assert memory.batch(START + FORGOTTEN_MS + 60_000) == []
    assert (memory.lives, memory.dues) == ({}, {})


def test_subscriptions_of_a_message_have_lives_of_their_own() -> None:
    memory = DictMemory()
    memory.batch(START, event("waiting"))
    memory.batch(START + 1000, event("active", at=START + 500, subscription="a"))
    memory.batch(START + 2000, event("active", at=START + 600, subscription="b"))
    memory.batch(START + 3000, event("completed", at=START + 700, subscription="a"))
    assert kinds(memory.batch(START + 200_000)) == [("stuck", "open", "j")]


def test_a_queue_is_silent_until_something_happens_again() -> None:
    memory = DictMemory(QueueRules(silent_ms=60_000))
    memory.batch(START, event("completed"))
    assert memory.batch(START + 50_000) == []
    (told,) = memory.batch(START + 65_000)
    assert (told.kind, told.job_id, told.since_ms) == ("silent", "", START)
    assert memory.batch(START + HOUR_MS) == []
    (over,) = memory.batch(START + HOUR_MS + 1, event("active", at=START + HOUR_MS))
    assert (over.state, over.alert_id) == ("over", told.alert_id)
    assert kinds(memory.batch(START + 2 * HOUR_MS)) == [("silent", "open", "")]


def test_an_objective_burns_when_too_many_miss_it_and_is_over_when_they_do_not() -> None:
    memory = DictMemory(QueueRules(objective=Objective("mail", total_ms=1000, target=0.9), burn=5.0))
    good = [
        event(word, f"g-{n}", at) for n in range(5) for word, at in (("waiting", START), ("completed", START + 900))
    ]
    assert memory.batch(START + 1000, *good) == []
    late = [
        event(word, f"l-{n}", at) for n in range(4) for word, at in (("waiting", START), ("completed", START + 1001))
    ]
    assert memory.batch(START + 2000, *late) == []  # 4.4 times too fast, and too few
    (told,) = memory.batch(START + 3000, event("waiting", "d", START + 1), event("dlq", "d", START + 2900))
    assert (told.kind, told.state) == ("burning", "open")
    assert told.detail == "5 of 10 jobs of the last hour missed 0.9 within 1 s: 5.0 times too fast"
    assert memory.batch(START + 600_000) == []
    (over,) = memory.batch(START + HOUR_MS + 120_000)
    assert (over.state, over.alert_id) == ("over", told.alert_id)


def test_a_job_that_was_added_for_later_arrives_then() -> None:
    memory = DictMemory(QueueRules(objective=Objective("mail", total_ms=1000, target=0.9), burn=5.0))
    for n in range(6):
        memory.batch(START, event("delayed", f"d-{n}", START, pause_ms=60_000))
        done = START + 60_500
        assert memory.batch(done, event("active", f"d-{n}", done - 10), event("completed", f"d-{n}", done)) == []
    assert memory.known.minutes.endswith(", 6, 0]]")
