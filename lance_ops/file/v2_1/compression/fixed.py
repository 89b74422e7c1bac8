"""Compression of fixed-width values: choice of the scheme.

They are plain, packed, runs, or split streams, with a general compression of these if the field requests it.
The smallest is chosen; if sizes cannot be computed, a sample is compressed.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitpacking import (
    BLOCK,
    block_widths,
    pack_inline,
    pack_out_of_line,
)
from lance_ops.encoding.bits.byte_stream_split import split_streams
from lance_ops.encoding.bits.rle import count_runs, encode_runs
from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.general.compression import LZ4, NONE, ZSTD, compress, compress_parts
from lance_ops.encoding.values.values import Fixed, as_bits, as_bytes, as_words
from lance_ops.errors import LanceOpsError
from lance_ops.file.v2_1.compression.descriptions import (
    describe_flat,
    describe_general,
    describe_inline_bitpacking,
    describe_out_of_line_bitpacking,
    describe_runs,
    describe_split_streams,
)
from lance_ops.file.v2_1.compression.encoded import Block, ChunkedValues, Integers
from lance_ops.file.v2_1.options import FieldOptions

Words: TypeAlias = npt.NDArray[Any]
_Technique: TypeAlias = Callable[[Words], ChunkedValues]

_WORD_BITS = (8, 16, 32, 64)
_STREAM_BITS = (32, 64)
_GENERAL = (ZSTD, LZ4)

# A reader of one value fetches and decodes its whole chunk, a reader of all values pays for each chunk. A
# general compression needs more bytes to find anything in common.
_CHUNK_BYTES = 8 << 10
_GENERAL_CHUNK_BYTES = 16 << 10
# The limit for readers of 2.1; the table could describe more.
_MAX_VALUES = 4 << 10
_MIN_VALUES = 2
# The words of 2.1 cannot describe more than 32 KiB, of which a header and paddings take some.
_MAX_CHUNK_BYTES = (32 << 10) - 256
_MAX_LEVELS_BYTES = 16 << 10
# Header and padding of a chunk, and its word in the table.
_CHUNK_OVERHEAD = 12

# Runs per value from which on they cannot pay.
_MANY_RUNS = 0.95
# Streams that hardly change need the match finder of this level; other numbers are better off without it.
_STREAM_LEVEL = 3

_SAMPLES = 4
_SAMPLE_VALUES = 4 << 10


def compress_fixed(
    values: Fixed, options: FieldOptions, version: str, *, levels_bytes_per_value: float = 0
) -> ChunkedValues:
    """Compress values into the chunks of a mini-block page.

    Args:
        values: At least one, of any width.
        options: Of the column.
        version: "2.1" or "2.2"; both are given the same.
        levels_bytes_per_value: What the levels of a value take on average, which share its chunk.

    Raises:
        LanceOpsError: Two values do not fit into a chunk.
    """
    del version
    levels = levels_bytes_per_value
    general = options.compression in _GENERAL
    count = _flat_count(values.bits, levels, _GENERAL_CHUNK_BYTES if general else _CHUNK_BYTES)
    if values.bits not in _WORD_BITS:
        return _wrap(_flat(values, count), options)
    words = as_words(values)

    def plain(words: Words) -> ChunkedValues:
        return _flat(Fixed(values.bits, len(words), words), count)

    def streams(words: Words) -> ChunkedValues:
        return _streams(words, count)

    def runs(words: Words) -> ChunkedValues:
        return _runs(words, levels)

    if options.compression == NONE:
        return plain(words)
    num_runs = _count_few_runs(words, options.rle_threshold)
    if not general:
        return _compress_smallest(words, num_runs, count, plain, runs)
    if options.bss == "on" and values.bits in _STREAM_BITS:
        return _wrap(streams(words), options)
    techniques = [plain, _packed]
    if num_runs is not None:
        techniques.append(runs)
    if options.bss == "auto" and values.bits in _STREAM_BITS:
        techniques.append(streams)
    sample = _sample(words)
    chosen = min(techniques, key=lambda technique: _wrap(technique(sample), options).num_bytes)
    return _wrap(chosen(words), options)


def estimate_fixed(values: Fixed, options: FieldOptions) -> int:
    """About what `compress_fixed` takes, before any general compression.

    Args:
        values: At least one, of any width.
        options: Of the column.
    """
    count = _flat_count(values.bits, 0, _CHUNK_BYTES)
    if values.bits not in _WORD_BITS or options.compression == NONE:
        return _plain_bytes(values.length, values.bits, count)
    words = as_words(values)
    sizes = (
        _plain_bytes(len(words), values.bits, count),
        _packed_bytes(words, block_widths(words)),
        _run_bytes(words, _count_few_runs(words, options.rle_threshold)),
    )
    return min(size for size in sizes if size is not None)


def compress_block_fixed(values: Fixed, version: str, options: FieldOptions) -> Block:
    """Compress values into one buffer.

    Args:
        values: At least one, of any width.
        version: "2.1", where no general compression is used, or "2.2".
        options: Of the column.
    """
    bits = values.bits
    data, encoding = as_bits(values) if bits == 1 else as_bytes(values), describe_flat(bits)
    if bits in _WORD_BITS:
        words = as_words(values)
        width = max(int(block_widths(words).max(initial=0)), 1)
        if width < bits:
            packed = pack_out_of_line(words, width)
            if len(packed) < len(data):
                data, encoding = packed, describe_out_of_line_bitpacking(bits, width)
    scheme, level = options.dictionary_scheme
    if version == "2.1" or scheme == NONE:
        return Block(encoding, data, values.length)
    plain = as_bits(values) if bits == 1 else as_bytes(values)
    smaller = np.frombuffer(compress(scheme, pa.py_buffer(plain), level), dtype=np.uint8)
    if len(smaller) < len(data):
        data, encoding = smaller, describe_general(scheme, level, describe_flat(bits))
    return Block(encoding, data, values.length)


def _flat_count(bits: int, levels: float, chunk_bytes: int) -> int:
    possible = int(_MAX_CHUNK_BYTES / (bits / 8 + levels))
    if possible < _MIN_VALUES:
        raise LanceOpsError(f"values of {bits} bits are too large for chunks")
    return _power_of_two(min(chunk_bytes * 8 // bits, possible, _MAX_VALUES))


def _power_of_two(limit: int) -> int:
    return max(1 << limit.bit_length() >> 1, _MIN_VALUES)


def _count_few_runs(words: Words, threshold: float | None) -> int | None:
    """Return the number of runs if there are few enough of them to be worth a thought."""
    sample = _sample(words)
    if threshold is None and count_runs(sample) >= len(sample) * _MANY_RUNS:
        return None
    runs = count_runs(words)
    return runs if runs < len(words) * (_MANY_RUNS if threshold is None else threshold) else None


def _compress_smallest(
    words: Words, num_runs: int | None, count: int, plain: _Technique, runs: _Technique
) -> ChunkedValues:
    widths = block_widths(words)
    plain_bytes = _plain_bytes(len(words), words.dtype.itemsize * 8, count)
    packed_bytes = _packed_bytes(words, widths)
    run_bytes = _run_bytes(words, num_runs)
    if run_bytes is not None and run_bytes < min(plain_bytes, packed_bytes):
        return runs(words)
    return _packed(words, widths) if packed_bytes < plain_bytes else plain(words)


def _plain_bytes(total: int, bits: int, count: int) -> int:
    return total * bits // 8 + -(-total // count) * _CHUNK_OVERHEAD


def _packed_bytes(words: Words, widths: Integers) -> int:
    return int(widths.sum()) * (BLOCK // 8) + len(widths) * (words.dtype.itemsize + _CHUNK_OVERHEAD)


def _run_bytes(words: Words, num_runs: int | None) -> int | None:
    if num_runs is None:
        return None
    chunks = -(-len(words) // _MAX_VALUES)
    # Runs are split at 255 values and at the ends of chunks.
    pieces = min(num_runs + len(words) // 255 + chunks, len(words))
    return pieces * (words.dtype.itemsize + 1) + chunks * 2 * _CHUNK_OVERHEAD


def _flat(values: Fixed, count: int) -> ChunkedValues:
    counts = _even_counts(values.length, count)
    data = as_bits(values) if values.bits == 1 else as_bytes(values)
    sizes = (counts * values.bits + 7) // 8
    return ChunkedValues(
        describe_flat(values.bits), counts, (ChunkBuffer(data, np.cumsum(sizes) - sizes, sizes),)
    )


def _packed(words: Words, widths: Integers | None = None) -> ChunkedValues:
    encoding = describe_inline_bitpacking(words.dtype.itemsize * 8)
    return ChunkedValues(encoding, _even_counts(len(words), BLOCK), (pack_inline(words, widths),))


def _runs(words: Words, levels: float) -> ChunkedValues:
    count = min(_MAX_VALUES, _power_of_two(int(_MAX_LEVELS_BYTES / max(levels, 1))))
    counts = _even_counts(len(words), count)
    while True:
        run_values, run_lengths = encode_runs(words, counts)
        size = run_values.sizes + run_lengths.sizes + (counts * levels).astype(np.int64)
        large = (size > _MAX_CHUNK_BYTES) & (counts > _MIN_VALUES)
        if not bool(large.any()):
            encoding = describe_runs(words.dtype.itemsize * 8)
            return ChunkedValues(encoding, counts, (run_values, run_lengths))
        counts = _halve(counts, large)


def _halve(counts: Integers, chosen: npt.NDArray[np.bool_]) -> Integers:
    halves = np.array([_power_of_two((count + 1) // 2) for count in counts[chosen].tolist()], dtype=np.int64)
    halved = np.repeat(counts, np.where(chosen, 2, 1))
    firsts = (np.cumsum(np.where(chosen, 2, 1)) - 2)[chosen]
    halved[firsts] = halves
    halved[firsts + 1] = counts[chosen] - halves
    return halved


def _streams(words: Words, count: int) -> ChunkedValues:
    counts = _even_counts(len(words), count)
    encoding = describe_split_streams(words.dtype.itemsize * 8)
    return ChunkedValues(encoding, counts, (split_streams(words, counts),))


def _even_counts(total: int, count: int) -> Integers:
    counts = np.full(-(-total // count), count, dtype=np.int64)
    counts[-1] = total - (len(counts) - 1) * count
    return counts


def _wrap(values: ChunkedValues, options: FieldOptions) -> ChunkedValues:
    """Compress the first buffer of each chunk as a whole, unless it gets larger by that."""
    scheme, level = options.compression, options.compression_level
    if scheme is None or scheme not in _GENERAL:
        return values
    if level is None and values.encoding.WhichOneof("compression") == "byte_stream_split":
        level = _STREAM_LEVEL
    first = values.buffers[0]
    buffer = compress_parts(scheme, first, level)
    if int(buffer.sizes.sum()) >= int(first.sizes.sum()):
        return values
    return ChunkedValues(
        describe_general(scheme, level, values.encoding), values.counts, (buffer, *values.buffers[1:])
    )


def _sample(words: Words) -> Words:
    """Return some stretches of values, as compressible as all of them."""
    if len(words) <= 2 * _SAMPLES * _SAMPLE_VALUES:
        return words
    last = len(words) - _SAMPLE_VALUES
    starts = [number * last // (_SAMPLES - 1) for number in range(_SAMPLES)]
    return np.concatenate([words[start : start + _SAMPLE_VALUES] for start in starts])
