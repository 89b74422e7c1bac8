"""A DAG whose `retries` are lowered between its run and the clear of its task; see `test_airflow.py`.

As a script, in Airflow's environment: runs what a clear has left to do, as the scheduler would.
"""

import os
import sys
from datetime import UTC, datetime

import pyarrow as pa
from airflow.sdk import DAG

from lance_ops.airflow.operators import LanceAppendOperator, LanceReplaceOperator

LAKE, RETRIES = os.environ["LAKE"], int(os.environ.get("RETRIES", "2"))


def rows(_):
    """One row: how many retries the task has."""
    return pa.table({"id": [RETRIES]})


with DAG("lance_lowered", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False) as dag:
    common = {"source": rows, "retries": RETRIES}
    LanceReplaceOperator(task_id="replace", dataset=f"{LAKE}/set.lance", predicate="id >= 0", **common)
    LanceAppendOperator(task_id="append", dataset=f"{LAKE}/added.lance", **common)


def run_what_was_cleared():
    """Schedule and run each task instance; print its numbers and its state."""
    from airflow.models import TaskInstance
    from airflow.sdk.definitions.dag import _run_task
    from airflow.serialization.serialized_objects import create_scheduler_operator
    from airflow.utils.session import create_session
    from sqlalchemy import select

    for task_id in dag.task_ids:
        task = dag.get_task(task_id)
        with create_session() as session:
            ti = session.scalars(select(TaskInstance).filter_by(dag_id=dag.dag_id, task_id=task_id)).one()
            ti.task = create_scheduler_operator(task)
            ti.dag_run.schedule_tis([ti], session=session)
            session.commit()
            session.refresh(ti)
            numbers = f"max_tries={ti.max_tries} try_number={ti.try_number}"
            done = _run_task(ti=ti, task=task)
        sys.stdout.write(f"RAN {task_id} {numbers} {done.ti.state.value}\n")


if __name__ == "__main__":
    run_what_was_cleared()
