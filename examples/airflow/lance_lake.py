"""A DAG that loads a table, replaces a day, merges corrections, and keeps it healthy.

`LAKE` in the environment is the folder or URI of the lake.
"""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from airflow.sdk import DAG, Asset

from lance_ops.airflow.operators import (
    LanceAppendOperator,
    LanceCleanupOperator,
    LanceCompactOperator,
    LanceDeleteOperator,
    LanceFsckOperator,
    LanceIndexOperator,
    LanceMaintainOperator,
    LanceMergeOperator,
    LanceReplaceOperator,
)

EVENTS = f"{os.environ['LAKE']}/events.lance"


def rows_of_day(context: Any) -> pa.Table:
    """Ten events; a source may ask the context for its data interval."""
    del context
    return pa.table({"id": list(range(10)), "day": ["2026-01-01"] * 10, "clicks": [1] * 10})


def corrections(context: Any) -> pa.Table:
    """One event that is known, and one that came late."""
    del context
    return pa.table({"id": [4, 100], "day": ["2026-01-01", "2026-01-01"], "clicks": [5, 1]})


with DAG("lance_lake", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False):
    load = LanceAppendOperator(
        task_id="load",
        dataset=EVENTS,
        source=rows_of_day,
        outlets=[Asset("lance_events", uri=f"file://{EVENTS}")],
    )
    replace = LanceReplaceOperator(
        task_id="replace", dataset=EVENTS, source=rows_of_day, predicate="day = '2026-01-01'"
    )
    correct = LanceMergeOperator(task_id="correct", dataset=EVENTS, source=corrections, on=["id"])
    forget = LanceDeleteOperator(task_id="forget", dataset=EVENTS, predicate="id = {{ 2 + 1 }}")
    index = LanceIndexOperator(task_id="index", dataset=EVENTS, column="id")
    compact = LanceCompactOperator(task_id="compact", dataset=EVENTS, deferrable=True)
    refresh = LanceIndexOperator(task_id="refresh", dataset=EVENTS)
    clean = LanceCleanupOperator(task_id="clean", dataset=EVENTS, older_than=timedelta(0), retain_versions=1)
    maintain = LanceMaintainOperator(task_id="maintain", dataset=EVENTS)
    check = LanceFsckOperator(task_id="check", dataset=EVENTS, deep=True)
    load >> replace >> correct >> forget >> index >> compact >> refresh >> clean >> maintain >> check
