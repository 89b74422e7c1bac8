"""Page copy: the task of a compaction that makes new files of the encoded pages of a group of fragments.

What comes out is looked at before it counts: a sample of the rows, read from the old files and from the new
ones, has to be the same. A doubt costs the time of a rewrite and nothing else.
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
from lance_ops.maintenance.compact.method import Place, find_places
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
    """A copy cannot be made, or is not what it should be: the group is to be rewritten. Its text says why."""


_Live: TypeAlias = tuple[Fragment, DeletionVector | None]
"""A fragment, and which of its rows are not copied: deleted ones, and those of another new fragment."""


def copy_fragments(
    snapshot: Snapshot, deletions: Sequence[DeletionVector | None], files: int, job_key: str | None
) -> list[Fragment]:
    """Make new fragments of many, by copying the pages of their files.

    Args:
        snapshot: Narrowed to the fragments, whose files match (`find_places`).
        deletions: The deletion vector of each; such rows are left out.
        files: How many new fragments, which have equally many rows; at least 1, and no more than rows.
        job_key: See `write_data_files`.

    Returns:
        The new fragments, without ids and without row ids. Each has a file for each place.

    Raises:
        CopyDoubtError: The files cannot be copied, or the sample differs; nothing is left behind.
        CorruptFileError: A file is damaged; nothing is left behind.
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
                # One by one: a failure of a later file has to know of those before.
                copied += [_copy_file(snapshot.bases, place, part, rows, job_key)]
            new.append(Fragment(id=0, files=tuple(copied[first:]), physical_rows=rows))
            _compare_sample(snapshot, part, new[-1])
    except BaseException:
        _discard(snapshot.store, copied)
        raise
    return new


def _check_dictionaries(snapshot: Snapshot, live: Sequence[_Live]) -> None:
    """Refuse pages whose dictionaries pylance could not join if they were in one file."""
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
    """Deal the rows of fragments out, in their order.

    Args:
        live: The fragments, which have rows.
        counts: How many rows each part gets; all of them together.

    Returns:
        The fragments of each part. One that is cut is in two parts or more, with other rows deleted.
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
        raise CopyDoubtError(f"the files gave {written.num_rows:,} rows, not {rows:,}")
    new = data_file_of(written)
    if place.schema is not None:
        return new
    # A table may know the columns of a file by other ids than the file itself.
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
        # It may be there although its writer failed: the answer of the store may be what was lost.
        remove_files(store, [path])
        if isinstance(error, UnsupportedError):
            raise CopyDoubtError(error.message) from error
        raise


def _discard(store: Store, files: Sequence[DataFile]) -> None:
    remove_files(store, [f"{DATA_DIRECTORY}/{file.path}" for file in files])


def _kept(live: _Live) -> int:
    fragment, deleted = live
    return fragment.physical_rows - (0 if deleted is None else len(deleted))


def _compare_sample(snapshot: Snapshot, live: Sequence[_Live], new: Fragment) -> None:
    """Read rows of some fragments, the first and the last always, where they were and where they are."""
    draw = np.random.default_rng()
    chosen = ends_and_some(draw, len(live), SAMPLED_FRAGMENTS).tolist()
    before = np.cumsum([0, *map(_kept, live)])
    ranks = []
    for position in chosen:
        count = int(before[position + 1] - before[position])
        ranks.append(ends_and_some(draw, count, SAMPLED_ROWS))
    schema = snapshot.lance_schema
    try:
        # All at once: each reading of a row opens its page, which may hold those of many old fragments.
        moved = np.concatenate([found + int(before[at]) for at, found in zip(chosen, ranks, strict=True)])
        new_rows = FragmentReader(snapshot, new).take(moved, schema)
    except LanceOpsError as error:
        raise CopyDoubtError(f"what was copied cannot be read: {error.message}") from error
    start = 0
    for position, found in zip(chosen, ranks, strict=True):
        fragment, deleted = live[position]
        offsets = found if deleted is None else deleted.live_offsets(fragment.physical_rows)[found]
        old_rows = FragmentReader(snapshot, fragment).take(np.asarray(offsets, np.int64), schema)
        if not _same(old_rows, new_rows.slice(start, len(found))):
            raise CopyDoubtError(f"rows of fragment {fragment.id} were not the same after it")
        start += len(found)


def ends_and_some(draw: np.random.Generator, count: int, some: int) -> npt.NDArray[np.int64]:
    """The first and the last of a number of things, and some between; as many each time, in order."""
    between = max(count - 2, 0)
    drawn = 1 + draw.choice(between, min(some, between), replace=False, shuffle=False)
    return np.unique(np.concatenate([[0], drawn, [count - 1]]).astype(np.int64))


def _same(left: pa.Table, right: pa.Table) -> bool:
    if left.equals(right):
        return True
    # NaN is not equal to itself.
    return left.schema.equals(right.schema) and repr(left.to_pylist()) == repr(right.to_pylist())
