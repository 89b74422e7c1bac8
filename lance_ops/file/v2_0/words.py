"""Words of a 2.0 page, plain and packed: values, offsets, bitmaps and the bytes of strings."""

import numpy as np
import pyarrow as pa

from lance_ops.encoding.bits.bit_runs import unpack_bit_run
from lance_ops.encoding.bits.bitmap import encode_bitmap
from lance_ops.encoding.bits.bitpacking import BLOCK, block_bytes, unpack_blocks
from lance_ops.encoding.general.compression import NONE, decompress
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.io.extents import fetch_bits, fetch_fixed, gather_fixed, pick_bits
from lance_ops.file.io.fetch import Steps, fetch
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.v2_0.columns import ArrayPage
from lance_ops.pb import encodings20_pb2 as pb

_PACKED = ("bitpacked", "bitpacked_for_non_neg")


def find_words(encoding: pb.ArrayEncoding, bits: int | None = None) -> pb.ArrayEncoding:
    """Return the node that holds words: writers wrap them into "nullable, but no nulls".

    Args:
        encoding: The outermost node.
        bits: Of a word, None for any.

    Raises:
        UnsupportedError: There are nulls, or it is no node of words.
        CorruptFileError: The words have other widths.
    """
    while encoding.WhichOneof("array_encoding") == "nullable":
        if encoding.nullable.WhichOneof("nullability") != "no_nulls":
            raise UnsupportedError("offsets or bitmaps with nulls are not supported")
        encoding = encoding.nullable.no_nulls.values
    kind = encoding.WhichOneof("array_encoding")
    if kind != "flat" and kind not in _PACKED:
        raise UnsupportedError(f"offsets or bitmaps in the 2.0 array encoding {kind!r} are not supported")
    if bits is not None and word_bits(encoding) != bits:
        raise CorruptFileError(f"values of {word_bits(encoding)} bits where {bits} are expected")
    return encoding


def is_flat(encoding: pb.ArrayEncoding) -> bool:
    """Return whether a node holds plain words without nulls."""
    while encoding.WhichOneof("array_encoding") == "nullable":
        if encoding.nullable.WhichOneof("nullability") != "no_nulls":
            return False
        encoding = encoding.nullable.no_nulls.values
    return encoding.WhichOneof("array_encoding") == "flat"


def is_plain(encoding: pb.ArrayEncoding) -> bool:
    """Return whether a node holds plain words without nulls that are not compressed."""
    return is_flat(encoding) and not _is_compressed(find_words(encoding).flat)


def word_bits(encoding: pb.ArrayEncoding) -> int:
    """Return bits of an unpacked word of a node that `find_words` found."""
    kind = encoding.WhichOneof("array_encoding")
    if kind == "flat":
        return encoding.flat.bits_per_value
    packed = encoding.bitpacked if kind == "bitpacked" else encoding.bitpacked_for_non_neg
    return packed.uncompressed_bits_per_value


def fetch_words(
    page: ArrayPage, encoding: pb.ArrayEncoding, rows: RowSelection, width: int = 1
) -> Steps[pa.Buffer]:
    """Fetch words, `width` of them for each row; of single bits, a bitmap.

    Args:
        page: The page.
        encoding: From `find_words`.
        rows: Which.
        width: Words of a row.

    Raises:
        CorruptFileError: There are not so many.
    """
    if encoding.WhichOneof("array_encoding") == "flat":
        return (yield from _fetch_flat(page, encoding.flat, rows, width))
    words = yield from _fetch_packed(page, encoding, rows.spread(width))
    return pa.py_buffer(words)


def fetch_all_bytes(page: ArrayPage, encoding: pb.ArrayEncoding) -> Steps[pa.Buffer | None]:
    """Return all bytes of a node of 8-bit words that must be read whole; None if ranges can be fetched."""
    if encoding.WhichOneof("array_encoding") == "flat":
        if not _is_compressed(encoding.flat):
            return None
        return (yield from _fetch_whole(page, encoding.flat))
    bitpacked = encoding.WhichOneof("array_encoding") == "bitpacked"
    packed = encoding.bitpacked if bitpacked else encoding.bitpacked_for_non_neg
    _, size = page.buffer(packed.buffer)
    count = size * 8 // max(packed.compressed_bits_per_value, 1)
    words = yield from _fetch_packed(page, encoding, RowSelection(0, count))
    return pa.py_buffer(words)


def _fetch_packed(page: ArrayPage, encoding: pb.ArrayEncoding, rows: RowSelection) -> Steps[pa.Buffer]:
    # Only files from before 2.1 was final have these: single rows are read as a range.
    if encoding.WhichOneof("array_encoding") == "bitpacked":
        bitpacked = encoding.bitpacked
        width, bits = bitpacked.compressed_bits_per_value, bitpacked.uncompressed_bits_per_value
        position, size = page.buffer(bitpacked.buffer)
        # Eight values fill whole bytes.
        first = rows.start - rows.start % 8
        low = first * width // 8
        high = _check_end((rows.stop * width + 7) // 8, size, rows)
        data = np.frombuffer((yield from fetch(position + low, high - low)), dtype=np.uint8)
        count = rows.stop - rows.start
        words = unpack_bit_run(data, rows.start - first, count, width, bits, signed=bitpacked.signed)
    else:
        blocks = encoding.bitpacked_for_non_neg
        width, bits = blocks.compressed_bits_per_value, blocks.uncompressed_bits_per_value
        if not 0 < width <= bits:
            raise CorruptFileError(f"integers of {bits} bits packed into {width}")
        position, size = page.buffer(blocks.buffer)
        first = rows.start // BLOCK
        last = -(-rows.stop // BLOCK)
        _check_end(last * block_bytes(width), size, rows)
        data = np.frombuffer(
            (yield from fetch(position + first * block_bytes(width), (last - first) * block_bytes(width))),
            dtype=np.uint8,
        )
        words = unpack_blocks(data, width, bits).reshape(-1)
        words = words[rows.start - first * BLOCK : rows.stop - first * BLOCK]
    if rows.numbers is not None:
        words = words[rows.numbers - rows.start]
    return pa.py_buffer(np.ascontiguousarray(words))


def _check_end(end: int, size: int, rows: RowSelection) -> int:
    if end > size:
        raise CorruptFileError(f"rows up to {rows.stop} need {end} bytes, but the buffer has {size}")
    return end


def _is_compressed(flat: pb.Flat) -> bool:
    return flat.compression.scheme not in ("", NONE)


def _fetch_whole(page: ArrayPage, flat: pb.Flat) -> Steps[pa.Buffer]:
    position, size = page.buffer(flat.buffer)
    data = yield from fetch(position, size)
    return decompress(flat.compression.scheme, data)


def _fetch_flat(page: ArrayPage, flat: pb.Flat, rows: RowSelection, width: int = 1) -> Steps[pa.Buffer]:
    """Fetch plain values, `width` of them for each row; of single bits, a bitmap."""
    position, size = page.buffer(flat.buffer)
    bits = flat.bits_per_value * width
    first, last = rows.start * bits // 8, (rows.stop * bits + 7) // 8
    whole: pa.Buffer | None = None
    if _is_compressed(flat):
        whole = yield from _fetch_whole(page, flat)
        size = whole.size
    if last > size:
        raise CorruptFileError(f"rows up to {rows.stop} need {last} bytes, but the buffer has {size}")
    if rows.numbers is None:
        if whole is not None:
            return whole.slice(first, last - first)
        return (yield from fetch(position + first, last - first))
    if bits % 8:
        if bits != 1:
            raise UnsupportedError(f"single values of {bits} bits are not supported")
        if whole is not None:
            data = np.frombuffer(whole, dtype=np.uint8)
            return encode_bitmap(pick_bits(data, rows.numbers >> 3, rows.numbers))
        return encode_bitmap((yield from fetch_bits(position, rows)))
    if whole is None:
        return (yield from fetch_fixed(position, bits // 8, rows))
    data = np.frombuffer(whole, dtype=np.uint8)
    return pa.py_buffer(gather_fixed(data, rows.numbers * (bits // 8), bits // 8))
