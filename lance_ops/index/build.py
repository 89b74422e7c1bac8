"""Building one index segment: shares prepared by tasks, merged by the driver. Nothing here commits."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import BuildTask, IndexKind
from lance_ops.index.registry import kind_by_name
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata


@dataclass(frozen=True, slots=True)
class Share:
    """What one task of a build wrote: a file of sorted runs, and the rows of each."""

    path: str
    runs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShareTask:
    """`BuildTask` with the kind by name, so that it travels to executors as a plain value."""

    kind: str
    task: BuildTask


def build_tasks(
    dataset: Dataset,
    kind: IndexKind,
    column: str,
    fragments: Sequence[Fragment],
    directory: str,
    rows_per_task: int,
    *,
    row_ids: bool,
) -> tuple[ShareTask, ...]:
    """Cut fragments into tasks of at most `rows_per_task` live rows each, but at least one fragment."""
    tasks: list[ShareTask] = []
    ids: list[int] = []
    rows = 0

    def close() -> None:
        if ids:
            tasks.append(ShareTask(kind.name, BuildTask(dataset, column, tuple(ids), row_ids, directory)))
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
    """Run one task, on whatever machine; the file has a fresh name because a task may run more than once."""
    path = f"{task.task.directory}/.tmp_share_{uuid.uuid4().hex}.lance"
    return Share(path, kind_by_name(task.kind).build_share(task.task, path))


def build_segment(
    dataset: Dataset,
    kind: IndexKind,
    column: str,
    name: str,
    *,
    segment_id: uuid.UUID,
    merged: Sequence[IndexMetadata],
    fragments: Sequence[Fragment],
    shares: Sequence[Share],
    row_ids: bool,
) -> IndexMetadata:
    """Merge existing segments and fresh shares into one segment, and remove the shares.

    Args:
        dataset: Version that everything was read from.
        kind: Kind of the index.
        column: Path of the indexed column.
        name: Index name.
        segment_id: Names the directory that the shares already lie in.
        merged: Segments that the new one takes over.
        fragments: Fragments that the shares were built from.
        shares: Results of the tasks.
        row_ids: Whether all of it is about stable row ids and not addresses.
    """
    field = dataset.lance_schema.field(column)
    directory = segment_directory(segment_id)
    files = kind.merge(dataset, field, merged, [(share.path, share.runs) for share in shares], directory)
    dataset.store.delete_many([share.path for share in shares])
    stable = dataset.manifest.uses_stable_row_ids
    covered = frozenset(fragment.id for fragment in fragments).union(
        *(effective_fragments(dataset.manifest, segment) for segment in merged)
    )
    return IndexMetadata(
        uuid=segment_id,
        name=name,
        fields=(field.id,),
        dataset_version=dataset.version,
        fragment_ids=covered,
        type_url=kind.type_url,
        index_version=kind.index_version(stable_row_ids=stable, row_ids=row_ids),
        created_at=int(time.time() * 1000),
        files=files,
    )


def segment_directory(segment_id: uuid.UUID) -> str:
    """Directory of a segment, relative to the dataset root."""
    return f"_indices/{segment_id}"


def discard_segment(store: Store, segment_id: uuid.UUID) -> None:
    """Delete all files of a segment that no version refers to."""
    store.delete_many([info.path for info in store.list(segment_directory(segment_id))])
