"""Building one index segment: shares prepared by tasks, then merged. Nothing here commits."""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import (
    BuildTask,
    IndexKind,
    Parameters,
    SegmentBuild,
    SegmentMove,
    Share,
    TaskMap,
)
from lance_ops.index.registry import kind_by_name, kind_of
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import AddressMap

T = TypeVar("T")
R = TypeVar("R")

ROWS_PER_TASK = 1 << 22
"""Default live rows that one build task reads; bounds its memory."""


@dataclass(frozen=True, slots=True)
class ShareTask:
    """`BuildTask` with the kind by name, so that it travels to executors as a plain value."""

    kind: str
    task: BuildTask


def build_tasks(
    build: SegmentBuild, kind: IndexKind, fragments: Sequence[Fragment], rows_per_task: int
) -> tuple[ShareTask, ...]:
    """Cut fragments into tasks of at most `rows_per_task` live rows each, but at least one fragment."""
    tasks: list[ShareTask] = []
    ids: list[int] = []
    rows = 0

    def close() -> None:
        if ids:
            task = BuildTask(
                build.dataset,
                build.column,
                tuple(ids),
                build.row_ids,
                build.directory,
                build.parameters,
                build.prepared,
            )
            tasks.append(ShareTask(kind.name, task))
            ids.clear()

    for fragment in fragments:
        if rows and rows + fragment.num_rows > rows_per_task:
            close()
            rows = 0
        ids.append(fragment.id)
        rows += fragment.num_rows
    close()
    return tuple(tasks)


def build_share(task: ShareTask) -> Share:
    """Run one build task; its output has a unique name, because it may run more than once."""
    path = f"{task.task.directory}/.tmp_share_{uuid.uuid4().hex}"
    return kind_by_name(task.kind).build_share(task.task, path)


def build_segment(
    dataset: Dataset,
    kind: IndexKind,
    column: str,
    name: str,
    *,
    segment_id: uuid.UUID,
    merged: Sequence[IndexMetadata],
    beside: Sequence[IndexMetadata],
    fragments: Sequence[Fragment],
    rows_per_task: int,
    row_ids: bool,
    parameters: Parameters,
    run: TaskMap,
) -> IndexMetadata:
    """Build one segment from existing segments and from rows.

    Args:
        dataset: The version that is read.
        kind: Kind of the index.
        column: Path of the indexed column.
        name: Index name.
        segment_id: Names the directory.
        merged: Segments merged into the new one.
        beside: Other segments of the index.
        fragments: Fragments to read.
        rows_per_task: Live rows that one task reads.
        row_ids: True for stable row ids instead of addresses.
        parameters: Result of `IndexKind.parameters`.
        run: Runs the tasks.

    Raises:
        UnreadableIndexError: an existing segment cannot be read.
    """
    field = dataset.lance_schema.field(column)
    build = SegmentBuild(
        dataset,
        field,
        column,
        tuple(merged),
        tuple(fragment.id for fragment in fragments),
        segment_directory(segment_id),
        row_ids,
        parameters,
        run,
        beside=tuple(beside),
    )
    build = replace(build, prepared=kind.prepare(build))
    shares = run(build_share, build_tasks(build, kind, fragments, rows_per_task), f"build shares of {name}")
    built = kind.merge(replace(build, shares=tuple(shares)))
    dataset.store.delete_many([path for share in shares for path in share.temporary])
    stable = dataset.manifest.uses_stable_row_ids
    covered = frozenset(build.fragment_ids).union(
        *(effective_fragments(dataset.manifest, segment) for segment in merged)
    )
    return IndexMetadata(
        uuid=segment_id,
        name=name,
        fields=(field.id,),
        dataset_version=dataset.version,
        fragment_ids=covered,
        type_url=kind.type_url,
        details=built.details,
        index_version=kind.index_version(stable_row_ids=stable, row_ids=row_ids)
        if built.index_version is None
        else built.index_version,
        created_at=int(time.time() * 1000),
        files=built.files,
    )


def catch_up(dataset: Dataset, segment: IndexMetadata, segment_id: uuid.UUID) -> IndexMetadata:
    """Rewrite a segment with the row maps of deferred compactions applied.

    Args:
        dataset: A version of the segment.
        segment: One of its `indices`, of a known kind.
        segment_id: Names the directory.

    Raises:
        UnreadableIndexError: the segment cannot be read.
    """
    kind = kind_of(segment)
    assert kind is not None
    nothing = AddressMap(())
    built = kind.remap(SegmentMove(dataset, segment, segment_directory(segment_id), nothing, dataset))
    return replace(
        segment,
        uuid=segment_id,
        dataset_version=dataset.version,
        fragment_ids=effective_fragments(dataset.manifest, segment),
        details=built.details,
        created_at=int(time.time() * 1000),
        base_id=None,
        files=built.files,
    )


def in_turn(function: Callable[[T], R], tasks: Sequence[T], message: str, /) -> list[R]:
    """Return a `TaskMap` that runs one task after the other, here."""
    del message
    return [function(task) for task in tasks]


def segment_directory(segment_id: uuid.UUID) -> str:
    """Directory of a segment, relative to the dataset root."""
    return f"_indices/{segment_id}"


def discard_segment(store: Store, segment_id: uuid.UUID) -> None:
    """Delete all files of a segment that no version refers to."""
    store.delete_many([info.path for info in store.list(segment_directory(segment_id))])
