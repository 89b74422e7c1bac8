"""Row set: rows by address (or stable row id), with a bitmap for each fragment; the results of index queries.

It has the structure of the row address tree map of the format, which several kinds of index store:
`serialize` and `deserialize` convert it.
"""

import struct
from array import array
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lance_ops.errors import CorruptFileError

Addresses = npt.NDArray[np.uint64]

_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64(0xFFFF_FFFF)
_ENTRY = struct.Struct("<II")


class RowSet:
    """An immutable set of rows.

    Args:
        rows: Offsets by fragment id (the upper and lower half of addresses, or of row ids). The bitmaps must
            not be changed afterwards; empty ones are left out.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Mapping[int, BitMap] | None = None) -> None:
        self._rows = {owner: offsets for owner, offsets in (rows or {}).items() if offsets}

    @classmethod
    def of(cls, addresses: npt.ArrayLike) -> "RowSet":
        """Build a set from addresses (uint64) in any order; duplicates count once."""
        found = np.asarray(addresses, dtype=np.uint64)
        if not len(found):
            return cls()
        owners = found >> _OFFSET_BITS
        offsets = (found & _OFFSET_MASK).astype(np.uint32)
        if owners[0] == owners[-1] and bool((owners == owners[0]).all()):
            return cls({int(owners[0]): _bitmap(offsets)})
        order = np.argsort(owners, kind="stable")
        owners, offsets = owners[order], offsets[order]
        first = np.flatnonzero(np.diff(owners, prepend=owners[:1] + np.uint64(1)))
        stops = [*first[1:].tolist(), len(owners)]
        return cls(
            {
                int(owners[start]): _bitmap(offsets[start:stop])
                for start, stop in zip(first.tolist(), stops, strict=True)
            }
        )

    @classmethod
    def of_ranges(cls, ranges: Iterable[tuple[int, int, int]]) -> "RowSet":
        """Build a set from ranges of (fragment id, first offset, end offset)."""
        rows: dict[int, BitMap] = {}
        for owner, start, stop in ranges:
            rows.setdefault(owner, BitMap()).add_range(start, stop)
        return cls(rows)

    @classmethod
    def gathered(cls, parts: Iterable[npt.NDArray[np.uint64]]) -> "RowSet":
        """Return the union of parts, which are read one at a time; ranges take almost no memory."""
        rows: dict[int, BitMap] = {}
        for part in parts:
            for owner, offsets in cls.of(part).items():
                offsets.run_optimize()
                if owner in rows:
                    rows[owner] |= offsets
                else:
                    rows[owner] = offsets
        return cls(rows)

    @property
    def fragment_ids(self) -> frozenset[int]:
        """Ids of the fragments with rows."""
        return frozenset(self._rows)

    def has_fragment(self, fragment_id: int) -> bool:
        """Return whether a fragment has rows."""
        return fragment_id in self._rows

    def offsets_in(self, fragment_id: int) -> BitMap:
        """Return offsets of the rows of one fragment. Not to be changed."""
        return self._rows.get(fragment_id) or BitMap()

    def last_offsets(self) -> Iterator[tuple[int, int]]:
        """Return the last row offset of each fragment with rows."""
        for owner, offsets in self._rows.items():
            yield owner, offsets.max()

    def addresses(self) -> Addresses:
        """Return all addresses, ascending, as uint64."""
        parts = [
            np.frombuffer(self._rows[owner].to_array(), np.uint32).astype(np.uint64) | np.uint64(owner << 32)
            for owner in sorted(self._rows)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.uint64)

    def restrict(self, fragment_ids: Iterable[int]) -> "RowSet":
        """Return the rows in some fragments."""
        wanted = fragment_ids if isinstance(fragment_ids, frozenset) else frozenset(fragment_ids)
        if self._rows.keys() <= wanted:
            return self
        return RowSet({owner: offsets for owner, offsets in self._rows.items() if owner in wanted})

    def items(self) -> ItemsView[int, BitMap]:
        """Return fragment ids with the offsets of their rows. Not to be changed."""
        return self._rows.items()

    def __or__(self, other: "RowSet") -> "RowSet":
        rows = dict(self._rows)
        for owner, offsets in other._rows.items():
            rows[owner] = rows[owner] | offsets if owner in rows else offsets
        return RowSet(rows)

    def __and__(self, other: "RowSet") -> "RowSet":
        return RowSet({owner: offsets & other.offsets_in(owner) for owner, offsets in self._rows.items()})

    def __sub__(self, other: "RowSet") -> "RowSet":
        return RowSet({owner: offsets - other.offsets_in(owner) for owner, offsets in self._rows.items()})

    def __len__(self) -> int:
        return sum(len(offsets) for offsets in self._rows.values())

    def __contains__(self, address: int) -> bool:
        return int(address) & 0xFFFF_FFFF in self.offsets_in(int(address) >> 32)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowSet) and self._rows == other._rows

    def __hash__(self) -> int:
        return hash(frozenset((owner, len(offsets)) for owner, offsets in self._rows.items()))

    def __repr__(self) -> str:
        return f"RowSet({len(self):,} rows of {len(self._rows):,} fragments)"

    def serialize(self) -> bytes:
        """Serialise as a row address tree map: a count, then id, length and bitmap of each fragment."""
        parts = [struct.pack("<I", len(self._rows))]
        for owner in sorted(self._rows):
            bitmap = self._rows[owner].serialize()
            parts += (_ENTRY.pack(owner, len(bitmap)), bitmap)
        return b"".join(parts)

    @classmethod
    def deserialize(cls, data: bytes, *, path: str, rows_of: Callable[[int], int]) -> "RowSet":
        """Read a row address tree map.

        Args:
            data: The bytes, with nothing after them.
            path: The file, for errors.
            rows_of: Physical rows of a fragment by its id (0 if it no longer exists), for entries without a
                bitmap, which mean all rows.

        Raises:
            CorruptFileError: It cannot be read.
        """
        rows: dict[int, BitMap] = {}
        try:
            (count,) = struct.unpack_from("<I", data)
            position = 4
            for _ in range(count):
                owner, length = _ENTRY.unpack_from(data, position)
                position += _ENTRY.size
                if position + length > len(data) or owner in rows:
                    raise CorruptFileError("a bitmap of rows is truncated or duplicated", path=path)
                bitmap = data[position : position + length]
                rows[owner] = BitMap.deserialize(bitmap) if length else BitMap(range(rows_of(owner)))
                position += length
        except (struct.error, ValueError) as error:
            raise CorruptFileError(f"a bitmap of rows cannot be read: {error}", path=path) from error
        return cls(rows)


def join_serialized(maps: Sequence[bytes]) -> bytes | None:
    """Join row address tree maps without parsing their bitmaps.

    Args:
        maps: Well-formed ones.

    Returns:
        Serialised union; None when several have rows of one fragment.
    """
    entries: dict[int, bytes] = {}
    total = 0
    for data in maps:
        (count,) = struct.unpack_from("<I", data)
        position = 4
        total += count
        for _ in range(count):
            owner, length = _ENTRY.unpack_from(data, position)
            stop = position + _ENTRY.size + length
            entries[owner] = data[position:stop]
            position = stop
    if len(entries) != total:
        return None
    return b"".join([struct.pack("<I", total), *(entries[owner] for owner in sorted(entries))])


def _bitmap(offsets: npt.NDArray[np.uint32]) -> BitMap:
    # Five times as fast as from numpy.
    values = array("I")
    values.frombytes(offsets.tobytes())
    return BitMap(values)
