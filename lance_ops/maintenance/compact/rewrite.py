"""Rewrite: the task of a compaction, which brings the live rows of one group of fragments into new files."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.schema.json_values import stored_documents
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.index.watch import Noted, Watch
from lance_ops.maintenance.compact.copy import CopyDoubtError, copy_fragments
from lance_ops.maintenance.compact.groups import CompactionGroup
from lance_ops.maintenance.compact.method import Method
from lance_ops.maintenance.compact.passing import PassingRows
from lance_ops.maintenance.live_rows import (
    RowCutter,
    even_cuts,
    fetched,
    iter_live_rows,
    read_deletions,
    rows_per_batch,
)
from lance_ops.maintenance.tasks import remove_files
from lance_ops.maintenance.text import ids_text
from lance_ops.storage import Store
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, write_data_files
from lance_ops.table.manifest.data_file import UNASSIGNED
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import SEQUENCES, Fragment
from lance_ops.table.narrow_dictionaries import narrow_columns
from lance_ops.table.row_lineage.read import read_sequences
from lance_ops.table.row_lineage.write import store_sequences
from lance_ops.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """One group to rewrite; travels to executors.

    Attributes:
        snapshot: The version that it was planned from, with the fragments of the group.
        storage_version: Of the data files to write.
        group: What to rewrite.
        batch_rows: Rows read at once; None chooses by the size of a row.
        max_bytes_per_file: Cap of the data files.
        spill_limit: Bytes above which a row id or version sequence goes into a data file; None keeps all of
            them in the manifest.
        job_key: See `write_data_files`.
        watches: What indices want to know of the rows while they pass.
    """

    snapshot: Snapshot
    storage_version: str
    group: CompactionGroup
    batch_rows: int | None = None
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    spill_limit: int | None = None
    job_key: str | None = None
    watches: tuple[Watch, ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """A rewritten group, not committed yet.

    Attributes:
        group: As planned.
        new_fragments: In the order of rows; ids not assigned yet.
        purged_rows: Deleted rows that were left out.
        deletions: Deletion vectors of the old fragments, for those who need them once more.
        copied: Whether the pages were copied, not the rows rewritten.
        doubt: Why the rows were rewritten although the pages were to be copied; None for no reason.
        seconds: What the task took, beside others of its machine.
        noted: What the watches of the task noted of the new fragments; nothing where pages were copied.
    """

    group: CompactionGroup
    new_fragments: tuple[Fragment, ...]
    purged_rows: int
    deletions: tuple[DeletionVector | None, ...] = ()
    copied: bool = False
    doubt: str | None = None
    seconds: float = 0.0
    noted: tuple[Noted, ...] = ()

    @property
    def rows(self) -> int:
        """Rows written."""
        return sum(fragment.physical_rows for fragment in self.new_fragments)

    @property
    def bytes_written(self) -> int:
        """Size of the new data files."""
        return sum(fragment.data_bytes for fragment in self.new_fragments)

    @property
    def paths(self) -> tuple[str, ...]:
        """The new data files, relative to the root."""
        return tuple(f"data/{file.path}" for fragment in self.new_fragments for file in fragment.files)


def rewrite_group(task: RewriteTask) -> RewriteResult:
    """Bring the live rows of a group, in order, into the planned number of files, by the planned method.

    Where pages were to be copied, but the files do not allow it or what came out is not the same, the rows
    are rewritten.

    Raises:
        CorruptFileError: a file is damaged, or other rows were read than the manifest and the deletion files
            say. Files written by then are removed.
        UnsupportedError: Narrow dictionaries keep all fragments of the group apart. Likewise.
    """
    started = time.perf_counter()
    task = replace(task, snapshot=fetched(task.snapshot))
    snapshot, fragments = task.snapshot, task.group.fragments
    deletions = read_deletions(snapshot)
    purged = sum(len(deleted) for deleted in deletions if deleted is not None)
    rows = sum(fragment.physical_rows for fragment in fragments) - purged
    new: list[Fragment] = []
    doubt: str | None = None
    noted: tuple[Noted, ...] = ()
    copied = task.group.method.method is Method.COPY and rows > 0
    try:
        if copied:
            try:
                new += copy_fragments(snapshot, deletions, task.group.files, task.job_key)
            except CopyDoubtError as error:
                copied, doubt = False, str(error)
        if not copied:
            noted = _write_rows(task, rows, new)
            if not purged:
                _check_fewer(task, new)
        if snapshot.uses_stable_row_ids:
            _add_row_sequences(task, deletions, new)
    except BaseException:
        discard_rewrites(snapshot.store, [RewriteResult(task.group, tuple(new), 0)])
        raise
    seconds = time.perf_counter() - started
    return RewriteResult(task.group, tuple(new), purged, tuple(deletions), copied, doubt, seconds, noted)


def _write_rows(task: RewriteTask, survivors: int, new: list[Fragment]) -> tuple[Noted, ...]:
    """Read the live rows, write them evenly spread over the files, and put each fragment into `new`.

    Returns:
        What the watches of the task noted of them.
    """
    snapshot, fragments = task.snapshot, task.group.fragments
    schema = present_columns(snapshot.lance_schema, fragments)
    batch_rows = task.batch_rows or rows_per_batch(fragments)
    stored = stored_documents(schema)
    rows = RowCutter(iter_live_rows(snapshot, stored, batch_rows=batch_rows))
    passing = PassingRows(task.watches, schema)
    for count in even_cuts(survivors, max(1, task.group.files)) if survivors else ():
        written = write_data_files(
            snapshot.store,
            passing.one_fragment(rows.take(count)),
            stored,
            version=task.storage_version,
            max_rows_per_file=count,
            max_bytes_per_file=task.max_bytes_per_file,
            base_uris=snapshot.bases.blob_uris,
            job_key=task.job_key,
            described=schema,
        )
        new += written
        passing.written(len(written))
    _check_count(task, survivors, new, rows)
    return passing.noted


def _check_count(task: RewriteTask, survivors: int, new: Sequence[Fragment], rows: RowCutter) -> None:
    """A rewrite that would lose or invent a row must never reach a commit."""
    written = sum(fragment.physical_rows for fragment in new)
    if written != survivors or not rows.is_exhausted():
        raise CorruptFileError(
            f"fragments {ids_text(task.group.fragment_ids)} have {survivors} live rows, "
            f"but their files gave {'more' if written == survivors else written}",
            path=task.snapshot.uri,
        )


def _check_fewer(task: RewriteTask, new: Sequence[Fragment]) -> None:
    """Refuse a rewrite that would be due again at once, because dictionaries kept its fragments apart."""
    if len(new) < len(task.group.fragments) or len(new) <= task.group.files:
        return
    names = narrow_columns(prepare_schema(task.snapshot.lance_schema).arrow)
    if names:
        raise UnsupportedError(
            f"fragments {ids_text(task.group.fragment_ids)} cannot become fewer: their dictionaries "
            "together have more values than the indices can number",
            path=task.snapshot.uri,
            field=", ".join(names),
            hint="give the column a wider index type, or plain values, with alter_columns",
        )


def discard_rewrites(store: Store, results: Sequence[RewriteResult]) -> None:
    """Delete the files of groups that will not be committed."""
    remove_files(store, (path for result in results for path in result.paths))


def present_columns(schema: Schema, fragments: Sequence[Fragment]) -> Schema:
    """The columns that at least one fragment has data of.

    A column added without data has no file in old fragments and reads as null; it stays so when no fragment
    of the group has it. A group without any column keeps them all, since rows need a file to be counted by.
    """
    stored = {field_id for fragment in fragments for file in fragment.files for field_id in file.fields}
    if UNASSIGNED in stored:
        # Whose data that is nobody can tell; reading a column that seems to have none says so.
        return schema
    names = [field.name for field in schema.fields if any(item.id in stored for item in field.walk())]
    return (
        Schema(tuple(field for field in schema.fields if field.name in names), schema.metadata)
        if names
        else schema
    )


def _add_row_sequences(
    task: RewriteTask, deletions: Sequence[DeletionVector | None], new: list[Fragment]
) -> None:
    """Give new fragments the row ids and row versions of the surviving rows, cut to their sizes.

    Each is put back as soon as it has them: what fails half-way then knows every file that was written.
    """
    columns: dict[str, list[npt.NDArray[np.uint64]]] = {name: [] for name in SEQUENCES}
    for fragment, deleted in zip(task.group.fragments, deletions, strict=True):
        live = slice(None) if deleted is None else deleted.live_offsets(fragment.physical_rows)
        for name, values in read_sequences(task.snapshot.bases, fragment).items():
            columns[name].append(values[live])
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    start = 0
    for position, fragment in enumerate(new):
        stop = start + fragment.physical_rows
        new[position] = store_sequences(
            task.snapshot.bases,
            fragment,
            {name: values[start:stop] for name, values in joined.items()},
            storage_version=task.storage_version,
            limit=task.spill_limit,
            job_key=task.job_key,
        )
        start = stop
