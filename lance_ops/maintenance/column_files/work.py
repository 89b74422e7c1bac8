"""Task of a compaction of columns: the new files of one fragment."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lance_ops.errors import UnsupportedError
from lance_ops.file.page_copy import ColumnSource, join_columns
from lance_ops.maintenance.column_files.joins import FileJoin, FragmentJoins, find_joins
from lance_ops.maintenance.compact.copy import CopyDoubtError, compare_sample
from lance_ops.maintenance.tasks import remove_files
from lance_ops.storage import Store
from lance_ops.table.data_writer import data_file_of
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.snapshot import Snapshot
from lance_ops.table.transaction.transaction import job_uuid


@dataclass(frozen=True, slots=True)
class JoinTask:
    """One fragment; serializable for executors.

    Attributes:
        snapshot: The version of the plan, with this fragment.
        groups: See `find_joins`.
        job_key: See `write_data_files`.
    """

    snapshot: Snapshot
    groups: tuple[tuple[str, ...], ...] = ()
    job_key: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedFragment:
    """An uncommitted fragment with its new files.

    Attributes:
        old: The fragment.
        new: The same with other data files; the old one if nothing could be joined.
        notes: Why files stayed apart.
        seconds: Duration.
    """

    old: Fragment
    new: Fragment
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def written(self) -> tuple[DataFile, ...]:
        """The new files."""
        return tuple(file for file in self.new.files if file not in self.old.files)

    @property
    def paths(self) -> tuple[str, ...]:
        """The new files, relative to the root."""
        return tuple(f"{DATA_DIRECTORY}/{file.path}" for file in self.written)

    @property
    def bytes_removed(self) -> int:
        """Recorded size of the files that it no longer has."""
        return sum(file.size_bytes for file in self.old.files if file not in self.new.files)


def join_fragment(task: JoinTask) -> JoinedFragment:
    """Write the new files of a fragment, and compare a sample of its rows.

    Files that cannot be joined although the manifest does not show why stay as they are.

    Raises:
        CorruptFileError: A file is damaged. Files written by then are removed.
    """
    started = time.perf_counter()
    snapshot = task.snapshot
    (fragment,) = snapshot.fragments
    apart: dict[int, str] = {}
    while True:
        joins = find_joins(fragment, snapshot.lance_schema, task.groups, apart=apart)
        notes = (*joins.reasons, *apart.values())
        written: list[DataFile] = []
        try:
            written.extend(_join(task, fragment, join) for join in joins.joins)
            new = fragment.replace(files=_files_after(joins, written))
            if joins.replaced:
                # Pages are copied whole: the first and the last row show whether each is in its place.
                compare_sample(snapshot, [(fragment, None)], new, rows=0)
        except BaseException as error:
            remove_files(snapshot.store, [f"{DATA_DIRECTORY}/{file.path}" for file in written])
            if isinstance(error, CopyDoubtError):
                return JoinedFragment(fragment, fragment, (*notes, str(error)), time.perf_counter() - started)
            if not isinstance(error, UnsupportedError):
                raise
            found = _culprits(snapshot, fragment, error)
            if found.issubset(apart):
                return JoinedFragment(fragment, fragment, (*notes, str(error)), time.perf_counter() - started)
            apart |= dict.fromkeys(found, str(error))
            continue
        return JoinedFragment(fragment, new, notes, time.perf_counter() - started)


def _culprits(snapshot: Snapshot, fragment: Fragment, error: UnsupportedError) -> set[int]:
    """Return the positions of the files that an error is about."""
    return {
        number
        for number, file in enumerate(fragment.files)
        if snapshot.bases.data_path(file)[1] == error.path
    }


def _join(task: JoinTask, fragment: Fragment, join: FileJoin) -> DataFile:
    snapshot = task.snapshot
    table = snapshot.lance_schema
    schema = replace(table, fields=tuple(top for top in table.fields if top.name in join.columns))
    sources = []
    for number in join.files:
        file = fragment.files[number]
        store, path = snapshot.bases.data_path(file)
        sources.append(ColumnSource(store, path, file.size_bytes or None, file.live_columns))
    path = f"{DATA_DIRECTORY}/{job_uuid(task.job_key)}.lance"
    try:
        return data_file_of(join_columns(snapshot.store, path, schema, sources))
    except BaseException:
        # It may exist although its writer failed: the response of the store may have been lost.
        remove_files(snapshot.store, [path])
        raise


def _files_after(joins: FragmentJoins, written: Sequence[DataFile]) -> tuple[DataFile, ...]:
    replaced = joins.replaced
    kept = [file for number, file in enumerate(joins.fragment.files) if number not in replaced]
    return (*written, *kept)


def discard_joins(store: Store, results: Sequence[JoinedFragment]) -> None:
    """Delete the files of uncommitted fragments."""
    remove_files(store, (path for result in results for path in result.paths))
