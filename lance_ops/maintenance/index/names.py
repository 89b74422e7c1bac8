"""Operations on a whole index by name: drop and rename."""

from dataclasses import replace
from typing import Unpack

from lance_ops.errors import InvalidArgumentError, public
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.index.plan import check_index_name, mean_coverage
from lance_ops.maintenance.index.result import IndexResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.transaction.operations import CreateIndex


@public(target="uri_or_dataset")
@cleans_up
def drop_index(uri_or_dataset: Target, name: str, **run: Unpack[RunOptions]) -> IndexResult:
    """Remove an index with all of its segments; its files go with the next cleanup.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        name: Of the index.
        **run: See `RunOptions`.

    Raises:
        InvalidArgumentError: there is no index of this name.

    Examples:
        >>> done = lo.create_index("events.lance", "id")
        >>> lo.drop_index("events.lance", "id_idx").indices
        ('id_idx',)
    """

    def commit(attempt: Attempt, removed: tuple[IndexMetadata, ...]) -> IndexResult:
        done = attempt.commit(CommitRequest(CreateIndex((), removed)))
        if done.already_committed:
            return IndexResult(**attempt.common(done))
        return IndexResult(
            **attempt.common(done),
            indices=(name,),
            segments_removed=len(removed),
            coverage_before=mean_coverage(attempt.dataset, (name,)),
            coverage_after=0.0,
        )

    call = Run.start("index", uri_or_dataset, run)
    return call.execute(lambda dataset: _segments_of(dataset, name), commit, IndexResult)


@public(target="uri_or_dataset")
@cleans_up
def rename_index(uri_or_dataset: Target, name: str, new_name: str, **run: Unpack[RunOptions]) -> IndexResult:
    """Give an index another name; no file is read or written, and every reader goes on with it.

    The format has no such operation: it is a CreateIndex that replaces the entries of the segments by equal
    ones with another name. Older versions keep the old name.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        name: Of the index.
        new_name: Its new name.
        **run: See `RunOptions`.

    Raises:
        InvalidArgumentError: there is no index of this name, or one of the new name, or the format reserves
            that.

    Examples:
        >>> done = lo.create_index("events.lance", "id")
        >>> lo.rename_index("events.lance", "id_idx", "by_id").indices
        ('by_id',)
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
        done = attempt.commit(CommitRequest(CreateIndex(renamed, segments)))
        if done.already_committed:
            return IndexResult(**attempt.common(done))
        return IndexResult(
            **attempt.common(done),
            indices=(new_name,),
            former_name=name,
            coverage_before=mean_coverage(attempt.dataset, (name,)),
            coverage_after=mean_coverage(done.dataset, (new_name,)),
        )

    return Run.start("index", uri_or_dataset, run).execute(plan, commit, IndexResult)


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
