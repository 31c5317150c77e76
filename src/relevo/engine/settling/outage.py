"""After an outage of Redis nobody is taken for dead at once: no lease could be renewed, and those that live come back at their
own pace. What was held then would count as a death, and after two of them a job was dead while it ran."""

from __future__ import annotations

from relevo.broker.link import Link

RETURN_S = 3.0
"""How long it may take a worker to find a server that is back: the longest pause between two tries, and a sign-in."""


def unheard_s(link: Link, idle_s: float) -> float:
    """For how long nothing may be taken for abandoned yet; 0 when there was no outage that cost a renewal."""
    renewal_s = idle_s / 3
    return max(0.0, RETURN_S + renewal_s - link.back_for(longer_than_s=renewal_s))
