"""Compression of values of variable width: with a table of symbols, generally, or not at all."""

import numpy as np
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.fsst import encode_fsst, train_symbols
from lance_ops.encoding.general.compression import LZ4, NONE, ZSTD, compress_parts
from lance_ops.encoding.values.values import Variable
from lance_ops.encoding.values.variable import CHUNK_BYTES, encode_variable_chunks
from lance_ops.errors import LanceOpsError
from lance_ops.file.v2_1.compression.descriptions import describe_flat, describe_general
from lance_ops.file.v2_1.compression.encoded import ChunkedValues
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.pb import encodings21_pb2 as pb

MAX_CHUNK_BYTES = {"2.1": 31 << 10, "2.2": 1 << 30, "2.3": 1 << 30}
"""The words of 2.1 cannot describe more than 32 KiB, of which header, levels and paddings take some."""

_GENERAL = (ZSTD, LZ4)
# Larger values are compressed separately in full-zip pages.
_LARGE_VALUE = 32 << 10
# A general compression is set up again for each chunk, and finds more in larger ones.
_GENERAL_CHUNK_BYTES = 16 << 10
_SAMPLE_BYTES = 256 << 10
_MAX_GENERAL_SHARE = 0.95

_FSST = "fsst"
# Below, a table of symbols is hardly worth reading, nor its making. Neither are values of next to no bytes.
_MIN_FSST_BYTES = 32 << 10
_MIN_FSST_LENGTH = 5
# A reader of all values decodes them at the price of this share of their bytes.
_MAX_FSST_SHARE = 0.9


def compress_variable(values: Variable, width: int, options: FieldOptions, version: str) -> ChunkedValues:
    """Compress values into the chunks of a mini-block page.

    Args:
        values: At least one.
        width: Bits of an offset: 32, or 64 for the large types.
        options: Of the column.
        version: "2.1" or "2.2".

    Raises:
        LanceOpsError: Two values do not fit into a chunk.
    """
    limit = MAX_CHUNK_BYTES[version]
    usual = _GENERAL_CHUNK_BYTES if options.compression in _GENERAL else CHUNK_BYTES
    chunk_bytes = min(options.minichunk_bytes or usual, limit)
    encoding, values = _compress_symbols(values, width, options)
    counts, buffer = encode_variable_chunks(values, width // 8, chunk_bytes=chunk_bytes)
    if int(buffer.sizes.max()) > limit:
        raise LanceOpsError(f"two values do not fit into a chunk of {limit} bytes")
    return _compress_chunks(ChunkedValues(encoding, counts, (buffer,)), options)


def compress_values_apart(
    values: Variable, width: int, options: FieldOptions, version: str
) -> tuple[pb.CompressiveEncoding, Variable]:
    """Compress each value separately, for a full-zip page.

    Args:
        values: At least one. Empty ones stay empty.
        width: Bits of an offset: 32, or 64 for the large types.
        options: Of the column.
        version: "2.1" or "2.2"; with the same result.
    """
    del version
    encoding = _describe_variable(width)
    if options.compression == NONE:
        return encoding, values
    lengths = np.diff(values.offsets)
    wished = options.compression in _GENERAL
    if wished or (options.compression is None and int(lengths.max(initial=0)) > _LARGE_VALUE):
        # Always zstd: a null has no bytes, and readers have no LZ4 block for that.
        level = options.compression_level if options.compression == ZSTD else None
        if _pays(values, level):
            return describe_general(ZSTD, level, encoding), _compress_each(values, level)
    return _compress_symbols(values, width, options)


def _describe_variable(width: int) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(variable=pb.Variable(offsets=describe_flat(width)))


def _compress_symbols(
    values: Variable, width: int, options: FieldOptions
) -> tuple[pb.CompressiveEncoding, Variable]:
    """Compress values with a table of symbols, if the column has no other wish and it pays."""
    encoding = _describe_variable(width)
    size = int(values.offsets[-1] - values.offsets[0])
    if options.compression is None:
        longest = int(np.diff(values.offsets).max(initial=0))
        if size < _MIN_FSST_BYTES or longest < _MIN_FSST_LENGTH:
            return encoding, values
    elif options.compression != _FSST:
        return encoding, values
    trained = train_symbols(values.offsets, values.data)
    if trained is None:
        return encoding, values
    table, share = trained
    if share > _MAX_FSST_SHARE:
        return encoding, values
    offsets, data = encode_fsst(table, values.offsets, values.data)
    symbols = table.to_bytes()
    if data.size + len(symbols) > size:
        return encoding, values
    fsst = pb.Fsst(symbol_table=symbols, values=encoding)
    return pb.CompressiveEncoding(fsst=fsst), Variable(offsets, data)


def _compress_chunks(values: ChunkedValues, options: FieldOptions) -> ChunkedValues:
    scheme, level = options.compression, options.compression_level
    if scheme not in _GENERAL:
        return values
    (plain,) = values.buffers
    buffer = compress_parts(scheme, plain, level)
    if int(buffer.sizes.sum()) >= int(plain.sizes.sum()):
        return values
    return ChunkedValues(describe_general(scheme, level, values.encoding), values.counts, (buffer,))


def _pays(values: Variable, level: int | None) -> bool:
    """Return whether some of the values get smaller."""
    ends = values.offsets - values.offsets[0]
    last = max(int(np.searchsorted(ends, _SAMPLE_BYTES, side="right")) - 1, 1)
    sample = Variable(ends[: last + 1], values.data)
    return bool(_compress_each(sample, level).data.size < int(ends[last]) * _MAX_GENERAL_SHARE)


def _compress_each(values: Variable, level: int | None) -> Variable:
    starts = (values.offsets - values.offsets[0]).astype(np.int64, copy=False)
    sizes = np.diff(starts)
    # Empty values stay empty.
    chosen = np.flatnonzero(sizes)
    data = np.frombuffer(values.data, dtype=np.uint8)
    compressed = compress_parts(ZSTD, ChunkBuffer(data, starts[chosen], sizes[chosen]), level)
    sizes[chosen] = compressed.sizes
    offsets = np.zeros(len(starts), dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return Variable(offsets, pa.py_buffer(compressed.data))
