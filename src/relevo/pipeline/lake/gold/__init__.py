"""gold: small tables that answer a question each. Read them with Spark, or without a JVM through `Lake.arrow`."""
