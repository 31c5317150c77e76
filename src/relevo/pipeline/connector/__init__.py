"""The Spark data source `relevo`: queues as DataFrames, and rows as jobs. `spark.dataSource.register(RelevoSource)`."""
