"""Moving index segments along with rewritten fragments, so that coverage never falls.

Building one index segment: shares prepared by tasks, then merged. Nothing here commits.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lance_ops.errors import UnreadableIndexError
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import (
    BuildTask,
    IndexKind,
    Parameters,
    SegmentBuild,
    SegmentMove,
    Share,
    TaskMap,
    WatchingKind,
)
from lance_ops.index.registry import kind_by_name, kind_of, parameters_as_made
from lance_ops.index.upkeep.routes import AT_ONCE, Route, SegmentRoute
from lance_ops.index.watch import Watch
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.feature_flags import flags_for, uses_tagged_reuse
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragment_reuse.write import new_generations, write_fragment_reuse
from lance_ops.table.manifest.fragments.totals import fragments_of
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import AddressMap
from lance_ops.table.transaction.operations import RewrittenIndex
from lance_ops.table.transaction.transaction import job_uuid

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


Groups = Sequence[tuple[Sequence[Fragment], Sequence[Fragment]]]
"""The fragments of each group of a rewrite, and those that replace them."""


@dataclass(frozen=True, slots=True)
class FollowTask:
    """Remap of one segment after a rewrite; picklable for executors.

    Attributes:
        dataset: The version that the rewrite was planned from.
        groups: The replaced fragments and their replacements, from which executors build the future version.
        moves: Maps its rows.
        item: The segment and its route.
        job_key: Marks the name of the segment; see `write_data_files`.
        notes: Observations of the new fragments, by id.
    """

    dataset: Dataset
    groups: Groups
    moves: AddressMap
    item: SegmentRoute
    job_key: str | None
    notes: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Followed:
    """Result of a remap task.

    Attributes:
        item: The segment and its route.
        index: Entry for the Rewrite; None if the segment cannot be read.
        problem: Error of an unreadable segment.
        seconds: Duration.
    """

    item: SegmentRoute
    index: RewrittenIndex | None
    problem: UnreadableIndexError | None
    seconds: float

    @property
    def written_bytes(self) -> int:
        """Size of the new segment."""
        return 0 if self.index is None else sum(file.size_bytes for file in self.index.files)


def follow_tasks(
    dataset: Dataset,
    moves: AddressMap,
    groups: Groups,
    routes: Sequence[SegmentRoute],
    job_key: str | None = None,
    noted: Mapping[Watch, Mapping[int, bytes]] | None = None,
) -> list[FollowTask]:
    """Return remap tasks of the segments that cover a rewritten fragment, most expensive first.

    Segments that are rewritten without lost rows cover none.

    Args:
        dataset: The version that the rewrite was planned from.
        moves: Maps its rows.
        groups: The fragments that are replaced, and those that replace them.
        routes: Remap strategy of each segment.
        job_key: See `FollowTask`.
        noted: Observations of new fragments, by id.
    """
    followers = sorted(
        (
            item
            for item in routes
            if item.route is Route.PURGE
            or (item.route in AT_ONCE and (item.segment.fragment_ids or frozenset()) & moves.old_fragment_ids)
        ),
        key=lambda item: -item.cost.seconds,
    )
    return [
        FollowTask(dataset, groups, moves, item, job_key, _notes_for(dataset, item, noted or {}))
        for item in followers
    ]


def follow(task: FollowTask) -> Followed:
    """Write the segment that takes the place of another one after a rewrite.

    A segment that cannot be read is left out, so that the rewritten fragments leave its coverage and are
    scanned. What is written has a fresh name: a task may run more than once.
    """
    started = time.perf_counter()
    new_uuid = uuid.UUID(job_uuid(task.job_key))
    write = _build if task.item.route is Route.BUILD else _remap
    index, problem = None, None
    try:
        index = write(task, new_uuid)
    except UnreadableIndexError as error:
        problem = error
    finally:
        if index is None:
            discard_segment(task.dataset.store, new_uuid)
    return Followed(task.item, index, problem, time.perf_counter() - started)


def defer_remap(
    dataset: Dataset,
    moves: AddressMap,
    routes: Sequence[SegmentRoute],
    read_version: int,
    job_key: str | None = None,
) -> IndexMetadata | None:
    """Write the fragment reuse index for segments that are not remapped.

    Args:
        dataset: The version that the rewrite was planned from.
        moves: Maps its rows.
        routes: Remap strategy of each segment.
        read_version: The version that the rewrite is committed on.
        job_key: Marks the name of its directory.

    Returns:
        The entry that replaces the one of `dataset`; None when the rewrite touches no deferred segment.
    """
    waiting = (item.segment for item in routes if item.route is Route.DEFER)
    if not any((segment.fragment_ids or frozenset()) & moves.old_fragment_ids for segment in waiting):
        return None
    reuse = dataset.fragment_reuse
    earlier = () if reuse is None else reuse.generations
    is_tagged = uses_tagged_reuse(dataset.manifest)
    added = new_generations(moves.groups, read_version, is_tagged=is_tagged)
    entry_id = uuid.UUID(job_uuid(job_key))
    try:
        return write_fragment_reuse(
            dataset.store, (*earlier, *added), read_version, entry_id, is_tagged=is_tagged
        )
    except Exception:
        # A file whose answer was lost may be there.
        discard_segment(dataset.store, entry_id)
        raise


def discard_followed(store: Store, followed: Sequence[Followed]) -> None:
    """Delete the files of segments that no version refers to."""
    for index in (item.index for item in followed if item.index is not None):
        discard_segment(store, index.new_uuid)


def _rewritten(task: FollowTask) -> Dataset:
    """Return the dataset with the new fragments in place of the old ones, before it is committed."""
    dataset, groups = task.dataset, task.groups
    old = {fragment.id for group, _ in groups for fragment in group}
    kept = [fragment for fragment in dataset.fragments if fragment.id not in old]
    manifest = dataset.manifest.replace(
        fragments=(*kept, *(fragment for _, group in groups for fragment in group))
    )
    reader_flags, writer_flags = flags_for(manifest)
    manifest = manifest.replace(reader_flags=reader_flags, writer_flags=writer_flags)
    return Dataset(dataset.store, dataset.location, manifest, storage_options=dataset.storage_options)


def _notes_for(
    dataset: Dataset, item: SegmentRoute, noted: Mapping[Watch, Mapping[int, bytes]]
) -> Mapping[int, bytes]:
    watch = watch_of(dataset, item) if noted else None
    return {} if watch is None else noted.get(watch, {})


def watch_of(dataset: Dataset, item: SegmentRoute) -> Watch | None:
    """Return the watch of a segment for the rows that a rewrite reads; None without one, or if unreadable."""
    kind = kind_of(item.segment)
    if not isinstance(kind, WatchingKind) or item.route is not Route.LOOK:
        return None
    with contextlib.suppress(UnreadableIndexError):
        return kind.watch(dataset, item.segment)
    return None


def _remap(task: FollowTask, new_uuid: uuid.UUID) -> RewrittenIndex:
    segment = task.item.segment
    kind = kind_of(segment)
    assert kind is not None
    built = kind.remap(
        SegmentMove(
            task.dataset, segment, segment_directory(new_uuid), task.moves, _rewritten(task), task.notes
        )
    )
    return RewrittenIndex(
        old_uuid=segment.uuid,
        new_uuid=new_uuid,
        type_url=segment.type_url,
        details=built.details,
        index_version=(segment.index_version or 0) if built.index_version is None else built.index_version,
        files=built.files,
    )


def _build(task: FollowTask, new_uuid: uuid.UUID) -> RewrittenIndex:
    """Read the column of the fragments that the segment covers from now on, a share at a time."""
    segment, dataset = task.item.segment, task.dataset
    kind = kind_of(segment)
    assert kind is not None
    covered = effective_fragments(dataset.manifest, segment)
    after = covered - task.moves.old_fragment_ids
    for group in task.moves.groups:
        if all(fragment.id in covered for fragment in group.old_fragments):
            after |= {fragment.id for fragment in group.new_fragments}

    rewritten = _rewritten(task)
    built = build_segment(
        rewritten,
        kind,
        dataset.lance_schema.path(segment.fields[0]),
        segment.name,
        segment_id=new_uuid,
        merged=(),
        beside=(),
        fragments=fragments_of(rewritten.fragments, after),
        rows_per_task=ROWS_PER_TASK,
        # A segment of row ids needs no remap, and is never passed here.
        row_ids=False,
        parameters=parameters_as_made(dataset, [segment]),
        run=in_turn,
    )
    return RewrittenIndex(
        old_uuid=segment.uuid,
        new_uuid=new_uuid,
        type_url=built.type_url,
        details=built.details,
        index_version=built.index_version or 0,
        files=built.files,
    )
