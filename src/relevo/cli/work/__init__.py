"""`relevo work`: work queues from the command line, one group of commands a file; this one puts them together."""

from relevo.cli.work import scopes  # first: help shows commands in the order of these imports

# isort: split
from relevo.cli.work import messages

# isort: split
from relevo.cli.work import dead_letters

# isort: split
from relevo.cli.work import operations

# isort: split
from relevo.cli.work import erasures, grants, keys, reviews, rules, schemas, webhooks
from relevo.cli.work.group import app

__all__ = [
    "app",
    "dead_letters",
    "erasures",
    "grants",
    "keys",
    "messages",
    "operations",
    "reviews",
    "rules",
    "schemas",
    "scopes",
    "webhooks",
]
