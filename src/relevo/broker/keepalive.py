"""Lets the kernel notice that the other end of a connection is gone: a network that drops packets resets nothing."""

from __future__ import annotations

import socket

UNHEARD_S = 15
"""After so many seconds without a sign from the other end the kernel ends the connection."""

_OPTIONS = (
    ("TCP_KEEPIDLE", UNHEARD_S // 3),
    ("TCP_KEEPINTVL", UNHEARD_S // 3),
    ("TCP_KEEPCNT", 2),
    ("TCP_USER_TIMEOUT", UNHEARD_S * 1000),
)


def keep_alive(found: socket.socket) -> None:
    """Asks an idle peer for a sign of life, and gives up one that confirms nothing."""
    if found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        if hasattr(socket, name):  # not every system has all of them
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
