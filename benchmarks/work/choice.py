"""Names on a command line, with commas between them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """Reads `a,b,c`, each one of those known.

    >>> names_of(("sqlite", "mariadb"))("mariadb, sqlite")
    ['mariadb', 'sqlite']
    """

    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names

    return read
