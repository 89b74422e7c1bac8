"""Row removal from pages of 2.0: walk the encoding tree and drop rows from each buffer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import Message

from lance_ops.encoding.bits.bitmap import decode_bitmap
from lance_ops.encoding.general.compression import NONE, compress, decompress
from lance_ops.encoding.values.end_offsets import decode_end_offsets, decode_words, encode_end_offsets
from lance_ops.encoding.values.filter_values import gather_ranges, keep_values, mask_ranges
from lance_ops.encoding.values.values import Fixed, as_bits, as_bytes
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.page_copy.rechunk import CannotRechunk
from lance_ops.pb import encodings20_pb2 as pb

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

_MAX_DEPTH = 64
# Items of fixed-size lists take at least one bit, unless they are compressed.
_MAX_ITEMS = 1 << 26


@dataclass(slots=True)
class _Page:
    """A page that is being rewritten.

    Attributes:
        buffers: Of the old page.
        written: Of the new one.
    """

    buffers: Sequence[Bytes]
    written: list[Bytes] = field(default_factory=list)

    def read(self, reference: pb.Buffer) -> Bytes:
        if reference.buffer_type != pb.Buffer.page:
            raise UnsupportedError("a page refers to a buffer of another page")
        if reference.buffer_index >= len(self.buffers):
            raise CorruptFileError(f"a page refers to buffer {reference.buffer_index} of {len(self.buffers)}")
        return self.buffers[reference.buffer_index]

    def write(self, data: Bytes) -> pb.Buffer:
        self.written.append(data)
        return pb.Buffer(buffer_index=len(self.written) - 1)


def keep_array(
    encoding: pb.ArrayEncoding, buffers: Sequence[Bytes], keep: Mask
) -> tuple[pb.ArrayEncoding, list[Bytes]]:
    """Return a page of the kept rows.

    Args:
        encoding: Of the page.
        buffers: Of the page.
        keep: The kept rows, at least one.

    Raises:
        CorruptFileError: The bytes do not match the encoding.
        UnsupportedError: An encoding that is not implemented.
        CannotRechunk: The page has to be decoded and encoded again.
    """
    page = _Page(buffers)
    return _keep(page, encoding, keep, 0), page.written


def plain_flat(encoding: pb.ArrayEncoding) -> pb.Flat:
    """Return the plain integers inside of an encoding.

    Raises:
        UnsupportedError: It is something else.
    """
    while encoding.WhichOneof("array_encoding") == "nullable":
        if encoding.nullable.WhichOneof("nullability") != "no_nulls":
            raise UnsupportedError("offsets or bitmaps with nulls are not supported")
        encoding = encoding.nullable.no_nulls.values
    if encoding.WhichOneof("array_encoding") != "flat":
        kind = encoding.WhichOneof("array_encoding")
        raise UnsupportedError(f"offsets or bitmaps in the 2.0 array encoding {kind!r} are not supported")
    return encoding.flat


def row_bytes(encoding: pb.ArrayEncoding) -> int:
    """Return the bytes of a row if the page is one buffer of plain rows, else 0."""
    items = 1
    for _ in range(_MAX_DEPTH):
        kind = encoding.WhichOneof("array_encoding")
        if kind == "nullable" and encoding.nullable.WhichOneof("nullability") == "no_nulls":
            encoding = encoding.nullable.no_nulls.values
        elif kind == "fixed_size_list":
            items *= encoding.fixed_size_list.dimension
            encoding = encoding.fixed_size_list.items
        elif kind == "flat" and not _is_compressed(encoding.flat):
            bits = items * encoding.flat.bits_per_value
            whole = encoding.flat.bits_per_value % 8 == 0
            first = (
                encoding.flat.buffer.buffer_type == pb.Buffer.page and encoding.flat.buffer.buffer_index == 0
            )
            return bits // 8 if whole and first else 0
        else:
            return 0
    return 0


def list_offsets(described: pb.List, buffers: Sequence[Bytes], length: int) -> tuple[Integers, Mask | None]:
    """Return the item offsets of each list of a page, and which lists are not null.

    Args:
        described: The page's encoding.
        buffers: Of the page.
        length: Rows of the page.

    Raises:
        CorruptFileError: The ends decrease, or exceed the items of the page.
    """
    return _offsets(
        _Page(buffers), described.offsets, described.null_offset_adjustment, described.num_items, length
    )


def _keep(page: _Page, encoding: pb.ArrayEncoding, keep: Mask, depth: int) -> pb.ArrayEncoding:
    keeper = _KEEPERS.get(encoding.WhichOneof("array_encoding") or "")
    if keeper is None:
        raise CannotRechunk
    if depth > _MAX_DEPTH:
        raise CorruptFileError("the encodings of a page are nested too deeply")
    return keeper(page, encoding, keep, depth)


def _keep_flat(page: _Page, encoding: pb.ArrayEncoding, keep: Mask, depth: int) -> pb.ArrayEncoding:
    del depth
    flat = encoding.flat
    data = page.read(flat.buffer)
    if _is_compressed(flat):
        data = np.frombuffer(decompress(flat.compression.scheme, pa.py_buffer(data)), dtype=np.uint8)
    bits = flat.bits_per_value
    if bits == 0 or (bits % 8 and bits != 1) or len(data) * 8 < len(keep) * bits:
        raise CorruptFileError(f"{len(keep)} values of {bits} bits do not fit into {len(data)} bytes")
    if bits == 1:
        rows = Fixed(1, len(keep), decode_bitmap(pa.py_buffer(data), len(keep)))
    else:
        rows = Fixed(bits, len(keep), data)
    kept = keep_values(rows, keep)
    assert isinstance(kept, Fixed)
    written = as_bits(kept) if bits == 1 else as_bytes(kept)
    return _flat(page, flat, written)


def _flat(page: _Page, flat: pb.Flat, data: Bytes) -> pb.ArrayEncoding:
    if _is_compressed(flat):
        level = flat.compression.level if flat.compression.HasField("level") else None
        data = np.frombuffer(compress(flat.compression.scheme, pa.py_buffer(data), level), dtype=np.uint8)
    new = pb.ArrayEncoding()
    new.flat.CopyFrom(flat)
    new.flat.buffer.CopyFrom(page.write(data))
    return new


def _keep_nullable(page: _Page, encoding: pb.ArrayEncoding, keep: Mask, depth: int) -> pb.ArrayEncoding:
    nullable = encoding.nullable
    kind = nullable.WhichOneof("nullability")
    new = pb.ArrayEncoding()
    if kind == "all_nulls":
        new.nullable.all_nulls.SetInParent()
    elif kind == "no_nulls":
        new.nullable.no_nulls.values.CopyFrom(_keep(page, nullable.no_nulls.values, keep, depth + 1))
    elif kind == "some_nulls":
        new.nullable.some_nulls.validity.CopyFrom(_keep(page, nullable.some_nulls.validity, keep, depth + 1))
        new.nullable.some_nulls.values.CopyFrom(_keep(page, nullable.some_nulls.values, keep, depth + 1))
    else:
        raise CorruptFileError("a page has no information about nulls")
    return new


def _keep_fixed_size_list(
    page: _Page, encoding: pb.ArrayEncoding, keep: Mask, depth: int
) -> pb.ArrayEncoding:
    dimension = encoding.fixed_size_list.dimension
    items = encoding.fixed_size_list.items
    new = pb.ArrayEncoding()
    new.fixed_size_list.dimension = dimension
    if items.nullable.HasField("all_nulls"):
        new.fixed_size_list.items.CopyFrom(items)
        return new
    stored = sum(len(data) for data in page.buffers)
    if dimension * len(keep) > max(stored * 8, _MAX_ITEMS):
        raise CorruptFileError(f"{len(keep)} lists of {dimension} items do not fit into {stored} bytes")
    mask = np.repeat(keep, dimension)
    new.fixed_size_list.items.CopyFrom(_keep(page, items, mask, depth + 1))
    return new


def _keep_binary(page: _Page, encoding: pb.ArrayEncoding, keep: Mask, depth: int) -> pb.ArrayEncoding:
    del depth
    new = pb.ArrayEncoding()
    new.binary.CopyFrom(_binary(page, encoding.binary, keep))
    return new


def _keep_fsst(page: _Page, encoding: pb.ArrayEncoding, keep: Mask, depth: int) -> pb.ArrayEncoding:
    del depth
    if encoding.fsst.binary.WhichOneof("array_encoding") != "binary":
        raise CorruptFileError("an FSST encoding is used for values other than strings")
    new = pb.ArrayEncoding()
    new.fsst.symbol_table = encoding.fsst.symbol_table
    new.fsst.binary.binary.CopyFrom(_binary(page, encoding.fsst.binary.binary, keep))
    return new


def _binary(page: _Page, binary: pb.Binary, keep: Mask) -> pb.Binary:
    flat = plain_flat(binary.bytes)
    data = page.read(flat.buffer)
    if _is_compressed(flat):
        data = np.frombuffer(decompress(flat.compression.scheme, pa.py_buffer(data)), dtype=np.uint8)
    offsets, valid = _offsets(page, binary.indices, binary.null_adjustment, len(data), len(keep))
    new = pb.Binary()
    ends, adjustment = _ends(offsets, valid, keep)
    new.indices.CopyFrom(_words(page, ends))
    first, last = mask_ranges(keep)
    new.bytes.CopyFrom(_flat(page, flat, gather_ranges(data, offsets[first], offsets[last])))
    new.null_adjustment = adjustment
    return new


def _keep_list(page: _Page, encoding: pb.ArrayEncoding, keep: Mask, depth: int) -> pb.ArrayEncoding:
    del depth
    described = encoding.list
    offsets, valid = list_offsets(described, page.buffers, len(keep))
    ends, adjustment = _ends(offsets, valid, keep)
    new = pb.ArrayEncoding()
    new.list.offsets.CopyFrom(_words(page, ends))
    new.list.null_offset_adjustment = adjustment
    new.list.num_items = adjustment - 1
    return new


def _keep_dictionary(page: _Page, encoding: pb.ArrayEncoding, keep: Mask, depth: int) -> pb.ArrayEncoding:
    dictionary = encoding.dictionary
    new = pb.ArrayEncoding()
    new.dictionary.indices.CopyFrom(_keep(page, dictionary.indices, keep, depth + 1))
    new.dictionary.items.CopyFrom(dictionary.items)
    _move_buffers(page, new.dictionary.items, 0)
    new.dictionary.num_dictionary_items = dictionary.num_dictionary_items
    return new


def _keep_packed(page: _Page, encoding: pb.ArrayEncoding, keep: Mask, depth: int) -> pb.ArrayEncoding:
    del depth
    data = page.read(encoding.packed_struct.buffer)
    width, rest = divmod(len(data), len(keep))
    if rest or width == 0:
        raise CorruptFileError(f"{len(keep)} packed rows do not fit into {len(data)} bytes")
    kept = keep_values(Fixed(8 * width, len(keep), data), keep)
    assert isinstance(kept, Fixed)
    new = pb.ArrayEncoding()
    new.packed_struct.CopyFrom(encoding.packed_struct)
    new.packed_struct.buffer.CopyFrom(page.write(as_bytes(kept)))
    return new


def _move_buffers(page: _Page, message: Message, depth: int) -> None:
    """Copy every buffer that a part of the tree refers to."""
    if depth > 4 * _MAX_DEPTH:
        raise CorruptFileError("the encodings of a page are nested too deeply")
    if isinstance(message, pb.Buffer):
        message.CopyFrom(page.write(page.read(message)))
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        # A reference to buffer 0 has no bytes, but is still listed, as its field is set.
        for part in [value] if isinstance(value, Message) else value:
            _move_buffers(page, part, depth + 1)


def _offsets(
    page: _Page, encoding: pb.ArrayEncoding, adjustment: int, limit: int, length: int
) -> tuple[Integers, Mask | None]:
    flat = plain_flat(encoding)
    data = page.read(flat.buffer)
    if _is_compressed(flat):
        data = np.frombuffer(decompress(flat.compression.scheme, pa.py_buffer(data)), dtype=np.uint8)
    ends = decode_words(pa.py_buffer(data), flat.bits_per_value, length)
    offsets, validity = decode_end_offsets(ends, adjustment, limit, has_predecessor=False)
    return offsets, None if validity is None else decode_bitmap(validity, length)


def _ends(offsets: Integers, valid: Mask | None, keep: Mask) -> tuple[npt.NDArray[np.uint64], int]:
    ends, adjustment, _ = encode_end_offsets(np.diff(offsets)[keep], None if valid is None else valid[keep])
    return ends, adjustment


def _words(page: _Page, words: npt.NDArray[np.uint64]) -> pb.ArrayEncoding:
    encoding = pb.ArrayEncoding()
    flat = encoding.nullable.no_nulls.values.flat
    flat.bits_per_value = 64
    flat.buffer.CopyFrom(page.write(words.view(np.uint8)))
    return encoding


def _is_compressed(flat: pb.Flat) -> bool:
    return flat.compression.scheme not in ("", NONE)


_KEEPERS: dict[str, Callable[[_Page, pb.ArrayEncoding, Mask, int], pb.ArrayEncoding]] = {
    "flat": _keep_flat,
    "nullable": _keep_nullable,
    "fixed_size_list": _keep_fixed_size_list,
    "binary": _keep_binary,
    "fsst": _keep_fsst,
    "dictionary": _keep_dictionary,
    "packed_struct": _keep_packed,
    "list": _keep_list,
}
