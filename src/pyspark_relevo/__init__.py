"""Makes `format("relevo")` known to Spark, which looks for packages named `pyspark_*` and takes the `DefaultSource` of each."""

from relevo.pipeline.connector.source import RelevoSource as DefaultSource

__all__ = ["DefaultSource"]
