"""Live rows of fragments as a stream, for tasks that read whole fragments."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby

import pyarrow as pa

from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.model import Schema
from lance_ops.storage.fetched_store import fetch_objects
from lance_ops.storage.prefetch import has_latency, prefetch, read_small
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_reader import FragmentReader
from lance_ops.table.scan.small_fragments import GROUPS_AT_ONCE, FragmentGroup, find_groups
from lance_ops.table.snapshot import Snapshot

_BATCH_BYTES = 16 << 20
_MIN_ROWS, _MAX_ROWS = 1024, 1 << 18

# Maximum bytes of fragments that are read concurrently on a store with latency.
_AT_ONCE, _SMALL_BYTES = 16, 2 << 20

# Maximum bytes of files that a task fetches whole before it starts: in total, and of each; large ones
# saturate a store.
_FETCHED_BYTES, _FETCHED_EACH = 64 << 20, 4 << 20
_LEAST_BYTES = 4 << 10


def rows_per_batch(fragments: Sequence[Fragment]) -> int:
    """Return the rows of a batch of about 16 MiB, by the recorded file sizes."""
    rows = sum(fragment.physical_rows for fragment in fragments)
    size = sum(fragment.data_bytes for fragment in fragments)
    return max(_MIN_ROWS, min(_MAX_ROWS, _BATCH_BYTES * rows // size)) if size else 1 << 16


def _live_batches(
    snapshot: Snapshot, fragment: Fragment, schema: Schema, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one fragment."""
    deletions = snapshot.deletion_vector(fragment)
    # Each file is read once: only this reader has it open.
    reader = FragmentReader(snapshot.narrowed((fragment,), schema), fragment)
    start = 0
    for batch in reader.iter_batches(schema, batch_rows=batch_rows):
        stop = start + batch.num_rows
        if deletions is not None and deletions.count(start, stop):
            live = pa.array(~deletions.mask(start, stop))
            yield batch.filter(live)
        else:
            yield batch
        start = stop


def iter_live_rows(snapshot: Snapshot, schema: Schema, *, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield live rows in order; small fragments are read together.

    Args:
        snapshot: The fragments to read.
        schema: The columns; those in no file are null.
        batch_rows: Physical rows read at once.
    """
    fragments = snapshot.fragments

    def stream(group: Sequence[Fragment]) -> Iterator[pa.RecordBatch]:
        if len(group) > 1:
            rows = FragmentGroup(snapshot, group, [0] * len(group), ahead=schema)
            if rows.is_bounded(schema):
                yield from _joined(rows.fetch(schema, rows.live_rows())).to_batches()
                return
        for fragment in group:
            yield from _live_batches(snapshot, fragment, schema, batch_rows)

    groups: Iterator[Sequence[Fragment]] = ((fragment,) for fragment in fragments)
    # Each value of a blob is a separate read, and may be large.
    if not has_blobs(schema):
        is_far = has_latency(snapshot.store)
        groups = find_groups(fragments, lambda fragment: fragment, batch_rows, is_far=is_far)
    if not has_latency(snapshot.store):
        yield from chain.from_iterable(map(stream, groups))
        return
    for threads, some in groupby(groups, _groups_at_once):
        if threads > 1:
            reads = (partial(_listed, stream, group) for group in some)
            yield from chain.from_iterable(prefetch(reads, threads))
        else:
            for group in some:
                yield from stream(group)


def _joined(table: pa.Table) -> pa.Table:
    try:
        return table.combine_chunks()
    except pa.ArrowInvalid:
        # The dictionaries of all chunks together have more values than the index type allows.
        return table


def _groups_at_once(group: Sequence[Fragment]) -> int:
    """Return how many fragments to read ahead; a large one saturates the store alone."""
    if len(group) > 1:
        return GROUPS_AT_ONCE
    return _AT_ONCE if group[0].data_bytes <= _SMALL_BYTES else 1


def _listed(
    stream: Callable[[Sequence[Fragment]], Iterator[pa.RecordBatch]], group: Sequence[Fragment]
) -> list[pa.RecordBatch]:
    return list(stream(group))


def fetched(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with small files in memory, for a task that reads all of its fragments.

    On stores with latency, deletion files and data files are fetched concurrently, with one request each.
    """
    store = snapshot.store
    if not has_latency(store):
        return snapshot
    objects: list[tuple[str, int]] = []
    for fragment in snapshot.fragments:
        places = [(snapshot.bases.data_path(file), file.size_bytes) for file in fragment.files]
        if fragment.deletion_file is not None:
            place = snapshot.bases.deletion_path(fragment.id, fragment.deletion_file)
            places.append((place, _LEAST_BYTES))
        objects += [
            (path, max(size, _LEAST_BYTES))
            for (base, path), size in places
            if base is store and size <= _FETCHED_EACH
        ]
    at_hand = fetch_objects(store, objects, _FETCHED_BYTES)
    return Snapshot(at_hand, snapshot.manifest, snapshot.storage_options, snapshot.counted)


def read_deletions(snapshot: Snapshot) -> list[DeletionVector | None]:
    """Read the deletion vectors of all fragments, concurrently on stores with latency; they are cached."""
    reads = (partial(snapshot.deletion_vector, fragment) for fragment in snapshot.fragments)
    return list(read_small(snapshot.store, reads))


class RowCutter:
    """A stream of batches from which exact numbers of rows are read, one part after the other."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def take(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Return the next `rows` rows; fewer only at the end of the stream."""
        while rows > 0:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            if batch is None:
                return
            self._rest = batch.slice(rows) if batch.num_rows > rows else None
            batch = batch.slice(0, rows)
            rows -= batch.num_rows
            yield batch

    def is_exhausted(self) -> bool:
        """Return whether no row is left."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return True
        return False


def even_cuts(rows: int, parts: int) -> list[int]:
    """Spread rows over parts whose sizes differ by at most one, larger ones first."""
    size, larger = divmod(rows, parts)
    return [size + 1] * larger + [size] * (parts - larger)
