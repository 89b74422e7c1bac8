"""Rechunking: the values of a mini-block page between two cuts into chunks, decoded as little as possible.

Strings keep their symbols, and structs their rows of bytes. Packed integers, runs and compressed chunks have
to be decoded and encoded again, in the same way: the encoding of the page is unchanged.
"""

import numpy as np
import pyarrow as pa

from lance_ops.encoding.bits.bitpacking import BLOCK, pack_inline, pack_parts
from lance_ops.encoding.bits.byte_stream_split import split_streams
from lance_ops.encoding.bits.rle import encode_runs
from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.general.compression import LZ4, ZSTD, compress
from lance_ops.encoding.values.values import Fixed, Lists, Values, Variable, as_words
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.v2_1.compression.decode import decode_chunk_values
from lance_ops.file.v2_1.compression.encoded import ChunkedValues, Integers
from lance_ops.file.v2_1.compression.fixed import compress_fixed
from lance_ops.file.v2_1.compression.strings import compress_variable
from lance_ops.file.v2_1.compression.structs import compress_lists
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.pb import encodings21_pb2 as pb

_PLAIN = FieldOptions(compression="none", bss="off")
_SCHEMES = {pb.COMPRESSION_ALGORITHM_LZ4: LZ4, pb.COMPRESSION_ALGORITHM_ZSTD: ZSTD}
_WORD_BITS = (8, 16, 32, 64)
# Maximum of a chunk of runs of 64-bit values in 2.1, whatever the runs.
_RUN_VALUES = 2048
_STREAM_VALUES = 1024
# Maximum bytes of the levels of a value when they are not compressed.
_LEVEL_BYTES = 4.0


class CannotRechunk(Exception):  # noqa: N818 - a way to say "decode the page instead", an internal signal
    """Raised if the page has to be decoded and encoded again."""


def open_chunks(
    encoding: pb.CompressiveEncoding, buffers: tuple[ChunkBuffer, ...], counts: Integers
) -> Values:
    """Decode chunks into values.

    Args:
        encoding: Of the values.
        buffers: The value buffers.
        counts: Values of each chunk.

    Raises:
        CorruptFileError: The buffers do not match the encoding.
        UnsupportedError: A compression that is not implemented.
    """
    return decode_chunk_values(_peel(encoding), buffers, counts)


def close_chunks(encoding: pb.CompressiveEncoding, values: Values, version: str) -> ChunkedValues:
    """Cut values into chunks again.

    Args:
        encoding: As for `open_chunks`.
        values: At least one.
        version: "2.1" or "2.2".

    Raises:
        CannotRechunk: This compression is never written here.
    """
    kind = encoding.WhichOneof("compression")
    if kind == "fsst":
        inner = close_chunks(encoding.fsst.values, values, version)
        fsst = pb.Fsst(symbol_table=encoding.fsst.symbol_table, values=inner.encoding)
        return ChunkedValues(pb.CompressiveEncoding(fsst=fsst), inner.counts, inner.buffers)
    if kind == "general":
        return _close_general(encoding.general, values, version)
    if kind == "variable" and isinstance(values, Variable):
        return compress_variable(values, encoding.variable.offsets.flat.bits_per_value, _PLAIN, version)
    if kind == "fixed_size_list" and isinstance(values, Lists):
        return compress_lists(values, _PLAIN, version)
    if not isinstance(values, Fixed):
        raise CannotRechunk
    if kind == "packed_struct" and encoding.packed_struct.values.WhichOneof("compression") == "flat":
        inner = close_chunks(encoding.packed_struct.values, values, version)
        packed = pb.PackedStruct(bits_per_value=encoding.packed_struct.bits_per_value, values=inner.encoding)
        return ChunkedValues(pb.CompressiveEncoding(packed_struct=packed), inner.counts, inner.buffers)
    if kind == "flat":
        return compress_fixed(values, _PLAIN, version, levels_bytes_per_value=_LEVEL_BYTES)
    if values.bits in _WORD_BITS:
        return _close_words(encoding, values)
    raise CannotRechunk


def _close_words(encoding: pb.CompressiveEncoding, values: Fixed) -> ChunkedValues:
    kind = encoding.WhichOneof("compression")
    words = as_words(values)
    if kind == "inline_bitpacking":
        return ChunkedValues(encoding, _even(len(words), BLOCK), (pack_inline(words),))
    if kind == "out_of_line_bitpacking":
        width = encoding.out_of_line_bitpacking.values.flat.bits_per_value
        counts = _even(len(words), BLOCK)
        return ChunkedValues(encoding, counts, (pack_parts(words, counts, width),))
    if kind == "rle" and encoding.rle.run_lengths.flat.bits_per_value == 8:
        counts = _even(len(words), _RUN_VALUES)
        return ChunkedValues(encoding, counts, encode_runs(words, counts))
    if kind == "byte_stream_split":
        counts = _even(len(words), _STREAM_VALUES)
        return ChunkedValues(encoding, counts, (split_streams(words, counts),))
    raise CannotRechunk


def _close_general(general: pb.General, values: Values, version: str) -> ChunkedValues:
    scheme = _SCHEMES.get(general.compression.scheme)
    if scheme is None:
        raise UnsupportedError(f"the compression scheme {general.compression.scheme} is not supported")
    level = general.compression.level if general.compression.HasField("level") else None
    inner = close_chunks(general.values, values, version)
    parts = [
        np.frombuffer(compress(scheme, pa.py_buffer(part), level), dtype=np.uint8)
        for part in inner.buffers[0].parts()
    ]
    encoding = pb.CompressiveEncoding(
        general=pb.General(compression=general.compression, values=inner.encoding)
    )
    return ChunkedValues(encoding, inner.counts, (ChunkBuffer.from_parts(parts), *inner.buffers[1:]))


def _peel(encoding: pb.CompressiveEncoding) -> pb.CompressiveEncoding:
    """Return the encoding without layers that rows pass through unchanged."""
    kind = encoding.WhichOneof("compression")
    if kind == "fsst":
        return _peel(encoding.fsst.values)
    if kind == "packed_struct":
        if encoding.packed_struct.values.WhichOneof("compression") != "flat":
            raise CannotRechunk
        if encoding.packed_struct.values.flat.bits_per_value != sum(encoding.packed_struct.bits_per_value):
            raise CorruptFileError("the members of a packed struct do not fill it")
        return encoding.packed_struct.values
    if kind == "general":
        inner = pb.General(compression=encoding.general.compression, values=_peel(encoding.general.values))
        return pb.CompressiveEncoding(general=inner)
    return encoding


def _even(total: int, count: int) -> Integers:
    counts = np.full(-(-total // count), count, dtype=np.int64)
    counts[-1] = total - (len(counts) - 1) * count
    return counts
