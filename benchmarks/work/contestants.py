"""Who is measured, and who of the rivals is best at what."""

from __future__ import annotations

from benchmarks.figures import Figures

RIVALS = ("procrastinate", "pgqueuer", "oban")
CEILING = "plain SQL"
STORES = ("sqlite", "postgresql", "mariadb")
SINGLE = ("single",)
PUBLISHED_IN = ("batch_100", "batch_500")
PUBLISHED_1KB_IN = ("batch_1kb_100", "batch_1kb_500")
DRAINED_IN = ("claim_complete_50", "claim_complete_500")


def best_rival(figures: Figures, cases: tuple[str, ...]) -> tuple[str, float] | None:
    """Who of the rivals is fastest, each in its own best way."""
    found = [(value, name) for name in RIVALS if (value := figures.best(name, cases)) is not None]
    return None if not found else (max(found)[1], max(found)[0])
