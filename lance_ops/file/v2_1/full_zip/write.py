"""Full-zip pages, written: large values, each behind its own levels and length."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.pages.full_zip_write import (
    control_words,
    join_pieces,
    length_rows,
    pack_index,
    zip_entries,
    zip_rows,
)
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.encoding.values.array_values import fixed_bytes
from lance_ops.encoding.values.binary import is_large
from lance_ops.encoding.values.values import Fixed, Lists, Nulls, Packed, Values, Variable
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.v2_1.columns import layer_codes
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.file.v2_1.compression.strings import compress_values_apart
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]

# Bits of the length of members of a packed struct and of packed structs, except for values whose Arrow type
# has longer offsets.
_SHORT, _LONG = 32, 64


@dataclass(frozen=True, slots=True)
class _Rows:
    """Values of fixed width.

    Attributes:
        encoding: How they are stored.
        data: Their bytes.
        width: Bytes of each.
    """

    encoding: pb.CompressiveEncoding
    data: Bytes
    width: int


def can_full_zip(values: Values) -> bool:
    """Return whether values can be in a full-zip page: of fixed width they have to fill whole bytes."""
    if isinstance(values, Variable):
        return True
    if isinstance(values, Packed):
        return any(_is_variable(member) or isinstance(member, Lists) for member in values.members)
    if isinstance(values, Lists):
        # Of bits with nulls among them pylance expects bytes, and panics.
        return _list_bits(values) % 8 == 0 and not (_item_bits(values) == 1 and _has_null_items(values))
    return isinstance(values, Fixed)


def _item_bits(values: Values) -> int | None:
    if isinstance(values, Lists):
        return _item_bits(values.items)
    return values.bits if isinstance(values, Fixed) else None


def _has_null_items(values: Values) -> bool:
    return isinstance(values, Lists) and (values.valid is not None or _has_null_items(values.items))


def encode_full_zip(
    raveled: Raveled, values: Values, data_type: pa.DataType, options: FieldOptions, version: str
) -> EncodedPage:
    """Encode a page of large values.

    Args:
        raveled: The levels of the page.
        values: Of the page, as `array_values.from_arrow` makes them.
        data_type: Storage type of the values.
        options: Of the column.
        version: "2.1" or "2.2".

    Returns:
        A page of the values alone, without a copy of them, where they have a fixed width and no levels.

    Raises:
        UnsupportedTypeError: Such values cannot be in a full-zip page.
    """
    layout = pb.FullZipLayout()
    layout.num_items = raveled.num_entries
    layout.num_visible_items = values.length
    layout.layers.extend(layer_codes(raveled.layers))
    if raveled.rep is not None:
        layout.bits_rep = raveled.max_rep.bit_length()
    if raveled.definition is not None:
        layout.bits_def = raveled.max_definition.bit_length()
    control = control_words(raveled.rep, raveled.definition, layout.bits_rep, layout.bits_def)
    if isinstance(values, Packed):
        layout.bits_per_offset = _SHORT
        encoding, pieces = _packed_pieces(values, data_type, options, version)
        layout.value_compression.CopyFrom(encoding)
        data, starts = _zip_pieces(control, pieces, raveled)
    elif isinstance(values, Variable):
        bits = _LONG if is_large(data_type) else _SHORT
        layout.bits_per_offset = bits
        encoding, rows = compress_values_apart(values, bits, options, version)
        layout.value_compression.CopyFrom(encoding)
        present = None if raveled.definition is None else raveled.definition == 0
        data, starts = zip_entries(control, present, _without_nulls(rows, raveled), bits // 8)
    else:
        fixed = _fixed_rows(values)
        layout.bits_per_value = fixed.width * 8
        layout.value_compression.CopyFrom(fixed.encoding)
        if raveled.rep is None:
            data = zip_rows(control, fixed.data, fixed.width)
            return _page(layout, (data,), raveled)
        visible = None if raveled.definition is None else raveled.definition < raveled.visible_below
        offsets = np.arange(values.length + 1, dtype=np.int64) * fixed.width
        data, starts = zip_entries(control, visible, Variable(offsets, pa.py_buffer(fixed.data)), 0)
    return _page(layout, (data, pack_index(starts[raveled.row_starts()])), raveled)


def _page(layout: pb.FullZipLayout, buffers: tuple[Bytes, ...], raveled: Raveled) -> EncodedPage:
    return EncodedPage(pb.PageLayout(full_zip_layout=layout), buffers, raveled.num_rows)


def _without_nulls(values: Variable, raveled: Raveled) -> Variable:
    # A null has neither length nor value. Its slot is blank, but need not be once it is compressed.
    if raveled.definition is None:
        return values
    valid = raveled.definition[raveled.definition < raveled.visible_below] == 0
    lengths = np.diff(values.offsets)
    if not bool(lengths[~valid].any()):
        kept = np.zeros(int(valid.sum()) + 1, dtype=np.int64)
        np.cumsum(lengths[valid], out=kept[1:])
        return Variable(kept, values.data)
    offsets = (values.offsets - values.offsets[0]).astype(np.int64, copy=False)
    strings = pa.Array.from_buffers(
        pa.large_binary(), values.length, [None, pa.py_buffer(offsets), values.data], null_count=0
    ).filter(pa.array(valid))
    kept = np.frombuffer(strings.buffers()[1], dtype=np.int64, count=len(strings) + 1)
    return Variable(kept, strings.buffers()[2])


def _fixed_rows(values: Values) -> _Rows:
    encoding = pb.CompressiveEncoding()
    if isinstance(values, Lists):
        return _list_rows(values)
    if not isinstance(values, Fixed):
        raise UnsupportedTypeError("a full-zip page cannot have values of this type")
    # Where bits cannot be addressed, a boolean takes a byte.
    bits = max(values.bits, 8)
    encoding.flat.bits_per_value = bits
    return _Rows(encoding, fixed_bytes(values), bits // 8)


def _list_bits(values: Lists) -> int:
    bits = values.size
    items = values.items
    while isinstance(items, Lists):
        bits *= items.size
        items = items.items
    if isinstance(items, Nulls):
        return 0
    return bits * items.bits if isinstance(items, Fixed) else 1


def _list_rows(values: Lists) -> _Rows:
    """The validity of the items at each level, from the outermost inwards, and then the items themselves."""
    count = values.length
    parts: list[Bytes] = []
    encoding = pb.CompressiveEncoding()
    node, inner = encoding, encoding
    items: Values = values
    while isinstance(items, Lists):
        inner = node
        inner.fixed_size_list.items_per_value = items.size
        if items.valid is not None:
            inner.fixed_size_list.has_validity = True
            parts.append(np.packbits(items.valid.reshape(count, -1), axis=1, bitorder="little"))
        node = inner.fixed_size_list.values
        items = items.items
    if isinstance(items, Nulls):
        # Nothing is left but the validity.
        node.constant.SetInParent()
        items = Fixed(8, 0, np.empty(0, dtype=np.uint8))
    elif isinstance(items, Fixed):
        node.flat.bits_per_value = items.bits
    if not isinstance(items, Fixed) or _list_bits(values) % 8:
        raise UnsupportedTypeError(
            "the rows of a fixed-size list that is stored value by value have to fill whole bytes",
            hint="leave the structural encoding to the writer",
        )
    if items.bits == 1:
        assert isinstance(items.data, np.ndarray)
        data = np.packbits(items.data.reshape(-1), bitorder="little")
    else:
        data = fixed_bytes(items)
    width = _list_bits(values) // 8
    if not parts:
        return _Rows(encoding, data, width)
    rows = np.concatenate([*parts, data.reshape(count, width)], axis=1)
    return _Rows(encoding, rows.reshape(-1), rows.shape[1])


def _is_variable(values: Values) -> bool:
    return isinstance(values, Variable)


def _packed_pieces(
    values: Packed, data_type: pa.DataType, options: FieldOptions, version: str
) -> tuple[pb.CompressiveEncoding, list[Bytes | Variable]]:
    encoding = pb.CompressiveEncoding()
    pieces: list[Bytes | Variable] = []
    for number, member in enumerate(values.members):
        described = encoding.variable_packed_struct.fields.add()
        if isinstance(member, Variable):
            bits = _LONG if is_large(data_type.field(number).type) else _SHORT
            compressed, strings = compress_values_apart(member, bits, options, version)
            described.bits_per_length = bits
            pieces += [length_rows(strings, bits // 8), strings]
        else:
            fixed = _fixed_rows(member)
            compressed = fixed.encoding
            described.bits_per_value = fixed.width * 8
            pieces.append(fixed.data.reshape(values.length, fixed.width))
        described.value.CopyFrom(compressed)
    if not pieces:
        raise UnsupportedTypeError("an empty struct cannot be packed")
    return encoding, pieces


def _zip_pieces(
    control: npt.NDArray[np.unsignedinteger] | None, pieces: list[Bytes | Variable], raveled: Raveled
) -> tuple[Bytes, npt.NDArray[np.int64]]:
    if raveled.definition is not None:
        rows = join_pieces(pieces)
        return zip_entries(control, raveled.definition == 0, _without_nulls(rows, raveled), _SHORT // 8)
    sizes = np.zeros(len(raveled.values), dtype=np.int64)
    for piece in pieces:
        sizes += np.diff(piece.offsets) if isinstance(piece, Variable) else piece.shape[1]
    if int(sizes.max(initial=0)) > np.iinfo(np.uint32).max:
        raise UnsupportedTypeError(f"a packed struct of {int(sizes.max())} bytes is too long")
    totals = sizes.astype("<u4")
    heads = [totals.view(np.uint8).reshape(len(totals), -1)]
    if control is not None:
        heads.insert(0, control.view(np.uint8).reshape(len(control), -1))
    joined = join_pieces([*heads, *pieces])
    data = np.frombuffer(joined.data, dtype=np.uint8, count=int(joined.offsets[-1]))
    return data, joined.offsets
