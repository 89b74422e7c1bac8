"""Operators: one for each operation of `lance_ops`."""

from lance_ops.airflow.operators.base import LanceOperator
from lance_ops.airflow.operators.rows import (
    LanceAppendOperator,
    LanceDeleteOperator,
    LanceMergeOperator,
    LanceReplaceOperator,
)
from lance_ops.airflow.operators.upkeep import (
    LanceCleanupOperator,
    LanceCompactOperator,
    LanceCompactWalOperator,
    LanceFleetRunOperator,
    LanceFsckOperator,
    LanceIndexOperator,
    LanceMaintainOperator,
)

__all__ = [
    "LanceAppendOperator",
    "LanceCleanupOperator",
    "LanceCompactOperator",
    "LanceCompactWalOperator",
    "LanceDeleteOperator",
    "LanceFleetRunOperator",
    "LanceFsckOperator",
    "LanceIndexOperator",
    "LanceMaintainOperator",
    "LanceMergeOperator",
    "LanceOperator",
    "LanceReplaceOperator",
]
