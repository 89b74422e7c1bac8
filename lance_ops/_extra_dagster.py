"""Check for the extra `dagster`: importing this module fails with install instructions without Dagster."""

from lance_ops.extras import require_extra

require_extra("dagster")
