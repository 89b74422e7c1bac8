"""Tries: distinguish a retry that finds its own commit from a cleared task.

Airflow sets `max_tries` of a cleared task instance to the previous tries plus `retries`, so the job key
contains it. If `retries` was lowered in between, that number may be the old one; this module then decides for
a commit with the same key. It compares the number of tries, and the run's `clear_number`, which rises with
the clear of any of its tasks: unclear cases count as cleared, since repeated or refused work is noticed, and
a successful task without work is not.
"""

from collections.abc import Mapping
from typing import Any

MAX_TRIES = "airflow.max_tries"
TRY_NUMBER = "airflow.try_number"
CLEAR_NUMBER = "airflow.clear_number"


def work_of(ti: Any) -> str:
    """Return the identity of the work of a task instance, the same after retries and clears."""
    return f"airflow|{ti.dag_id}|{ti.task_id}|{ti.run_id}|{ti.map_index}"


def key_after_clear(context: Any, retries: int) -> str:
    """Return the job key of cleared work whose `max_tries` did not change; all later tries share it."""
    ti = context["ti"]
    return f"{work_of(ti)}|{ti.max_tries}|{ti.max_tries - retries}|{_clears(context)}"


def noted_of(context: Any) -> dict[str, str]:
    """Return the commit properties that describe a try."""
    ti = context["ti"]
    return {
        "airflow.dag_id": ti.dag_id,
        "airflow.task_id": ti.task_id,
        "airflow.run_id": ti.run_id,
        MAX_TRIES: str(ti.max_tries),
        TRY_NUMBER: str(ti.try_number),
        CLEAR_NUMBER: str(_clears(context)),
    }


def cleared_since(context: Any, retries: int, noted: Mapping[str, str]) -> bool:
    """Return whether the task was or may have been cleared since the try that made a commit.

    Args:
        context: Airflow's, of this try.
        retries: Retries of the task.
        noted: Properties of the commit; empty if its version was removed.
    """
    ti = context["ti"]
    if noted.get(MAX_TRIES, str(ti.max_tries)) != str(ti.max_tries):
        return True
    committed_by = int(noted.get(TRY_NUMBER, 1))
    # The number of tries at the last clear, if any.
    before = ti.max_tries - retries
    if committed_by <= before < ti.try_number:
        return True
    return committed_by < ti.try_number and _clears(context) > int(noted.get(CLEAR_NUMBER, 0))


def _clears(context: Any) -> int:
    return int(getattr(context.get("dag_run"), "clear_number", None) or 0)
