"""Deletion vectors: which rows of a fragment are deleted, in memory and in files.

Source: format, "Deletion Files". The specification says Int32 for the Arrow form; writers store uint32.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc
from pyroaring import BitMap, FrozenBitMap

from lance_ops.encoding.arrays import number_dtype
from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.storage import Store
from lance_ops.table.manifest.fragment import DeletionFile, DeletionFileType, Fragment

BITMAP_FROM = 5000
"""Deleted rows from which the peer, and so we, store a bitmap. It looks at nothing else."""

STAMP_KEY = "lance_ops:stamp"
"""Metadata of the batch of an Arrow form that bears a stamp."""

_SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
# For a few hundred numbers, a thread of Arrow's pool takes longer than reading them.
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
_MAX_ROWS = 1 << 32


class FileResolver(Protocol):
    """Finds the store that holds a file of the table, see `base_paths.Bases`."""

    def deletion_path(self, fragment_id: int, deletion_file: DeletionFile) -> tuple[Store, str]:
        """Store and path of a deletion file."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The deleted rows of one fragment, as offsets into its physical rows. Never changed in place."""

    bitmap: FrozenBitMap

    @classmethod
    def from_offsets(cls, offsets: Iterable[int] | npt.NDArray[np.integer]) -> "DeletionVector":
        """Build one from row offsets in any order.

        Args:
            offsets: 0 to 2^32-1; repeated ones count once.
        """
        if isinstance(offsets, np.ndarray):
            if len(offsets) and not 0 <= int(offsets.min()) <= int(offsets.max()) < _MAX_ROWS:
                raise InvalidArgumentError("a row offset does not fit into 32 bits", field="offsets")
            # From an array of C integers pyroaring copies; from numpy it would take them one by one.
            return cls(FrozenBitMap(array("I", np.ascontiguousarray(offsets, dtype=np.uint32).tobytes())))
        return cls(FrozenBitMap(offsets))

    @classmethod
    def of_range(cls, start: int, stop: int) -> "DeletionVector":
        """The rows from `start` to before `stop`."""
        return cls(FrozenBitMap(range(start, stop)))

    def union(self, other: "DeletionVector") -> "DeletionVector":
        """Rows that are deleted in either."""
        return DeletionVector(self.bitmap | other.bitmap)

    def intersection(self, other: "DeletionVector") -> "DeletionVector":
        """Rows that are deleted in both."""
        return DeletionVector(self.bitmap & other.bitmap)

    def difference(self, other: "DeletionVector") -> "DeletionVector":
        """Rows that are deleted here and not in the other."""
        return DeletionVector(self.bitmap - other.bitmap)

    def __repr__(self) -> str:
        return f"DeletionVector({len(self)} rows)"

    def __len__(self) -> int:
        return len(self.bitmap)

    def __contains__(self, offset: int) -> bool:
        return offset in self.bitmap

    def offsets(self) -> npt.NDArray[np.uint32]:
        """The offsets, ascending."""
        return np.array(self.bitmap.to_array(), dtype=np.uint32)

    def count(self, start: int, stop: int) -> int:
        """Number of deleted rows in `[start, stop)`."""
        return int(self.bitmap.range_cardinality(start, stop)) if stop > start else 0

    def mask(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Whether each of the rows `[start, stop)` is deleted."""
        mask = np.zeros(max(stop - start, 0), dtype=np.bool_)
        if self.count(start, stop):
            inside = self.bitmap & FrozenBitMap(range(start, stop))
            mask[np.asarray(inside.to_array(), dtype=np.int64) - start] = True
        return mask

    def live_offsets(self, num_rows: int) -> npt.NDArray[np.uint32]:
        """Offsets of the rows `[0, num_rows)` that are not deleted, ascending."""
        return np.flatnonzero(~self.mask(0, num_rows)).astype(np.uint32)


def encode_deletion_vector(vector: DeletionVector, file_type: DeletionFileType, stamp: bytes = b"") -> bytes:
    """The bytes of a deletion file.

    Args:
        vector: The deleted rows.
        file_type: Its form.
        stamp: Bytes that readers pass over and that tell the file from another one of the same rows.
    """
    if file_type is DeletionFileType.BITMAP:
        # A serialised bitmap says where it ends, and readers stop there.
        return bytes(vector.bitmap.serialize()) + stamp
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
        offsets = pa.array(vector.offsets(), pa.uint32())
        batch = pa.record_batch([offsets], schema=_SCHEMA)
        # Not in the metadata of the schema: the peer compares that.
        writer.write_batch(batch, custom_metadata={STAMP_KEY: stamp.hex()} if stamp else None)
    return bytes(sink.getvalue())


def decode_deletion_vector(
    data: bytes | pa.Buffer, file_type: DeletionFileType, *, physical_rows: int, path: str
) -> DeletionVector:
    """Read the bytes of a deletion file.

    Args:
        data: All bytes of the file.
        file_type: Its form.
        physical_rows: Rows of the fragment, which bounds the offsets.
        path: Names the file in errors.

    Raises:
        CorruptFileError: The file is damaged, or names a row that the fragment does not have.
    """
    if file_type is DeletionFileType.BITMAP:
        vector = _decode_bitmap(bytes(data), path)
    else:
        vector = _decode_array(data, path)
    if len(vector) and vector.bitmap.max() >= physical_rows:
        raise CorruptFileError(
            f"it deletes row {vector.bitmap.max()} of a fragment of {physical_rows} rows", path=path
        )
    return vector


def read_deletion_vector(files: FileResolver, fragment: Fragment) -> DeletionVector | None:
    """The deleted rows of a fragment; None when it has no deletion file.

    Raises:
        FileMissingError: The file is gone.
        CorruptFileError: The file is damaged, or holds another number of rows than the manifest says.
        PathEscapeError: Its base path is unknown or leaves the table.
    """
    reference = fragment.deletion_file
    if reference is None:
        return None
    store, path = files.deletion_path(fragment.id, reference)
    full = f"{store.uri}/{path}"
    vector = decode_deletion_vector(
        store.read(path), reference.file_type, physical_rows=fragment.physical_rows, path=full
    )
    # 0 stands for "not recorded" in legacy manifests.
    if reference.num_deleted_rows and reference.num_deleted_rows != len(vector):
        raise CorruptFileError(
            f"the file deletes {len(vector)} rows and the manifest says {reference.num_deleted_rows}",
            path=full,
            field="deletion_file.num_deleted_rows",
        )
    return vector


def _decode_bitmap(data: bytes, path: str) -> DeletionVector:
    try:
        return DeletionVector(FrozenBitMap(BitMap.deserialize(data)))
    except (ValueError, IndexError) as error:  # IndexError: no bytes at all
        raise CorruptFileError(f"not a Roaring bitmap: {error}", path=path) from error


def _decode_array(data: bytes | pa.Buffer, path: str) -> DeletionVector:
    try:
        with pa.ipc.open_file(pa.py_buffer(data), options=_READ_OPTIONS) as reader:
            types = reader.schema.types
            if types not in ([pa.uint32()], [pa.int32()]):
                raise CorruptFileError(f"expected one column of 32-bit integers, not {types}", path=path)
            batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        for batch in batches:
            batch.validate(full=True)
        columns = [batch.column(0) for batch in batches]
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"not an Arrow file: {error}", path=path) from error
    if any(column.null_count for column in columns):
        raise CorruptFileError("there are nulls among the row offsets", path=path)
    parts = [column.to_numpy() for column in columns]
    offsets = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, number_dtype(types[0])), *parts])
    if len(offsets) and offsets.min() < 0:
        raise CorruptFileError(f"there is no row {offsets.min()}", path=path)
    return DeletionVector.from_offsets(offsets)
