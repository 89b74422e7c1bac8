"""Components: fleets and datasets from YAML, for projects that `dg` manages."""

from lance_ops.dagster.components.datasets import LanceDatasetComponent
from lance_ops.dagster.components.fleet import LanceFleetComponent

__all__ = ["LanceDatasetComponent", "LanceFleetComponent"]
