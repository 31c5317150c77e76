"""`relevo work`: work queues from the command line, one group of commands a file; this one puts them together."""

from relevo.cli.work import messages  # first: help shows commands in the order of these imports

# isort: split
from relevo.cli.work import upkeep

# isort: split
from relevo.cli.work import erasures, grants, keys, reviews, rules, schemas, webhooks
from relevo.cli.work.group import app

__all__ = ["app", "erasures", "grants", "keys", "messages", "reviews", "rules", "schemas", "upkeep", "webhooks"]
