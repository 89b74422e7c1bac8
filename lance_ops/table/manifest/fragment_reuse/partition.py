"""Stable partition: a rewrite that distributes the rows of its source fragments over several new fragments.

Its row map is a file with one label for each source row, the position of the fragment that received it, and
with cumulative counts of each label at the end of each block of rows. Rows of one label keep their order, so
an offset is a count of labels. Source: format, fragment reuse index.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.reader import FileReader
from lance_ops.storage import Store

MAPS_FOLDER = "_fri"
MAP_FILE = "stable_partition.lance"
"""A row map is stored in a folder named by its id."""

_COUNTS_KEY = "lance:stable_partition:counts_buffer_index"
_HEADER = struct.Struct("<4s4IQ")
_MAGIC, _VERSION, _DENSE = b"LSPC", 1, 0
_MOST_DESTINATIONS = 1 << 16
_OFFSET_BITS = 32


@dataclass(frozen=True, slots=True)
class FragmentDigest:
    """A fragment as recorded in a generation."""

    id: int
    physical_rows: int
    num_deleted_rows: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class StablePartition:
    """The row map of a partition.

    Attributes:
        sources: In the order of the labels.
        destinations: In label order.
        labels: Destination of each source row, -1 for a deleted one; int32 of (rows,).
        counts: Rows of each destination up to the end of each block; uint32 of (blocks, destinations).
        block_rows: Rows of a block; the last one may have fewer.
        path: The file, for errors.
    """

    sources: tuple[FragmentDigest, ...]
    destinations: tuple[FragmentDigest, ...]
    labels: npt.NDArray[np.int32]
    counts: npt.NDArray[np.uint32]
    block_rows: int
    path: str

    @classmethod
    def read(
        cls,
        store: Store,
        path: str,
        size: int,
        sources: Sequence[FragmentDigest],
        destinations: Sequence[FragmentDigest],
    ) -> "StablePartition":
        """Read a row map.

        Args:
            store: Root of its base.
            path: The file.
            size: Bytes of the file.
            sources: Fragments that were replaced.
            destinations: Fragments that replaced them.

        Raises:
            CorruptFileError: It is inconsistent with itself or with the fragments.
            UnsupportedError: Its counts are of a newer kind.
            LanceOpsError: It cannot be read.
        """
        where = f"{store.uri}/{path}"
        found = store.size(path)
        if found != size:
            raise CorruptFileError(
                f"row map size does not match its metadata (expected {size:,} bytes, got {found:,})",
                path=where,
            )
        reader = FileReader.open(store, path, size=size)
        if not 1 <= len(destinations) <= _MOST_DESTINATIONS:
            raise CorruptFileError(
                f"row map has {len(destinations):,} destinations, more than its labels can address",
                path=where,
            )
        labels = _labels(reader, len(destinations), where)
        if len(labels) != sum(fragment.physical_rows for fragment in sources):
            raise CorruptFileError("row map must have one label for each source row", path=where)
        block_rows, grid = _counts(reader, len(labels), len(destinations), where)
        made = cls(tuple(sources), tuple(destinations), labels, grid, block_rows, where)
        made._check()
        return made

    def _check(self) -> None:
        """Compare the counts of the file with its labels, and the last counts with the destinations."""
        counted = np.zeros(len(self.destinations), np.int64)
        for number in range(len(self.counts)):
            labels = self._block(number)
            counted += np.bincount(labels[labels >= 0], minlength=len(self.destinations))
            if not np.array_equal(self.counts[number], counted):
                raise CorruptFileError("the counts of the row map do not match its labels", path=self.path)
        if counted.tolist() != [fragment.physical_rows for fragment in self.destinations]:
            raise CorruptFileError(
                "the counts of the row map do not match the rows of the new fragments", path=self.path
            )

    def _block(self, number: int) -> npt.NDArray[np.int32]:
        return self.labels[number * self.block_rows : (number + 1) * self.block_rows]

    @property
    def _starts(self) -> npt.NDArray[np.int64]:
        """Return the first label of each source."""
        rows = [fragment.physical_rows for fragment in self.sources]
        return np.concatenate(([0], np.cumsum(rows)))[:-1].astype(np.int64)

    def survivors(self) -> BitMap64:
        """Return addresses of the source rows that were not deleted."""
        found = BitMap64()
        for fragment, start in zip(self.sources, self._starts.tolist(), strict=True):
            live = np.flatnonzero(self.labels[start : start + fragment.physical_rows] >= 0)
            found |= BitMap64(live.astype(np.uint64) | np.uint64(fragment.id << _OFFSET_BITS))
        found.run_optimize()
        return found

    def map(self, addresses: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """Return row addresses after the rewrite; see `AddressMap.map`.

        Raises:
            CorruptFileError: An address is beyond the last row of its fragment.
        """
        ids = np.array([fragment.id for fragment in self.sources], np.uint64)
        order = np.argsort(ids)
        owners = addresses >> np.uint64(_OFFSET_BITS)
        place = np.minimum(np.searchsorted(ids[order], owners), len(ids) - 1)
        source = order[place]
        inside = ids[source] == owners
        offsets = (addresses & np.uint64((1 << _OFFSET_BITS) - 1)).astype(np.int64)
        rows = np.array([fragment.physical_rows for fragment in self.sources], np.int64)
        behind = inside & (offsets >= rows[source])
        if behind.any():
            owner = int(owners[np.argmax(behind)])
            raise CorruptFileError(
                f"an index has a row beyond the last one of fragment {owner}",
                path=self.path,
                hint="rebuild that index",
            )
        mapped, kept = addresses.copy(), np.ones(len(addresses), np.bool_)
        chosen = np.flatnonzero(inside)
        positions = self._starts[source[chosen]] + offsets[chosen]
        new_ids = np.array([fragment.id for fragment in self.destinations], np.uint64)
        blocks = positions // self.block_rows
        for number in np.unique(blocks).tolist():
            at = blocks == number
            labels = self._block(number)
            label = labels[positions[at] - number * self.block_rows]
            rank = _ranks(labels)[positions[at] - number * self.block_rows]
            live = label >= 0
            target = label[live]
            earlier = self.counts[number - 1][target] if number else np.zeros(len(target), np.uint32)
            offset = earlier.astype(np.uint64) + rank[live].astype(np.uint64)
            rows_at = chosen[at]
            kept[rows_at[~live]] = False
            mapped[rows_at[live]] = (new_ids[target] << np.uint64(_OFFSET_BITS)) | offset
        return mapped, kept


def _ranks(labels: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return for each label of a block how many equal ones precede it."""
    order = np.argsort(labels, kind="stable")
    sorted_ = labels[order]
    firsts = np.flatnonzero(np.diff(sorted_, prepend=sorted_[:1] - 1))
    runs = np.diff(np.append(firsts, len(labels)))
    ranks = np.empty(len(labels), np.int64)
    ranks[order] = np.arange(len(labels)) - np.repeat(firsts, runs)
    return ranks


def _labels(reader: FileReader, destinations: int, path: str) -> npt.NDArray[np.int32]:
    schema = reader.schema.to_arrow()
    if schema.names != ["label"] or schema.field(0).type != pa.uint16():
        raise CorruptFileError("a row map must have one column of uint16 labels", path=path)
    column = reader.read_table()["label"].combine_chunks()
    numbers = column.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    labels: npt.NDArray[np.int32] = numbers.astype(np.int32)
    if bool((labels >= destinations).any()):
        raise CorruptFileError(f"a label exceeds the number of destinations ({destinations})", path=path)
    return labels


def _counts(
    reader: FileReader, rows: int, destinations: int, path: str
) -> tuple[int, npt.NDArray[np.uint32]]:
    """Return the rows of a block, and the cumulative counts at the end of each block."""
    number = reader.schema.metadata.get(_COUNTS_KEY, b"")
    if not number.isdigit():
        raise CorruptFileError("the row map has no position of its counts", path=path)
    data = bytes(reader.global_buffer(int(number)))
    if len(data) < _HEADER.size:
        raise CorruptFileError("the counts of the row map are truncated", path=path)
    magic, version, representation, columns, block_rows, total = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptFileError("the counts of the row map have a wrong magic number", path=path)
    if (version, representation) != (_VERSION, _DENSE):
        raise UnsupportedError(
            f"the counts of the row map have unsupported version {version} and representation "
            f"{representation}",
            path=path,
            hint="use a newer version of lance_ops or of pylance",
        )
    if (columns, total) != (destinations, rows) or not block_rows:
        raise CorruptFileError("the counts of the row map do not match its labels", path=path)
    blocks = -(-rows // block_rows)
    if len(data) != _HEADER.size + 4 * blocks * destinations:
        raise CorruptFileError("the counts of the row map have a wrong length", path=path)
    grid = np.frombuffer(data, "<u4", offset=_HEADER.size).reshape(blocks, destinations)
    return block_rows, grid
