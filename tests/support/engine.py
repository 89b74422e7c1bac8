"""Operations from a plan on, for tests that let others write between it and its commit."""

from lance_ops.maintenance.delete.operation import commit_delete
from lance_ops.maintenance.delete.plan import DeletePlan
from lance_ops.maintenance.engine import Run
from lance_ops.maintenance.results import DeleteResult
from lance_ops.table.dataset import Dataset


def delete_planned(dataset: Dataset, plan: DeletePlan, *, job_key: str | None = None) -> DeleteResult:
    """Commit a delete that was planned from this version, without planning it again."""
    run = Run.on("delete", dataset.store, dataset, {"job_key": job_key, "max_replans": 0})
    return run.replanned(lambda attempt: commit_delete(attempt, plan))
