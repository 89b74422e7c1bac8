"""Airflow provider: connection to stores, operators for operations and fleets, events of new versions."""

from lance_ops.extras import require_extra

require_extra("airflow")
