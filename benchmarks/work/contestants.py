"""Who is measured, in which cases, and who of the rivals is best at one."""

from __future__ import annotations

from benchmarks.figures import Figures

RIVALS = ("procrastinate", "pgqueuer", "oban")
CEILING = "plain SQL"
STORES = ("sqlite", "postgresql", "mariadb")
PUBLISHED_IN = ("batch_100", "batch_500")
DRAINED_IN = ("drain_50", "drain_500")


def best_rival(figures: Figures, cases: tuple[str, ...]) -> tuple[str, float] | None:
    """Who of the rivals is fastest, each in its own best way."""
    found = [(value, name) for name in RIVALS if (value := figures.best(name, cases)) is not None]
    return None if not found else (max(found)[1], max(found)[0])
