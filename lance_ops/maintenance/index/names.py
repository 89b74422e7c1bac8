"""What is done to an index as a whole, by its name: dropping it."""

from typing import Unpack

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.index.plan import mean_coverage
from lance_ops.maintenance.index.result import IndexResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.transaction.operations import CreateIndex


@cleans_up
def drop_index(target: Target, name: str, **run: Unpack[RunOptions]) -> IndexResult:
    """Remove an index with all of its segments; its files go with the next cleanup.

    Args:
        target: The dataset, see `Target`.
        name: Of the index.
        **run: See `RunOptions`.

    Raises:
        InvalidArgumentError: there is no index of this name.
    """

    def commit(attempt: Attempt, removed: tuple[IndexMetadata, ...]) -> IndexResult:
        done = attempt.commit(CreateIndex((), removed))
        if done.already_committed:
            return IndexResult(**attempt.common(done))
        return IndexResult(
            **attempt.common(done),
            indices=(name,),
            segments_removed=len(removed),
            coverage_before=mean_coverage(attempt.dataset, (name,)),
            coverage_after=0.0,
        )

    call = Run.start("index", target, run)
    return call.execute(lambda dataset: _segments_of(dataset, name), commit, IndexResult)


def _segments_of(dataset: Dataset, name: str) -> tuple[IndexMetadata, ...]:
    found = tuple(segment for segment in dataset.indices if segment.name == name)
    if not found:
        names = sorted({segment.name for segment in dataset.indices if not segment.is_system})
        raise InvalidArgumentError(
            f"no index {name!r}",
            path=dataset.uri,
            field="name",
            hint=f"indices: {', '.join(names) or 'none'}",
        )
    return found
