"""Operations on a whole index by name: drop and rename."""

from dataclasses import replace
from typing import Unpack

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.index.plan import check_index_name, mean_coverage
from lance_ops.maintenance.index.result import IndexResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.transaction.operations import CreateIndex


@cleans_up
def drop_index(target: Target, name: str, **run: Unpack[RunOptions]) -> IndexResult:
    """Remove an index with all of its segments; the next cleanup removes its files.

    Args:
        target: The dataset, see `Target`.
        name: Name of the index.
        **run: See `RunOptions`.

    Raises:
        InvalidArgumentError: the index does not exist.
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


@cleans_up
def rename_index(target: Target, name: str, new_name: str, **run: Unpack[RunOptions]) -> IndexResult:
    """Rename an index; no file is read or written, and readers continue to use it.

    The format has no such operation: it is a CreateIndex that replaces the entries of the segments by equal
    ones with another name. Older versions keep the old name.

    Args:
        target: The dataset, see `Target`.
        name: Name of the index.
        new_name: Its new name.
        **run: See `RunOptions`.

    Raises:
        InvalidArgumentError: the index does not exist, or the new name is taken or reserved.
    """
    check_index_name(new_name)

    def plan(dataset: Dataset) -> tuple[IndexMetadata, ...]:
        found = _segments_of(dataset, name)
        if any(segment.name == new_name for segment in dataset.indices):
            raise InvalidArgumentError(
                f"index {new_name!r} already exists",
                path=dataset.uri,
                field="new_name",
                hint="choose another name, or drop that index",
            )
        # As in the manifest: `Dataset.indices` applies deferred remaps.
        uuids = {segment.uuid for segment in found}
        return tuple(segment for segment in dataset.manifest.indices if segment.uuid in uuids)

    def commit(attempt: Attempt, segments: tuple[IndexMetadata, ...]) -> IndexResult:
        renamed = tuple(replace(segment, name=new_name) for segment in segments)
        done = attempt.commit(CreateIndex(renamed, segments))
        if done.already_committed:
            return IndexResult(**attempt.common(done))
        return IndexResult(
            **attempt.common(done),
            indices=(new_name,),
            former_name=name,
            coverage_before=mean_coverage(attempt.dataset, (name,)),
            coverage_after=mean_coverage(done.dataset, (new_name,)),
        )

    return Run.start("index", target, run).execute(plan, commit, IndexResult)


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
