"""`relevo`, also as `python -m relevo`: the command line, or what to install for it."""

from relevo.errors import DependencyMissing

_NEEDED = {"click", "rich", "typer"}


def main() -> None:
    """The console script."""
    try:
        from relevo.cli import main as command_line
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _NEEDED:
            raise
        told = DependencyMissing(what="The command `relevo`", package=missing, extra="relevo[cli]")
        raise SystemExit(f"error: {told}") from None
    command_line()


if __name__ == "__main__":
    main()
