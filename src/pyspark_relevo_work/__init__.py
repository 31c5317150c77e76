"""Makes `format("relevo-work")` known to Spark: a package has one `DefaultSource`, so this is one beside `pyspark_relevo`.

Without SQLAlchemy there is none. An error here would take every other Python data source of the session with it.
"""

from importlib.util import find_spec

if find_spec("sqlalchemy") is not None:
    from relevo.pipeline.connector.work_source import WorkSource as DefaultSource

    __all__ = ["DefaultSource"]
