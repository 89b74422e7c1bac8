"""Page copy: the task of a compaction that makes new files of the encoded pages of a group of fragments.

What comes out is looked at before it counts: a sample of the rows, read from the old files and from the new
ones, has to be the same. A doubt costs the time of a rewrite and nothing else.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_ops.errors import LanceOpsError, UnsupportedError
from lance_ops.file.page_copy import CopySource, copy_pages
from lance_ops.file.writer import WrittenFile
from lance_ops.maintenance.tasks import remove_files
from lance_ops.storage import Store
from lance_ops.table.data_writer import data_file_of
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY, Bases
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_reader import FragmentReader
from lance_ops.table.snapshot import Snapshot
from lance_ops.table.transaction.transaction import job_uuid

SAMPLED_FRAGMENTS = 8
SAMPLED_ROWS = 16
"""Rows of each sampled fragment that are compared after a copy."""


class CopyDoubtError(Exception):
    """A copy cannot be made, or is not what it should be: the group is to be rewritten. Its text says why."""


def copy_fragments(
    snapshot: Snapshot, deletions: Sequence[DeletionVector | None], job_key: str | None
) -> Fragment:
    """Make one fragment of many, by copying the pages of their files.

    Args:
        snapshot: Narrowed to the fragments, which have the same columns in the same files.
        deletions: The deletion vector of each; such rows are left out.
        job_key: See `write_data_files`.

    Returns:
        The new fragment, without an id and without row ids. It has as many files as each of the old ones.

    Raises:
        CopyDoubtError: The files cannot be copied, or the sample differs; nothing is left behind.
        CorruptFileError: A file is damaged; nothing is left behind.
    """
    live = [
        (fragment, deleted)
        for fragment, deleted in zip(snapshot.fragments, deletions, strict=True)
        if deleted is None or len(deleted) < fragment.physical_rows
    ]
    rows = sum(fragment.physical_rows - _count(deleted) for fragment, deleted in live)
    copied: list[DataFile] = []
    try:
        for place in range(len(live[0][0].files)):
            # One by one: a failure of a later file has to know of those before.
            copied += [_copy_file(snapshot.bases, place, live, rows, job_key)]
        new = Fragment(id=0, files=tuple(copied), physical_rows=rows)
        _compare_sample(snapshot, live, new)
    except BaseException:
        _discard(snapshot.store, copied)
        raise
    return new


def _copy_file(
    bases: Bases,
    place: int,
    live: Sequence[tuple[Fragment, DeletionVector | None]],
    rows: int,
    job_key: str | None,
) -> DataFile:
    sources = []
    for fragment, deleted in live:
        file = fragment.files[place]
        store, path = bases.data_path(file)
        offsets = None if deleted is None else deleted.offsets()
        sources.append(CopySource(store, path, file.size_bytes or None, offsets))
    path = f"{DATA_DIRECTORY}/{job_uuid(job_key)}.lance"
    written = _copy_or_leave_nothing(bases.root, path, sources)
    if written.num_rows != rows:
        remove_files(bases.root, [path])
        raise CopyDoubtError(f"the files gave {written.num_rows:,} rows, not {rows:,}")
    # A table may know the columns of a file by other ids than the file itself.
    first = live[0][0].files[place]
    new = data_file_of(written)
    return DataFile(
        path=new.path,
        fields=first.fields,
        column_indices=first.column_indices,
        major=new.major,
        minor=new.minor,
        size_bytes=new.size_bytes,
    )


def _copy_or_leave_nothing(store: Store, path: str, sources: Sequence[CopySource]) -> WrittenFile:
    try:
        return copy_pages(store, path, sources)
    except BaseException as error:
        # It may be there although its writer failed: the answer of the store may be what was lost.
        remove_files(store, [path])
        if isinstance(error, UnsupportedError):
            raise CopyDoubtError(error.message) from error
        raise


def _discard(store: Store, files: Sequence[DataFile]) -> None:
    remove_files(store, [f"{DATA_DIRECTORY}/{file.path}" for file in files])


def _count(deleted: DeletionVector | None) -> int:
    return 0 if deleted is None else len(deleted)


def _compare_sample(
    snapshot: Snapshot, live: Sequence[tuple[Fragment, DeletionVector | None]], new: Fragment
) -> None:
    """Read rows of some fragments, the first and the last always, where they were and where they are."""
    choose = np.random.default_rng()
    chosen = {0, len(live) - 1, *choose.integers(0, len(live), SAMPLED_FRAGMENTS).tolist()}
    before = np.cumsum([0, *(fragment.physical_rows - _count(deleted) for fragment, deleted in live)])
    reader, schema = FragmentReader(snapshot, new), snapshot.lance_schema
    for position in sorted(chosen):
        fragment, deleted = live[position]
        count = int(before[position + 1] - before[position])
        ranks = np.unique([0, count - 1, *choose.integers(0, count, SAMPLED_ROWS).tolist()])
        offsets = ranks if deleted is None else deleted.live_offsets(fragment.physical_rows)[ranks]
        old_rows = FragmentReader(snapshot, fragment).take(
            np.asarray(offsets, np.int64), snapshot.lance_schema
        )
        try:
            new_rows = reader.take(ranks + int(before[position]), schema)
        except LanceOpsError as error:
            raise CopyDoubtError(f"what was copied cannot be read: {error.message}") from error
        if not _same(old_rows, new_rows):
            raise CopyDoubtError(f"rows of fragment {fragment.id} were not the same after it")


def _same(left: pa.Table, right: pa.Table) -> bool:
    if left.equals(right):
        return True
    # NaN is not equal to itself.
    return left.schema.equals(right.schema) and repr(left.to_pylist()) == repr(right.to_pylist())
