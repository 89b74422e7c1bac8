"""Page copy: a compaction task that builds new files from the encoded pages of a group of fragments.

The result is verified: a sample of the rows, read from the old files and from the new ones, must be equal. A
failed verification only costs the time of a rewrite.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import LanceOpsError, UnsupportedError
from lance_ops.file.page_copy import CopySource, Wanted, copy_pages
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.file.writer import WrittenFile
from lance_ops.maintenance.compact.groups import Place, find_places
from lance_ops.maintenance.live_rows import even_cuts
from lance_ops.maintenance.tasks import remove_files
from lance_ops.storage import Store
from lance_ops.table.data_writer import data_file_of
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY, Bases
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.narrow_dictionaries import NarrowDictionaries, narrow_columns
from lance_ops.table.scan.fragment_reader import FragmentReader
from lance_ops.table.snapshot import Snapshot
from lance_ops.table.transaction.transaction import job_uuid

SAMPLED_FRAGMENTS = 4
SAMPLED_ROWS = 32
"""Rows of each sampled fragment that are compared after a copy."""
_DICTIONARY_ROWS = 1 << 17


class CopyDoubtError(Exception):
    """A copy is not possible, or differs: the group must be rewritten. The text has the reason."""


_Live: TypeAlias = tuple[Fragment, DeletionVector | None]
"""A fragment, and its rows that are not copied: deleted ones, and those of another new fragment."""


def copy_fragments(
    snapshot: Snapshot, deletions: Sequence[DeletionVector | None], files: int, job_key: str | None
) -> list[Fragment]:
    """Build new fragments by copying the pages of their files.

    Args:
        snapshot: Restricted to the fragments, whose files match (`find_places`).
        deletions: The deletion vector of each; these rows are not copied.
        files: Number of new fragments, with equal numbers of rows; at least 1, and at most the number of
            rows.
        job_key: See `write_data_files`.

    Returns:
        The new fragments, without ids and without row ids. Each has a file for each place.

    Raises:
        CopyDoubtError: The files cannot be copied, or the sample differs; written files are removed.
        CorruptFileError: A file is damaged; written files are removed.
    """
    live = [
        (fragment, deleted)
        for fragment, deleted in zip(snapshot.fragments, deletions, strict=True)
        if _kept((fragment, deleted))
    ]
    places = find_places([fragment for fragment, _ in live], snapshot.lance_schema)
    if isinstance(places, str):
        raise CopyDoubtError(places)
    copied: list[DataFile] = []
    new: list[Fragment] = []
    try:
        for part in cut_live(live, even_cuts(sum(map(_kept, live)), files)):
            rows = sum(map(_kept, part))
            _check_dictionaries(snapshot, part)
            first = len(copied)
            for place in places:
                # One by one: a failure of a later file needs the paths of earlier ones.
                copied += [_copy_file(snapshot.bases, place, part, rows, job_key)]
            new.append(Fragment(id=0, files=tuple(copied[first:]), physical_rows=rows))
            compare_sample(snapshot, part, new[-1])
    except BaseException:
        _discard(snapshot.store, copied)
        raise
    return new


def _check_dictionaries(snapshot: Snapshot, live: Sequence[_Live]) -> None:
    """Reject pages with dictionaries that pylance could not combine within a file."""
    schema = snapshot.lance_schema
    names = narrow_columns(prepare_schema(schema).arrow)
    if not names:
        return
    schema = schema.select(names)
    dictionaries = NarrowDictionaries(prepare_schema(schema).arrow, snapshot.manifest.storage_version)
    for fragment, _ in live:
        for batch in FragmentReader(snapshot, fragment).iter_batches(schema, batch_rows=_DICTIONARY_ROWS):
            if not dictionaries.add(batch):
                raise CopyDoubtError(f"the dictionaries of {', '.join(names)} do not fit into one file")


def cut_live(live: Sequence[_Live], counts: Sequence[int]) -> list[list[_Live]]:
    """Divide the rows of fragments, in order.

    Args:
        live: The fragments, which have rows.
        counts: Rows of each part; their sum is the number of all rows.

    Returns:
        The fragments of each part. A divided one is in several parts, with different rows deleted.
    """
    parts: list[list[_Live]] = []
    pending = list(reversed(live))
    for count in counts:
        part: list[_Live] = []
        wanted = count
        while wanted:
            fragment, deleted = pending.pop()
            kept = _kept((fragment, deleted))
            if kept > wanted:
                known = deleted or DeletionVector.from_offsets(())
                cut = int(known.live_offsets(fragment.physical_rows)[wanted])
                pending.append((fragment, known.union(DeletionVector.of_range(0, cut))))
                deleted = known.union(DeletionVector.of_range(cut, fragment.physical_rows))
            part.append((fragment, deleted))
            wanted -= min(kept, wanted)
        parts.append(part)
    return parts


def _copy_file(
    bases: Bases,
    place: Place,
    live: Sequence[_Live],
    rows: int,
    job_key: str | None,
) -> DataFile:
    sources = []
    for fragment, deleted in live:
        file = fragment.files[place.number]
        store, path = bases.data_path(file)
        offsets = None if deleted is None else deleted.offsets()
        wanted = None
        if place.schema is not None:
            wanted = Wanted(place.schema, dict(zip(file.fields, file.column_indices, strict=True)))
        sources.append(CopySource(store, path, file.size_bytes or None, offsets, wanted))
    path = f"{DATA_DIRECTORY}/{job_uuid(job_key)}.lance"
    written = _copy_or_leave_nothing(bases.root, path, sources)
    if written.num_rows != rows:
        remove_files(bases.root, [path])
        raise CopyDoubtError(f"the files have {written.num_rows:,} rows, expected {rows:,}")
    new = data_file_of(written)
    if place.schema is not None:
        return new
    # A table may use other ids for the columns of a file than the file itself.
    first = live[0][0].files[place.number]
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
        # It may exist although its writer failed: the response of the store may have been lost.
        remove_files(store, [path])
        if isinstance(error, UnsupportedError):
            raise CopyDoubtError(error.message) from error
        raise


def _discard(store: Store, files: Sequence[DataFile]) -> None:
    remove_files(store, [f"{DATA_DIRECTORY}/{file.path}" for file in files])


def _kept(live: _Live) -> int:
    fragment, deleted = live
    return fragment.physical_rows - (0 if deleted is None else len(deleted))


def compare_sample(
    snapshot: Snapshot, live: Sequence[_Live], new: Fragment, *, rows: int = SAMPLED_ROWS
) -> None:
    """Compare rows of some fragments, always the first and the last, between old and new files.

    Args:
        snapshot: Has the fragments.
        live: Old fragments with rows that are not compared.
        new: The new fragment, with all other rows of these.
        rows: Rows of each sampled fragment, beside the first and the last.

    Raises:
        CopyDoubtError: Rows differ, or the new files cannot be read.
    """
    draw = np.random.default_rng()
    chosen = ends_and_some(draw, len(live), SAMPLED_FRAGMENTS).tolist()
    before = np.cumsum([0, *map(_kept, live)])
    ranks = []
    for position in chosen:
        count = int(before[position + 1] - before[position])
        ranks.append(ends_and_some(draw, count, rows))
    schema = snapshot.lance_schema
    try:
        # All at once: each read opens a page, which may have the rows of many old fragments.
        moved = np.concatenate([found + int(before[at]) for at, found in zip(chosen, ranks, strict=True)])
        new_rows = FragmentReader(snapshot, new).take(moved, schema)
    except LanceOpsError as error:
        raise CopyDoubtError(f"the copied files cannot be read: {error.message}") from error
    start = 0
    for position, found in zip(chosen, ranks, strict=True):
        fragment, deleted = live[position]
        offsets = found if deleted is None else deleted.live_offsets(fragment.physical_rows)[found]
        old_rows = FragmentReader(snapshot, fragment).take(np.asarray(offsets, np.int64), schema)
        if not _same(old_rows, new_rows.slice(start, len(found))):
            raise CopyDoubtError(f"rows of fragment {fragment.id} differ after the copy")
        start += len(found)


def ends_and_some(draw: np.random.Generator, count: int, some: int) -> npt.NDArray[np.int64]:
    """Return the first and the last of some items, and some in between; deterministic, in order."""
    between = max(count - 2, 0)
    drawn = 1 + draw.choice(between, min(some, between), replace=False, shuffle=False)
    return np.unique(np.concatenate([[0], drawn, [count - 1]]).astype(np.int64))


def _same(left: pa.Table, right: pa.Table) -> bool:
    if left.equals(right):
        return True
    # NaN is not equal to itself.
    return left.schema.equals(right.schema) and repr(left.to_pylist()) == repr(right.to_pylist())
