"""Pages without values, written for 2.3: constants and nulls, whose nesting is sparse structure."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import decode_bitmap
from lance_ops.encoding.pages.levels import Nest, unravel
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.page_errors import broken
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.v2_1.column_rows import LeafType
from lance_ops.file.v2_1.columns import layer_codes
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.file.v2_1.sparse.structure import parse_structure
from lance_ops.pb import encodings21_pb2 as pb
from lance_ops.pb import encodings23_pb2 as pb23

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

MAX_CONSTANT_BYTES = 32
"""Longer constants are left to dictionaries."""

_BITS = 64


def encode_sparse_page(
    raveled: Raveled, dimensions: Sequence[int | None], value: bytes | None
) -> EncodedPage:
    """Build a page of one value, or of none.

    Args:
        raveled: Its levels.
        dimensions: Of each layer from the outermost inwards, the structs of a fixed-size list of them; None
            of others.
        value: The value of all non-null slots; None without any, and for empty structs.
    """
    planar = pb23.PlanarLayout()
    if value is None:
        planar.values.none.SetInParent()
    else:
        planar.values.constant.value = value
    if value is not None and raveled.rep is None and raveled.definition is None:
        planar.structure.dense.layers.extend(layer_codes(raveled.layers))
        return EncodedPage(pb.PageLayout(), (), raveled.num_rows, planar)
    items = [1 if dimension is None else dimension for dimension in dimensions]
    nests, _ = unravel(raveled.rep, raveled.definition, raveled.layers, items, raveled.num_entries)
    buffers: list[Bytes] = []
    for nest, dimension in zip(nests, dimensions, strict=True):
        _add_layer(planar.structure.sparse.layers.add(), nest, dimension, buffers)
    _check(planar.structure.sparse, buffers, nests, items, raveled.num_rows)
    return EncodedPage(pb.PageLayout(), tuple(buffers), raveled.num_rows, planar)


def _check(
    sparse: pb23.SparseStructure,
    buffers: Sequence[Bytes],
    nests: Sequence[Nest],
    items: Sequence[int],
    num_rows: int,
) -> None:
    """Check that readers find the layers that were described."""
    leaf = LeafType(pa.null(), tuple(nest.offsets is not None for nest in nests), tuple(items))
    try:
        found, _, _ = parse_structure(sparse, buffers, leaf, num_rows).select(RowSelection(0, num_rows))
    except CorruptFileError as error:
        raise broken(error.message, "page") from error
    for nest, other in zip(nests, found, strict=True):
        if not np.array_equal(_valid(nest), _valid(other)):
            raise broken("nulls that are not where they were", "page")
        if nest.offsets is not None and (
            other.offsets is None or not np.array_equal(nest.offsets, other.offsets)
        ):
            raise broken("lists that are not as long as they were", "page")


def _valid(nest: Nest) -> npt.NDArray[np.bool_]:
    if nest.validity is None:
        return np.ones(nest.length, dtype=np.bool_)
    return decode_bitmap(nest.validity, nest.length)


def _add_layer(
    layer: pb23.SparseStructuralLayer, nest: Nest, dimension: int | None, buffers: list[Bytes]
) -> None:
    if nest.offsets is None:
        own = layer.validity if dimension is None else layer.fixed_size_list.validity
        if dimension is not None:
            layer.fixed_size_list.dimension = dimension
        _add_validity(own, nest, buffers)
        return
    ends: Integers = nest.offsets.astype(np.int64)
    lengths = ends[1:] - ends[:-1]
    filled = np.flatnonzero(lengths)
    counts = lengths[filled]
    layer.list.num_child_slots = int(nest.offsets[-1])
    layer.list.num_non_empty = len(filled)
    _add_sequence(layer.list.non_empty_positions, filled, buffers)
    if len(counts) and bool((counts == counts[0]).all()):
        layer.list.counts.constant.value = _scalar(int(counts[0]))
    else:
        _add_sequence(layer.list.counts, counts, buffers)
    _add_validity(layer.list.validity, nest, buffers)


def _add_validity(described: pb23.SparseValiditySet, nest: Nest, buffers: list[Bytes]) -> None:
    valid = _valid(nest)
    nulls = np.flatnonzero(~valid)
    described.meaning = pb23.SparseValiditySet.SPARSE_VALIDITY_NULL_POSITIONS
    numbers = nulls
    if 2 * len(nulls) > nest.length:
        described.meaning = pb23.SparseValiditySet.SPARSE_VALIDITY_VALID_POSITIONS
        numbers = np.flatnonzero(valid)
    described.num_positions = len(numbers)
    _add_sequence(described.positions, numbers, buffers)


def _add_sequence(encoding: pb.CompressiveEncoding, numbers: Integers, buffers: list[Bytes]) -> None:
    """Describe integers, without bytes where they follow a rule."""
    if len(numbers) < 2:
        encoding.constant.SetInParent()
        for number in numbers.tolist():
            encoding.constant.value = _scalar(number)
        return
    steps = np.diff(numbers)
    if int(steps[0]) > 0 and bool((steps == steps[0]).all()):
        encoding.range.uncompressed_bits_per_value = _BITS
        encoding.range.start = int(numbers[0])
        encoding.range.step = int(steps[0])
        return
    encoding.flat.bits_per_value = _BITS
    buffers.append(np.ascontiguousarray(numbers, dtype="<u8").view(np.uint8))


def _scalar(number: int) -> bytes:
    return number.to_bytes(_BITS // 8, "little")
