"""Index build: partitions from the strings of a column, bounded by a memory limit."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from lance_ops.index.inverted.parameters import BuildParameters
from lance_ops.index.inverted.partition_writer import PartitionWriter, WrittenPartition
from lance_ops.index.inverted.tokenizers.analyzer import Analyzer
from lance_ops.storage import Store
from lance_ops.table.manifest.row_set import Addresses

_TEXT_BYTES = 4 << 20
"""Number of strings tokenized at once."""


def build_partitions(
    tables: Iterable[pa.Table], parameters: BuildParameters, store: Store, directory: str
) -> tuple[WrittenPartition, ...]:
    """Write the strings of some rows.

    Args:
        tables: Rows (`values`, `ids`), whose ids are what the segment is to name them by.
        parameters: How the segment is made.
        store: Where it goes.
        directory: Of the segment.
    """
    analyzer = Analyzer(parameters.text)
    layout = parameters.layout()
    written: list[WrittenPartition | None] = []
    writer = PartitionWriter(store, directory, layout)
    for values, ids in _pieces(tables):
        _add(writer, analyzer, values, ids, with_position=parameters.text.with_position)
        if writer.held_bytes >= parameters.memory_bytes:
            written.append(writer.finish())
            writer = PartitionWriter(store, directory, layout)
    written.append(writer.finish())
    return tuple(partition for partition in written if partition is not None)


def _add(
    writer: PartitionWriter, analyzer: Analyzer, values: pa.Array, ids: Addresses, *, with_position: bool
) -> None:
    words = analyzer.words(values)
    sizes = np.bincount(words.texts, minlength=len(values)).astype(np.uint32)
    held = np.flatnonzero(sizes)
    first = writer.add_documents(ids[held], sizes[held])
    documents = (np.cumsum(sizes > 0) - 1 + first)[words.texts]
    if with_position:
        positions = words.positions.astype(np.uint32)
        writer.add_words(words.vocabulary, words.numbers, documents, positions)
        return
    entries, counts = np.unique((documents << 32) | words.numbers, return_counts=True)
    numbers = entries & 0xFFFF_FFFF
    writer.add_words(words.vocabulary, numbers, entries >> 32, counts.astype(np.uint32))


def _pieces(tables: Iterable[pa.Table]) -> Iterator[tuple[pa.Array, Addresses]]:
    for table in tables:
        start = 0
        ids = np.asarray(table["ids"].to_numpy(), np.uint64)
        for chunk in table["values"].chunks:
            parts = max(1, min(len(chunk), -(-chunk.nbytes // _TEXT_BYTES)))
            for place in np.array_split(np.arange(len(chunk)), parts):
                if len(place):
                    first, last = int(place[0]), int(place[-1]) + 1
                    yield chunk.slice(first, last - first), ids[start + first : start + last]
            start += len(chunk)
