"""Small files: neighbours written by partitions are joined into one file before the commit.

A partition of a few mebibytes is worth a file while tasks run, but hundreds of them would be hundreds of
fragments. Their encoded pages are copied, as compaction does, so that nothing is encoded twice, and readers
never see the small ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lance_ops.maintenance.compact.copy import CopyDoubtError, copy_fragments
from lance_ops.maintenance.ingest.plan import WriteTask, WriteTaskResult
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.tasks import remove_files
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.snapshot import Snapshot

SMALL_FILE_BYTES = 32 << 20
"""Size of a data file from which it is not joined."""

JOINED_BYTES = 128 << 20
"""Maximum size of a joined file; the limits of the write apply, too."""

MOST_BYTES = 2 << 30
"""Maximum bytes that one process copies; the rest is left to compactions. Executors copy any number."""


@dataclass(frozen=True, slots=True)
class _Join:
    """New fragments to join; serializable for executors."""

    task: WriteTask
    fragments: tuple[Fragment, ...]


def join_small_files(
    task: WriteTask, written: Sequence[WriteTaskResult], runner: Runner | None = None
) -> list[WriteTaskResult]:
    """Join consecutive small files; on the driver, before the commit.

    Args:
        task: The write.
        written: Files of all partitions, in the order of the rows.
        runner: Copies; threads of this process if None.

    Returns:
        The same rows in the same order. The joined small files are removed.

    Raises:
        TaskFailedError: A file could not be read or written. Joined files are removed; `written` is kept.
    """
    fragments = [fragment for result in written for fragment in result.fragments]
    groups = _within(group_small(fragments, task), None if runner is not None else MOST_BYTES)
    joins = [_Join(task, group) for group in groups if len(group) > 1]
    if not joins:
        return list(written)
    made: list[Fragment] = []

    def on_done(_: int, fragment: Fragment | None) -> None:
        made.extend(() if fragment is None else (fragment,))

    try:
        joined = (runner or LocalRunner()).map(_join, joins, on_done=on_done)
    except BaseException:
        remove_files(task.store, WriteTaskResult(tuple(made)).paths)
        raise
    found = iter(joined)
    result: list[Fragment] = []
    gone: list[Fragment] = []
    for group in groups:
        new = next(found) if len(group) > 1 else None
        result += group if new is None else (new,)
        gone += () if new is None else group
    remove_files(task.store, WriteTaskResult(tuple(gone)).paths)
    return [WriteTaskResult(tuple(result))]


def group_small(fragments: Sequence[Fragment], task: WriteTask) -> list[tuple[Fragment, ...]]:
    """Group consecutive small fragments within the limits; all others alone. Pure."""
    most_bytes = min(task.max_bytes_per_file, JOINED_BYTES)
    groups: list[tuple[Fragment, ...]] = []
    group: list[Fragment] = []
    rows = size = 0
    for fragment in fragments:
        is_small = fragment.data_bytes < SMALL_FILE_BYTES
        rows, size = rows + fragment.physical_rows, size + fragment.data_bytes
        if group and not (is_small and rows <= task.max_rows_per_file and size <= most_bytes):
            groups.append(tuple(group))
            group, rows, size = [], fragment.physical_rows, fragment.data_bytes
        if is_small:
            group.append(fragment)
        else:
            groups.append((fragment,))
            rows = size = 0
    return [*groups, tuple(group)] if group else groups


def _within(groups: Sequence[tuple[Fragment, ...]], most: int | None) -> list[tuple[Fragment, ...]]:
    """Return groups of several fragments up to a number of bytes; the fragments of others one by one."""
    kept: list[tuple[Fragment, ...]] = []
    size = 0
    for group in groups:
        more = sum(fragment.data_bytes for fragment in group) if len(group) > 1 else 0
        if most is not None and size + more > most:
            kept += [(fragment,) for fragment in group]
        else:
            kept.append(group)
            size += more
    return kept


def _join(join: _Join) -> Fragment | None:
    """Join the fragments of a group; None if their pages cannot be copied, as those of blobs."""
    task = join.task
    manifest = Manifest(
        0, task.schema, join.fragments, datetime.now(UTC), data_format=("lance", task.storage_version)
    )
    snapshot = Snapshot(task.store, manifest, counted=True)
    try:
        (new,) = copy_fragments(snapshot, [None] * len(join.fragments), 1, task.job_key)
    except CopyDoubtError:
        return None
    return new
