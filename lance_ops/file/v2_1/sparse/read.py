"""Pages with sparse structure, read: the layers of the rows first, then the values of their slots."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import apply_validity, encode_bitmap
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.fetch import Steps
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType, all_null
from lance_ops.file.v2_1.columns import LayoutPage
from lance_ops.file.v2_1.compression.decode_rows import as_bytes
from lance_ops.file.v2_1.compression.sequences import needs_bytes
from lance_ops.file.v2_1.constant.read import read_constant
from lance_ops.file.v2_1.full_zip.read import read_full_zip
from lance_ops.file.v2_1.mini_block.read import read_mini_block
from lance_ops.file.v2_1.planar import full_zip_layout, mini_block_layout
from lance_ops.file.v2_1.sparse.structure import Structure, parse_structure, sequences_of
from lance_ops.pb import encodings21_pb2 as pb
from lance_ops.pb import encodings23_pb2 as pb23

Mask = npt.NDArray[np.bool_]

_LAYERS = [pb.REPDEF_ALL_VALID_ITEM]
_EMPTY_STRUCT = pa.struct([])


def read_sparse(
    page: LayoutPage, planar: pb23.PlanarLayout, leaf: LeafType, rows: RowSelection, heads: PageHeads
) -> Steps[ColumnRows]:
    """Read rows of a page with sparse structure; see `read_page`."""
    key = (page.where, page.buffers, leaf, "structure")
    structure: Structure | None = heads.get(key)
    if structure is None:
        structure = yield from _read_structure(page, planar, leaf)
        heads.put(key, structure, structure.size)
    nests, slots, valid = structure.select(rows)
    values = yield from _read_values(page, planar.values, structure, leaf.data_type, slots, valid, heads)
    return ColumnRows(tuple(nests), values)


def _read_structure(page: LayoutPage, planar: pb23.PlanarLayout, leaf: LeafType) -> Steps[Structure]:
    first = _value_buffers(planar.values)
    wanted = sum(needs_bytes(encoding) for encoding in sequences_of(planar.structure.sparse))
    if first + wanted != len(page.buffers):
        raise CorruptFileError(
            f"a page has {len(page.buffers)} buffers, expected {first} for values and {wanted} for structure"
        )
    buffers = list((yield list(page.buffers[first:]))) if wanted else []
    return parse_structure(
        planar.structure.sparse, [as_bytes(buffer) for buffer in buffers], leaf, page.length
    )


def _value_buffers(values: pb23.ValuePlane) -> int:
    """Return how many buffers of a page hold values; those of its structure follow."""
    kind = values.WhichOneof("codec")
    if kind == "chunked":
        return 3 if values.chunked.HasField("dictionary") else 2
    if kind == "zipped":
        return 1 if values.zipped.WhichOneof("details") == "bits_per_value" else 2
    return 0


def _read_values(
    page: LayoutPage,
    values: pb23.ValuePlane,
    structure: Structure,
    data_type: pa.DataType,
    slots: RowSelection,
    valid: Mask | None,
    heads: PageHeads,
) -> Steps[pa.Array]:
    """Return the values of some slots, with their nulls."""
    kind = values.WhichOneof("codec")
    innermost = structure.layers[-1].validity
    num_valid = innermost.count_valid(structure.slots)
    if kind == "none":
        if data_type == _EMPTY_STRUCT:
            # An empty struct has only its validity.
            bitmap = None if valid is None else encode_bitmap(valid)
            return pa.Array.from_buffers(data_type, slots.count, [bitmap], children=[])
        if num_valid:
            raise CorruptFileError(f"a page of {num_valid} values has none")
        return all_null(data_type, slots.count)
    if not slots.count:
        return all_null(data_type, 0)
    leaf = LeafType(data_type, (False,), (1,))
    if kind == "zipped":
        return (yield from _read_zipped(page, values.zipped, structure, leaf, slots, valid))
    own = replace(page, where=f"{page.where}, values", start=0, length=structure.slots)
    if kind == "constant":
        constant = pb.ConstantLayout(layers=_LAYERS, inline_value=values.constant.value)
        own = replace(own, buffers=(), layout=pb.PageLayout(constant_layout=constant), sparse=None)
        piece = yield from read_constant(own, own.layout.constant_layout, leaf, slots)
    else:
        mini_block = mini_block_layout(values.chunked, structure.slots)
        mini_block.layers.extend(_LAYERS)
        own = replace(
            own,
            buffers=page.buffers[: _value_buffers(values)],
            layout=pb.PageLayout(mini_block_layout=mini_block),
            sparse=None,
        )
        piece = yield from read_mini_block(own, own.layout.mini_block_layout, leaf, slots, heads)
    if valid is None:
        return piece.values
    return apply_validity(_without_offset(piece.values), encode_bitmap(valid))


def _read_zipped(
    page: LayoutPage,
    values: pb23.ZippedValues,
    structure: Structure,
    leaf: LeafType,
    slots: RowSelection,
    valid: Mask | None,
) -> Steps[pa.Array]:
    """Return values one by one: null ones are left out."""
    innermost = structure.layers[-1].validity
    num_valid = innermost.count_valid(structure.slots)
    if values.num_items != num_valid or values.num_visible_items != num_valid:
        raise CorruptFileError(f"a page of {num_valid} values has {values.num_items}")
    wanted = slots.indices if valid is None else slots.indices[valid]
    if not len(wanted):
        return all_null(leaf.data_type, slots.count)
    full_zip = full_zip_layout(values)
    full_zip.layers.extend(_LAYERS)
    own = replace(
        page,
        start=0,
        length=num_valid,
        buffers=page.buffers[: 2 if values.WhichOneof("details") == "bits_per_offset" else 1],
        layout=pb.PageLayout(full_zip_layout=full_zip),
        sparse=None,
    )
    picked = RowSelection.some(innermost.ranks(wanted), slots.gap)
    piece = yield from read_full_zip(own, full_zip, leaf, picked)
    if valid is None:
        return piece.values
    places = np.cumsum(valid) - 1
    return piece.values.take(pa.array(places, mask=~valid))


def _without_offset(array: pa.Array) -> pa.Array:
    # Validity is added to arrays without an offset only.
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array
