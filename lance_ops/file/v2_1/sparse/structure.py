"""Sparse structure: what of each layer is null, empty, or holds how much, and the slots of some rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import encode_bitmap
from lance_ops.encoding.pages.levels import Nest
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.row_selection import Integers, RowSelection, join_extents, join_lengths
from lance_ops.file.v2_1.column_rows import LeafType
from lance_ops.file.v2_1.compression.sequences import constant_of, decode_sequence, needs_bytes
from lance_ops.file.v2_1.sparse.numbers import Numbers, parse_numbers
from lance_ops.pb import encodings21_pb2 as pb
from lance_ops.pb import encodings23_pb2 as pb23

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_BITS = 64
# More slots than Arrow can count.
_MAX_SLOTS = 1 << 40


@dataclass(frozen=True, slots=True, eq=False)
class Validity:
    """Validity of the slots of a layer.

    Attributes:
        numbers: Of slots.
        are_null: True if these are the null ones; otherwise they are the others.
    """

    numbers: Numbers
    are_null: bool

    def count_valid(self, slots: int) -> int:
        """Return how many slots of all are not null."""
        return slots - self.numbers.count if self.are_null else self.numbers.count

    def valid(self, slots: RowSelection) -> Mask | None:
        """Return which of some slots are not null; None where none of them is."""
        if self.are_null and not self.numbers.count:
            return None
        if slots.numbers is None:
            mask = self.numbers.mask(slots.start, slots.stop)
        else:
            _, mask = self.numbers.find(slots.numbers)
        valid = ~mask if self.are_null else mask
        return None if bool(valid.all()) else valid

    def ranks(self, slots: Integers) -> Integers:
        """Return the number of non-null slots before each slot."""
        before, _ = self.numbers.find(slots)
        return slots - before if self.are_null else before


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Sizes of the lists of a layer.

    Attributes:
        filled: Non-empty lists.
        ends: Cumulative item offsets of each of these, with the end of the last; None if all are equally
            long.
        items: Length, if all are equally long.
    """

    filled: Numbers
    ends: Integers | None
    items: int = 0

    def _starts(self, places: Integers) -> Integers:
        return places * self.items if self.ends is None else self.ends[places]

    def children(self, lists: RowSelection) -> tuple[Integers, RowSelection]:
        """Return the sizes of some lists, and their slots in the child layer."""
        if lists.numbers is not None:
            places, found = self.filled.find(lists.numbers)
            starts = self._starts(places)
            stops = self._starts(places + found)
            return stops - starts, RowSelection.some(join_extents(starts, stops), lists.gap)
        first, last = self.filled.between(lists.start, lists.stop)
        ends = self._starts(np.arange(first, last + 1, dtype=np.int64))
        lengths = np.zeros(lists.count, dtype=np.int64)
        lengths[self.filled.pick(first, last) - lists.start] = np.diff(ends)
        return lengths, RowSelection(int(ends[0]), int(ends[-1]), None, lists.gap)


@dataclass(frozen=True, slots=True, eq=False)
class SparseLayer:
    """One layer.

    Attributes:
        validity: Of its slots.
        lists: What they hold, of lists.
        width: Slots below each of its own, of others: 1 except for fixed-size lists.
    """

    validity: Validity
    lists: Lists | None = None
    width: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """Layers of a page.

    Attributes:
        layers: From the outermost inwards.
        slots: Of the innermost.
    """

    layers: tuple[SparseLayer, ...]
    slots: int

    @property
    def size(self) -> int:
        """About the bytes it takes."""
        size = 256
        for layer in self.layers:
            size += layer.validity.numbers.size
            if layer.lists is not None:
                size += layer.lists.filled.size
                size += 0 if layer.lists.ends is None else layer.lists.ends.nbytes
        return size

    def select(self, rows: RowSelection) -> tuple[list[Nest], RowSelection, Mask | None]:
        """Return the layers of some rows, their slots in the innermost, and which of these are not null."""
        nests = []
        slots, valid = rows, None
        for layer in self.layers:
            valid = layer.validity.valid(slots)
            bitmap: pa.Buffer | None = None if valid is None else encode_bitmap(valid)
            count = slots.count
            if layer.lists is None:
                slots = slots.spread(layer.width)
                nests.append(Nest(count, bitmap))
                continue
            lengths, slots = layer.lists.children(slots)
            offsets = join_lengths(lengths)
            narrow = offsets.astype(np.int32) if int(offsets[-1]) < 2**31 else offsets
            nests.append(Nest(count, bitmap, narrow))
        return nests, slots, valid


def sequences_of(sparse: pb23.SparseStructure) -> Iterator[pb.CompressiveEncoding]:
    """Yield the sequences of a structure, in the order of their buffers."""
    for layer in sparse.layers:
        kind = layer.WhichOneof("layer")
        if kind == "list":
            yield layer.list.non_empty_positions
            yield layer.list.counts
            yield layer.list.validity.positions
        elif kind == "fixed_size_list":
            yield layer.fixed_size_list.validity.positions
        elif kind == "validity":
            yield layer.validity.positions
        else:
            raise CorruptFileError("a layer of no kind")


def parse_structure(
    sparse: pb23.SparseStructure, buffers: Sequence[Bytes], leaf: LeafType, rows: int
) -> Structure:
    """Parse the layers of a page.

    Args:
        sparse: Their description.
        buffers: Of the sequences that need one.
        leaf: What the column holds.
        rows: Of the page.

    Raises:
        CorruptFileError: The buffers are not what the description says, or the layers not the column's.
        UnsupportedError: A compression that is not implemented, which is named.
    """
    remaining = iter(buffers)
    layers = []
    slots = rows
    kinds = [layer.WhichOneof("layer") for layer in sparse.layers]
    if [kind == "list" for kind in kinds] != list(leaf.lists):
        raise CorruptFileError(f"the {len(kinds)} layers of a page are not those of its column")
    for layer, kind, width in zip(sparse.layers, kinds, leaf.items, strict=True):
        if slots > _MAX_SLOTS:
            raise CorruptFileError(f"a layer of {slots} slots")
        if kind == "list":
            lists, below = _parse_lists(layer.list, remaining, slots)
            validity = _parse_validity(layer.list.validity, remaining, slots)
            _check_nulls(validity, lists.filled)
            layers.append(SparseLayer(validity, lists))
            slots = below
            continue
        described = layer.validity if kind == "validity" else layer.fixed_size_list.validity
        if width != (layer.fixed_size_list.dimension if kind == "fixed_size_list" else 1):
            raise CorruptFileError(f"a layer of fixed-size lists that should have {width} items")
        layers.append(SparseLayer(_parse_validity(described, remaining, slots), None, width))
        slots *= width
    if next(remaining, None) is not None:
        raise CorruptFileError("a page has more buffers than its structure needs")
    return Structure(tuple(layers), slots)


def _data(encoding: pb.CompressiveEncoding, buffers: Iterator[Bytes]) -> Bytes | None:
    if not needs_bytes(encoding):
        return None
    found = next(buffers, None)
    if found is None:
        raise CorruptFileError("a page has fewer buffers than its structure needs")
    return found


def _parse_validity(described: pb23.SparseValiditySet, buffers: Iterator[Bytes], slots: int) -> Validity:
    if described.meaning not in (
        pb23.SparseValiditySet.SPARSE_VALIDITY_NULL_POSITIONS,
        pb23.SparseValiditySet.SPARSE_VALIDITY_VALID_POSITIONS,
    ):
        raise CorruptFileError(f"a list of slots of kind {described.meaning}")
    data = _data(described.positions, buffers)
    numbers = parse_numbers(described.positions, data, described.num_positions, slots)
    return Validity(numbers, described.meaning == pb23.SparseValiditySet.SPARSE_VALIDITY_NULL_POSITIONS)


def _parse_lists(described: pb23.SparseListLayer, buffers: Iterator[Bytes], slots: int) -> tuple[Lists, int]:
    """Return the sizes of lists, and the total number of items."""
    filled = parse_numbers(
        described.non_empty_positions,
        _data(described.non_empty_positions, buffers),
        described.num_non_empty,
        slots,
    )
    total = described.num_child_slots
    counts = described.counts
    if total > _MAX_SLOTS:
        raise CorruptFileError(f"lists of {total} items")
    data = _data(counts, buffers)
    if counts.WhichOneof("compression") == "constant" and filled.count:
        items = constant_of(counts.constant, _BITS)
        if items < 1 or items * filled.count != total:
            raise CorruptFileError(f"{filled.count} lists of {items} items do not hold {total}")
        return Lists(filled, None, items), total
    lengths = decode_sequence(counts, data, filled.count, _BITS)
    if len(lengths) and (int(lengths.min()) < 1 or int(lengths.max()) > total):
        raise CorruptFileError("a list that holds something has no items, or more than all")
    ends = join_lengths(lengths.astype(np.int64))
    if int(ends[-1]) != total:
        raise CorruptFileError(f"lists of {total} items hold {int(ends[-1])}")
    return Lists(filled, ends), total


def _check_nulls(validity: Validity, filled: Numbers) -> None:
    """Check that null lists hold nothing, where that is quickly seen."""
    if validity.are_null and validity.numbers.count and filled.count:
        _, found = filled.find(validity.numbers.pick(0, validity.numbers.count))
        if bool(found.any()):
            raise CorruptFileError("a null list holds something")
