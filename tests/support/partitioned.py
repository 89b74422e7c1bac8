"""Stable partitions: rewrites that spread rows over new fragments, as an engine that clusters them does."""

import struct
import uuid
from collections.abc import Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

import lance_ops as lo
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.pb import table_pb2
from lance_ops.storage import open_store
from lance_ops.table.manifest.fragment_reuse.decode import Generation, ReuseGroup
from lance_ops.table.manifest.fragment_reuse.partition import FragmentDigest
from lance_ops.table.manifest.fragment_reuse.write import write_fragment_reuse
from lance_ops.table.transaction.operations import ReserveFragments, Rewrite
from lance_ops.table.transaction.operations.rewrite import RewriteGroup

_Details = table_pb2.FragmentReuseIndexDetails


def write_row_map(path: Path, labels: Sequence[int | None], destinations: int, block_rows: int) -> None:
    """Write the row map of a partition."""
    blocks = [labels[start : start + block_rows] for start in range(0, len(labels), block_rows)]
    counts = np.array(
        [
            np.bincount([label for label in block if label is not None], minlength=destinations)
            for block in blocks
        ]
    ).reshape(-1, destinations)
    grid = np.cumsum(counts, axis=0).astype("<u4").tobytes()
    header = struct.pack("<4s4IQ", b"LSPC", 1, 0, destinations, block_rows, len(labels))
    path.parent.mkdir(parents=True)
    schema = Schema.from_arrow(pa.schema([pa.field("label", pa.uint16())]))
    with FileWriter(open_store(path.parent), path.name, schema, version="2.0") as writer:
        writer.write(pa.table({"label": pa.array(labels, pa.uint16())}))
        number = writer.add_global_buffer(header + grid)
        writer.add_schema_metadata({"lance:stable_partition:counts_buffer_index": str(number).encode()})


def partition(
    uri: Path, order: Sequence[int], destinations: int, *, seed: int = 0, block_rows: int = 16
) -> Path:
    """Spread the rows of some fragments over new ones, and leave the indices as they are.

    Args:
        uri: A table with feature flag 1024.
        order: Ids of the source fragments, in the order of the labels.
        destinations: How many fragments receive rows.
        seed: Of the labels.
        block_rows: Rows of a block of counts.

    Returns:
        The row map.
    """
    rng = np.random.default_rng(seed)
    dataset = lo.dataset(uri)
    sources = [next(item for item in dataset.fragments if item.id == number) for number in order]
    table = lance.dataset(str(uri)).to_table(with_row_address=True)
    addresses = table["_rowaddr"].to_numpy()
    rows, labels = [], []
    for fragment in sources:
        place = {int(a) & 0xFFFFFFFF: n for n, a in enumerate(addresses) if int(a) >> 32 == fragment.id}
        for offset in range(fragment.physical_rows):
            labels.append(int(rng.integers(destinations)) if offset in place else None)
            rows.append(place.get(offset))
    table = table.drop_columns(["_rowaddr"])
    written = []
    for number in range(destinations):
        chosen = [row for row, label in zip(rows, labels, strict=True) if label == number]
        (fragment,) = lo.write_fragments(table.take(chosen), uri)
        written.append(fragment)
    lo.commit(dataset, ReserveFragments(destinations))
    dataset = lo.dataset(uri)
    first = dataset.manifest.max_fragment_id - destinations + 1
    new = tuple(item.replace(id=first + number) for number, item in enumerate(written))
    map_id = str(uuid.uuid4())
    path = uri / "_fri" / map_id / "stable_partition.lance"
    write_row_map(path, labels, destinations, block_rows)
    old = tuple(next(item for item in dataset.fragments if item.id == number) for number in order)
    digests = [
        _Details.FragmentDigest(
            id=item.id, physical_rows=item.physical_rows, num_deleted_rows=item.physical_rows - item.num_rows
        )
        for item in old
    ]
    message = _Details.Transition(
        sources=digests,
        destinations=[_Details.FragmentDigest(id=item.id, physical_rows=item.physical_rows) for item in new],
        stable_partition=_Details.StablePartition(map_id=map_id, map_size_bytes=path.stat().st_size),
    )
    reuse = dataset.fragment_reuse
    earlier = () if reuse is None else reuse.generations
    sides = [tuple(FragmentDigest(item.id, item.physical_rows) for item in side) for side in (old, new)]
    digested = ReuseGroup(sides[0], sides[1], BitMap64())
    added = Generation(0, (digested,), message.SerializeToString(), is_transition=True)
    entry = write_fragment_reuse(
        dataset.store, (*earlier, added), dataset.version, uuid.uuid4(), is_tagged=True
    )
    lo.commit(dataset, Rewrite((RewriteGroup(old, new),), fragment_reuse_index=entry))
    return path
