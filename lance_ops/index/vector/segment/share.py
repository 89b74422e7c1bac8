"""Share: vectors of some fragments, assigned to partitions and encoded, in runs sorted by partition."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.file_version import SHARE_FILE_VERSION
from lance_ops.index.vector.metric import Vectors, finite_rows
from lance_ops.index.vector.model import Model
from lance_ops.index.vector.segment.read import ROW_ID
from lance_ops.storage import Store
from lance_ops.table.manifest.row_set import Addresses

_RUN_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Output of a share.

    Attributes:
        path: Its file.
        lengths: Shape (runs, partitions): rows of each partition in each run; runs follow each other.
    """

    path: str
    lengths: npt.NDArray[np.int64]

    def parts(self, first: int, last: int) -> Iterator[tuple[int, int, npt.NDArray[np.int64]]]:
        """Rows from `start` to `stop` of the partitions from `first` to `last` (excluded), for each run.

        Gives (start, stop, rows of each of these partitions).
        """
        position = 0
        for run in self.lengths:
            start = position + int(run[:first].sum())
            counts = run[first:last]
            yield start, start + int(counts.sum()), counts
            position += int(run.sum())


def storage_schema(model: Model) -> pa.Schema:
    """Return columns of a storage: the name of the row, then what the quantizer keeps."""
    return pa.schema([pa.field(ROW_ID, pa.uint64()), *model.quantizer.columns])


def write_share(store: Store, path: str, model: Model, batches: Iterable[tuple[Addresses, Vectors]]) -> Runs:
    """Assign, encode and write vectors; memory is bounded by a run of 64 MB.

    Args:
        store: Where the file goes.
        path: Its name.
        model: Of the index.
        batches: Names of rows and their vectors, all finite.
    """
    schema = storage_schema(model)
    lengths: list[npt.NDArray[np.int64]] = []
    held: list[tuple[pa.Table, npt.NDArray[np.int64]]] = []
    with FileWriter(store, path, Schema.from_arrow(schema), version=SHARE_FILE_VERSION) as writer:

        def flush() -> None:
            rows = pa.concat_tables([table for table, _ in held])
            partitions = np.concatenate([found for _, found in held])
            writer.write(rows.take(pa.array(np.argsort(partitions, kind="stable"))))
            lengths.append(np.bincount(partitions, minlength=len(model.centroids)).astype(np.int64))
            held.clear()

        for names, vectors in batches:
            prepared = model.prepare(vectors)
            if model.metric == "cosine":
                # A vector without a length has no direction.
                pointing = finite_rows(prepared)
                names, prepared = names[pointing], prepared[pointing]
            if not len(prepared):
                continue
            partitions = model.assign(prepared)
            codes = model.encode(prepared, partitions)
            held.append((codes.add_column(0, schema.field(0), pa.array(names, pa.uint64())), partitions))
            if sum(table.nbytes for table, _ in held) >= _RUN_BYTES:
                flush()
        if held:
            flush()
        writer.finish()
    shape = (len(lengths), len(model.centroids))
    return Runs(path, np.stack(lengths) if lengths else np.zeros(shape, np.int64))


def rows_of_partitions(store: Store, shares: Sequence[Runs], first: int, last: int) -> list[list[pa.Table]]:
    """Return rows of the partitions from `first` to `last` (excluded) in all shares."""
    found: list[list[pa.Table]] = [[] for _ in range(last - first)]
    for share in shares:
        reader: Any = None
        for start, stop, counts in share.parts(first, last):
            if start == stop:
                continue
            reader = reader or FileReader.open(store, share.path)
            rows = reader.read_table(start=start, stop=stop)
            position = 0
            for number, count in enumerate(counts.tolist()):
                if count:
                    found[number].append(rows.slice(position, count))
                position += count
    return found
