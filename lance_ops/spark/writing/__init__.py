"""Writing: what executors and the data source do with the rows that Spark hands over."""
