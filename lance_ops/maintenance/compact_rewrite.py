"""The task of a compaction: write the live rows of one group of fragments into new files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError, CorruptManifestError
from lance_ops.file.schema import Schema
from lance_ops.maintenance.compact_plan import CompactionGroup
from lance_ops.maintenance.live_rows import RowCutter, even_cuts, iter_live_rows, rows_per_batch
from lance_ops.maintenance.tasks import remove_files
from lance_ops.maintenance.text import ids_text
from lance_ops.storage import Store
from lance_ops.table.base_paths import Bases
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, write_data_files
from lance_ops.table.deletion import DeletionVector, read_deletion_vector
from lance_ops.table.fragment import ExternalFile, Fragment, RowSequence
from lance_ops.table.row_ids import (
    decode_row_ids,
    decode_row_versions,
    encode_row_ids,
    encode_row_versions,
)


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """One group to rewrite; travels to executors.

    Attributes:
        bases: Where the files of the dataset lie.
        schema: Of the dataset.
        storage_version: Of its data files.
        group: What to rewrite.
        stable_row_ids: Whether rows carry ids that move along.
        batch_rows: Rows read at once; None chooses by the size of a row.
        max_bytes_per_file: Cap of the data files.
    """

    bases: Bases
    schema: Schema
    storage_version: str
    group: CompactionGroup
    stable_row_ids: bool
    batch_rows: int | None = None
    max_bytes_per_file: int = MAX_BYTES_PER_FILE


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """A rewritten group, not committed yet.

    Attributes:
        group: As planned.
        new_fragments: In the order of rows; ids not assigned yet.
        purged_rows: Deleted rows that were left out.
    """

    group: CompactionGroup
    new_fragments: tuple[Fragment, ...]
    purged_rows: int

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
    """Write the live rows of a group, in order, spread evenly over the planned number of files.

    Raises:
        CorruptFileError: a file is damaged, or other rows were read than the manifest and the deletion files
            say. Files written by then are removed.
    """
    fragments = task.group.fragments
    deletions = [read_deletion_vector(task.bases, fragment) for fragment in fragments]
    survivors = sum(
        fragment.physical_rows - (len(deleted) if deleted is not None else 0)
        for fragment, deleted in zip(fragments, deletions, strict=True)
    )
    schema = present_columns(task.schema, fragments)
    batch_rows = task.batch_rows or rows_per_batch(fragments)
    rows = RowCutter(iter_live_rows(task.bases, fragments, deletions, schema, batch_rows=batch_rows))
    new: list[Fragment] = []
    try:
        for count in even_cuts(survivors, max(1, task.group.files)) if survivors else ():
            new += write_data_files(
                task.bases.root,
                rows.take(count),
                schema,
                version=task.storage_version,
                max_rows_per_file=count,
                max_bytes_per_file=task.max_bytes_per_file,
                base_uris=task.bases.blob_uris,
            )
        _check_count(task, survivors, new, rows)
        if task.stable_row_ids:
            new = _with_row_sequences(task.bases, fragments, deletions, new)
    except BaseException:
        discard_rewrites(task.bases.root, [RewriteResult(task.group, tuple(new), 0)])
        raise
    purged = sum(len(deleted) for deleted in deletions if deleted is not None)
    return RewriteResult(task.group, tuple(new), purged)


def _check_count(task: RewriteTask, survivors: int, new: Sequence[Fragment], rows: RowCutter) -> None:
    """A rewrite that would lose or invent a row must never reach a commit."""
    written = sum(fragment.physical_rows for fragment in new)
    if written != survivors or not rows.is_exhausted():
        raise CorruptFileError(
            f"fragments {ids_text(task.group.fragment_ids)} have {survivors} live rows, "
            f"but their files gave {'more' if written == survivors else written}",
            path=task.bases.root.uri,
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
    names = [field.name for field in schema.fields if any(item.id in stored for item in field.walk())]
    return (
        Schema(tuple(field for field in schema.fields if field.name in names), schema.metadata)
        if names
        else schema
    )


def _with_row_sequences(
    bases: Bases,
    old: Sequence[Fragment],
    deletions: Sequence[DeletionVector | None],
    new: Sequence[Fragment],
) -> list[Fragment]:
    """The new fragments with the row ids and row versions of the surviving rows, cut to their sizes."""
    columns: dict[str, list[npt.NDArray[np.uint64]]] = {
        "row_ids": [],
        "created_at_versions": [],
        "last_updated_at_versions": [],
    }
    for fragment, deleted in zip(old, deletions, strict=True):
        live = slice(None) if deleted is None else deleted.live_offsets(fragment.physical_rows)
        for name, values in _sequences(bases, fragment):
            columns[name].append(values[live])
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    return [
        fragment.replace(
            row_ids=encode_row_ids(joined["row_ids"][start:stop]),
            created_at_versions=encode_row_versions(joined["created_at_versions"][start:stop]),
            last_updated_at_versions=encode_row_versions(joined["last_updated_at_versions"][start:stop]),
        )
        for fragment, start, stop in _spans(new)
    ]


def _spans(fragments: Sequence[Fragment]) -> Iterator[tuple[Fragment, int, int]]:
    start = 0
    for fragment in fragments:
        yield fragment, start, start + fragment.physical_rows
        start += fragment.physical_rows


def _sequences(bases: Bases, fragment: Fragment) -> Iterator[tuple[str, npt.NDArray[np.uint64]]]:
    rows = fragment.physical_rows
    if fragment.row_ids is None:
        raise CorruptManifestError(
            f"fragment {fragment.id} has no row ids, though the table has stable ones",
            path=bases.root.uri,
            field="row_ids",
        )
    yield "row_ids", decode_row_ids(_read(bases, fragment.row_ids), rows=rows)
    # Old writers recorded no versions: such rows count as made in version 1, as the peer says.
    created = np.ones(rows, dtype=np.uint64)
    if fragment.created_at_versions is not None:
        created = decode_row_versions(_read(bases, fragment.created_at_versions), rows=rows)
    yield "created_at_versions", created
    updated = created
    if fragment.last_updated_at_versions is not None:
        updated = decode_row_versions(_read(bases, fragment.last_updated_at_versions), rows=rows)
    yield "last_updated_at_versions", updated


def _read(bases: Bases, sequence: RowSequence) -> bytes:
    if not isinstance(sequence, ExternalFile):
        return sequence
    store, path = bases.external_path(sequence)
    return bytes(store.read(path, sequence.offset, sequence.size))
