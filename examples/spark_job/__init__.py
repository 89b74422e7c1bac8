"""A downstream Spark job on the PySpark resource of Dagster."""
