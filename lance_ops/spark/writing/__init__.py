"""Writing of Spark rows by executors and the data source."""
