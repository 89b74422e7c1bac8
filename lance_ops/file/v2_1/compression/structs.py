"""Compression of fixed-size lists and packed structs in chunks: none, as it may not part their items."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.values.array_values import fixed_bytes
from lance_ops.encoding.values.packed_struct import encode_packed
from lance_ops.encoding.values.values import Fixed, Lists, Packed, Values
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.v2_1.compression.encoded import ChunkedValues
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]

# Pylance's own bound: a reader of single rows fetches whole chunks.
_CHUNK_BITS = 8186 * 8
_MAX_COUNT = 4096
# Minimum values of all chunks but the last; eight if a chunk would end within a byte.
_MIN_COUNT, _MIN_BIT_COUNT = 2, 8
# Sizes of 16 bits have to hold a chunk with its levels.
_MAX_SHORT_CHUNK = 24 << 10
_MAX_CHUNK = 1 << 24


def compress_lists(values: Lists, options: FieldOptions, version: str) -> ChunkedValues:
    """Cut fixed-size lists into chunks.

    Args:
        values: Lists of items of fixed width, or of such lists.
        options: Of the column.
        version: "2.1" or "2.2".

    Raises:
        UnsupportedTypeError: Two lists together are too large for a chunk, or the items have no fixed width.
    """
    encoding = pb.CompressiveEncoding()
    node = encoding
    items: Values = values
    masks: list[tuple[npt.NDArray[np.bool_], int]] = []
    width = 1
    while isinstance(items, Lists):
        width *= items.size
        node.fixed_size_list.items_per_value = items.size
        if items.valid is not None:
            node.fixed_size_list.has_validity = True
            masks.append((items.valid, width))
        node = node.fixed_size_list.values
        items = items.items
    if not isinstance(items, Fixed):
        raise UnsupportedTypeError("fixed-size lists can have items of fixed width only")
    node.flat.bits_per_value = items.bits
    bits = width * items.bits + sum(mask_width for _, mask_width in masks)
    aligned = (width * items.bits) % 8 == 0 and all(mask_width % 8 == 0 for _, mask_width in masks)
    count = _chunk_count(bits, options, version, aligned=aligned)
    counts = _counts(values.length, count)
    buffers = [_cut_bits(mask, mask_width, count, counts) for mask, mask_width in masks]
    if items.bits == 1:
        assert isinstance(items.data, np.ndarray)
        buffers.append(_cut_bits(items.data, width, count, counts))
    else:
        buffers.append(_cut_bytes(fixed_bytes(items), width * items.bits // 8, counts))
    return ChunkedValues(encoding, counts, tuple(buffers))


def compress_packed(values: Packed, options: FieldOptions, version: str) -> ChunkedValues:
    """Split packed structs into chunks, with the members of a row stored together.

    Args:
        values: Structs of members of fixed width.
        options: Of the column.
        version: "2.1" or "2.2".

    Raises:
        UnsupportedTypeError: A member is of another kind, or two rows together are too large for a chunk.
    """
    members = [member for member in values.members if isinstance(member, Fixed) and member.bits % 8 == 0]
    if len(members) != len(values.members) or not members:
        raise UnsupportedTypeError("packed structs can have members of whole bytes only")
    widths = [member.bits // 8 for member in members]
    encoding = pb.CompressiveEncoding()
    encoding.packed_struct.bits_per_value.extend(member.bits for member in members)
    encoding.packed_struct.values.flat.bits_per_value = sum(widths) * 8
    rows = encode_packed([pa.py_buffer(fixed_bytes(member)) for member in members], widths, values.length)
    count = _chunk_count(sum(widths) * 8, options, version, aligned=True)
    counts = _counts(values.length, count)
    buffer = _cut_bytes(np.frombuffer(rows, dtype=np.uint8), sum(widths), counts)
    return ChunkedValues(encoding, counts, (buffer,))


def _chunk_count(bits: int, options: FieldOptions, version: str, *, aligned: bool) -> int:
    # The largest power of two whose values fit into a chunk.
    smallest = _MIN_COUNT if aligned else _MIN_BIT_COUNT
    budget = _CHUNK_BITS if options.minichunk_bytes is None else min(options.minichunk_bytes * 8, _CHUNK_BITS)
    fitting = max(budget // max(bits, 1), 1)
    count = max(min(1 << (fitting.bit_length() - 1), _MAX_COUNT), smallest)
    limit = _MAX_SHORT_CHUNK if version == "2.1" else _MAX_CHUNK
    if count * bits // 8 > limit:
        raise UnsupportedTypeError(
            f"values of {bits // 8} bytes are too large for the chunks of storage version {version}"
        )
    return count


def _counts(length: int, count: int) -> npt.NDArray[np.int64]:
    full, rest = divmod(length, count)
    return np.array([count] * full + [rest] * (rest > 0), dtype=np.int64)


def _cut_bytes(data: Bytes, width: int, counts: npt.NDArray[np.int64]) -> ChunkBuffer:
    sizes = counts * width
    return ChunkBuffer(data, np.cumsum(sizes) - sizes, sizes)


def _cut_bits(
    flags: npt.NDArray[np.bool_], width: int, count: int, counts: npt.NDArray[np.int64]
) -> ChunkBuffer:
    # Each chunk starts at a byte boundary.
    sizes = (counts * width + 7) // 8
    if count * width % 8 == 0 or len(counts) < 2:
        data = np.packbits(flags.reshape(-1), bitorder="little")
        return ChunkBuffer(data, np.cumsum(sizes) - sizes, sizes)
    full = int((counts == count).sum())
    body = flags.reshape(-1)[: full * count * width].reshape(full, count * width)
    tail = np.packbits(flags.reshape(-1)[full * count * width :], bitorder="little")
    data = np.concatenate([np.packbits(body, axis=1, bitorder="little").reshape(-1), tail])
    return ChunkBuffer(data, np.cumsum(sizes) - sizes, sizes)
