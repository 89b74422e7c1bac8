"""Tries: whether a task that finds its commit made is tried again, or was cleared.

Airflow sets `max_tries` of a task instance that is cleared to the tries that were, and `retries` on top, so
the key of a job has it. Where `retries` was lowered in between, that number may be the old one;
whoever finds the commit of its key then asks here. A clear is told by the number of tries, and by the run's
`clear_number`, which rises with the clear of any of its tasks: what is not certain counts as cleared, for
work that is done again or refused is seen, and a green task that did nothing is not.
"""

from collections.abc import Mapping
from typing import Any

MAX_TRIES = "airflow.max_tries"
TRY_NUMBER = "airflow.try_number"
CLEAR_NUMBER = "airflow.clear_number"


def work_of(ti: Any) -> str:
    """What a task instance is there for, however often it is tried again or cleared."""
    return f"airflow|{ti.dag_id}|{ti.task_id}|{ti.run_id}|{ti.map_index}"


def key_after_clear(context: Any, retries: int) -> str:
    """The job key of work that was cleared though its `max_tries` stayed; all tries since share it."""
    ti = context["ti"]
    return f"{work_of(ti)}|{ti.max_tries}|{ti.max_tries - retries}|{_clears(context)}"


def noted_of(context: Any) -> dict[str, str]:
    """What a commit notes of the try that made it."""
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
    """Whether the task was cleared, or may have been, since the try that made a commit.

    Args:
        context: Airflow's, of this try.
        retries: The task's.
        noted: Properties of the commit; empty where it cannot be asked any more.
    """
    ti = context["ti"]
    if noted.get(MAX_TRIES, str(ti.max_tries)) != str(ti.max_tries):
        return True
    committed_by = int(noted.get(TRY_NUMBER, 1))
    # The tries that were when it was cleared last, if it ever was.
    before = ti.max_tries - retries
    if committed_by <= before < ti.try_number:
        return True
    return committed_by < ti.try_number and _clears(context) > int(noted.get(CLEAR_NUMBER, 0))


def _clears(context: Any) -> int:
    return int(getattr(context.get("dag_run"), "clear_number", None) or 0)
