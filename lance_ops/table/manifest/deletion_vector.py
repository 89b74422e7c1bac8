"""Deletion vectors: deleted rows of a fragment, in memory and in files.

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
from lance_ops.encoding.arrow_arrays import from_numpy
from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.storage import Store
from lance_ops.table.manifest.fragment import DeletionFile, DeletionFileType, Fragment

BITMAP_FROM = 5000
"""Number of deleted rows from which a bitmap is stored, as in pylance, which has no other criterion."""

STAMP_KEY = "lance_ops:stamp"
"""Metadata key of the stamp in the batch of an Arrow form."""

_SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
# For a few hundred numbers, Arrow's thread pool takes longer than reading them.
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
_MAX_ROWS = 1 << 32


class FileResolver(Protocol):
    """Finds the store that holds a file of the table, see `base_paths.Bases`."""

    def deletion_path(self, fragment_id: int, deletion_file: DeletionFile) -> tuple[Store, str]:
        """Return store and path of a deletion file."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The deleted rows of one fragment, as offsets into its physical rows. Immutable."""

    bitmap: FrozenBitMap

    @classmethod
    def from_offsets(cls, offsets: Iterable[int] | npt.NDArray[np.integer]) -> "DeletionVector":
        """Build one from row offsets in any order.

        Args:
            offsets: 0 to 2^32-1; duplicates count once.
        """
        if isinstance(offsets, np.ndarray):
            if len(offsets) and not 0 <= int(offsets.min()) <= int(offsets.max()) < _MAX_ROWS:
                raise InvalidArgumentError(
                    f"row offsets must be from 0 to 2^32-1, got {offsets.min()} to {offsets.max()}",
                    field="offsets",
                )
            # pyroaring copies an array of C integers; from numpy it would convert values one by one.
            return cls(FrozenBitMap(array("I", np.ascontiguousarray(offsets, dtype=np.uint32).tobytes())))
        return cls(FrozenBitMap(offsets))

    @classmethod
    def of_range(cls, start: int, stop: int) -> "DeletionVector":
        """Build one from the rows `[start, stop)`."""
        return cls(FrozenBitMap(range(start, stop)))

    def union(self, other: "DeletionVector") -> "DeletionVector":
        """Return rows that are deleted in either."""
        return DeletionVector(self.bitmap | other.bitmap)

    def intersection(self, other: "DeletionVector") -> "DeletionVector":
        """Return rows that are deleted in both."""
        return DeletionVector(self.bitmap & other.bitmap)

    def difference(self, other: "DeletionVector") -> "DeletionVector":
        """Return rows that are deleted here and not in the other."""
        return DeletionVector(self.bitmap - other.bitmap)

    def __repr__(self) -> str:
        return f"DeletionVector({len(self)} rows)"

    def __len__(self) -> int:
        return len(self.bitmap)

    def __contains__(self, offset: int) -> bool:
        return offset in self.bitmap

    def offsets(self) -> npt.NDArray[np.uint32]:
        """Return the offsets, ascending."""
        return np.array(self.bitmap.to_array(), dtype=np.uint32)

    def count(self, start: int, stop: int) -> int:
        """Count the deleted rows in `[start, stop)`."""
        return int(self.bitmap.range_cardinality(start, stop)) if stop > start else 0

    def mask(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the deleted rows in `[start, stop)`."""
        mask = np.zeros(max(stop - start, 0), dtype=np.bool_)
        if self.count(start, stop):
            inside = self.bitmap & FrozenBitMap(range(start, stop))
            mask[np.asarray(inside.to_array(), dtype=np.int64) - start] = True
        return mask

    def skip(self, ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the offset of each live row that has so many live rows before it.

        Args:
            ranks: Numbers of live rows, int64 of (n,).
        """
        deleted = self.offsets().astype(np.int64)
        # Live rows before each deleted one.
        before = deleted - np.arange(len(deleted))
        offsets: npt.NDArray[np.int64] = ranks + np.searchsorted(before, ranks, side="right")
        return offsets

    def live_offsets(self, num_rows: int) -> npt.NDArray[np.uint32]:
        """Return offsets of the rows `[0, num_rows)` that are not deleted, ascending."""
        return np.flatnonzero(~self.mask(0, num_rows)).astype(np.uint32)


def encode_deletion_vector(vector: DeletionVector, file_type: DeletionFileType, stamp: bytes = b"") -> bytes:
    """Serialise a deletion vector to the bytes of a deletion file.

    Args:
        vector: The deleted rows.
        file_type: Its form.
        stamp: Bytes that readers ignore and that distinguish the file from another one of the same rows.
    """
    if file_type is DeletionFileType.BITMAP:
        # A serialised bitmap has an end marker, and readers stop there.
        return bytes(vector.bitmap.serialize()) + stamp
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
        offsets = from_numpy(vector.offsets(), pa.uint32())
        batch = pa.record_batch([offsets], schema=_SCHEMA)
        # Not in the metadata of the schema, which pylance compares.
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
            f"the file deletes row {vector.bitmap.max()} of a fragment of {physical_rows} rows", path=path
        )
    return vector


def read_deletion_vector(files: FileResolver, fragment: Fragment) -> DeletionVector | None:
    """Read the deleted rows of a fragment; None when it has no deletion file.

    Raises:
        FileMissingError: The file does not exist.
        CorruptFileError: The file is damaged, or its number of rows differs from the manifest.
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
    # 0 means "not recorded" in legacy manifests.
    if reference.num_deleted_rows and reference.num_deleted_rows != len(vector):
        raise CorruptFileError(
            "the number of deleted rows does not match the manifest (expected "
            f"{reference.num_deleted_rows}, got {len(vector)})",
            path=full,
            field="deletion_file.num_deleted_rows",
        )
    return vector


def _decode_bitmap(data: bytes, path: str) -> DeletionVector:
    try:
        return DeletionVector(FrozenBitMap(BitMap.deserialize(data)))
    except (ValueError, IndexError) as error:  # IndexError: empty file
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
        raise CorruptFileError("the row offsets contain nulls", path=path)
    parts = [column.to_numpy() for column in columns]
    offsets = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, number_dtype(types[0])), *parts])
    if len(offsets) and offsets.min() < 0:
        raise CorruptFileError(f"row offset {offsets.min()} is negative", path=path)
    return DeletionVector.from_offsets(offsets)
