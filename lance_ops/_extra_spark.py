"""Check for the extra `spark`: importing this module fails with install instructions without Spark."""

from lance_ops.extras import require_extra

require_extra("pyspark", "py4j")
