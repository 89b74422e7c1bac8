"""Extra `dagster`: importing this says what to install where Dagster is missing."""

from lance_ops.extras import require_extra

require_extra("dagster")
