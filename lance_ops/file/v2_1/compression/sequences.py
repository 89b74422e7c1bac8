"""Sequences of unsigned integers, which 2.3 compresses in more ways than levels: offsets, positions, counts.

Compressions lie in each other. A constant and a range need no bytes, and what is made of such parts alone
needs none either. Runs and dictionaries put two parts into one buffer, behind their sizes in bytes as u64.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitpacking import unpack_parts
from lance_ops.encoding.chunks import ChunkBuffer, read_words
from lance_ops.encoding.general.compression import decompress
from lance_ops.encoding.values.values import Variable
from lance_ops.encoding.values.variable import gather_values
from lance_ops.errors import CorruptFileError
from lance_ops.file.v2_1.compression.parameters import flat_bits, packed_width, scheme_of, unsupported
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_FRAME_BYTES = 8
_INDEX_BITS = 32
_MAX_BITS = 64
# Without a limit, a description of a few bytes could request any amount of memory.
_MAX_MADE = 1 << 27
_NO_BYTES = np.zeros(0, dtype=np.uint8)


def needs_bytes(encoding: pb.CompressiveEncoding) -> bool:
    """Return whether a sequence has a buffer."""
    kind = encoding.WhichOneof("compression")
    if kind in ("constant", "range"):
        return False
    if kind == "delta":
        return needs_bytes(encoding.delta.deltas)
    if kind == "rle":
        return needs_bytes(encoding.rle.values) or needs_bytes(encoding.rle.run_lengths)
    if kind == "dictionary":
        return needs_bytes(encoding.dictionary.indices) or needs_bytes(encoding.dictionary.items)
    return True


def decode_sequence(encoding: pb.CompressiveEncoding, data: Bytes | None, count: int, bits: int) -> Words:
    """Decode one sequence.

    Args:
        encoding: Of the sequence.
        data: Its buffer, None of one that needs none.
        count: Number of integers.
        bits: Of an integer, 32 or 64.

    Raises:
        CorruptFileError: The bytes do not match the encodings.
        UnsupportedError: A compression that is not implemented, which is named.
    """
    chunks = None if data is None else ChunkBuffer.from_parts([data])
    return decode_sequences(encoding, chunks, np.array([count], dtype=np.int64), bits)


def decode_sequences(
    encoding: pb.CompressiveEncoding, chunks: ChunkBuffer | None, counts: Integers, bits: int
) -> Words:
    """Decode sequences with equal encodings.

    Args:
        encoding: Of each.
        chunks: Their buffers, None where they need none.
        counts: Integers of each.
        bits: Of an integer, 32 or 64.

    Returns:
        The integers of all sequences.

    Raises:
        CorruptFileError: The bytes do not match the encodings.
        UnsupportedError: A compression that is not implemented, which is named.
    """
    kind = encoding.WhichOneof("compression")
    total = int(counts.sum())
    if chunks is None and total > _MAX_MADE:
        raise CorruptFileError(f"{total} integers without bytes")
    if kind == "constant":
        return np.full(total, constant_of(encoding.constant, bits) if total else 0, dtype=np.uint64)
    if kind == "range":
        return _count_up(encoding.range, counts, bits)
    if kind == "delta":
        return _add_up(encoding.delta, chunks, counts, bits)
    if kind in ("rle", "dictionary", "general"):
        parts = [_NO_BYTES] * len(counts) if chunks is None else chunks.parts()
        decode = {"rle": _decode_runs, "dictionary": _decode_dictionary, "general": _decode_general}[kind]
        found = [decode(encoding, part, int(count), bits) for part, count in zip(parts, counts, strict=True)]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.uint64)
    if chunks is None:
        raise CorruptFileError("a sequence lacks its bytes")
    if kind == "flat":
        _check_bits(flat_bits(encoding), bits)
        width = bits // 8
        plain = chunks.join_prefixes(counts * width)
        return np.frombuffer(plain.tobytes(), dtype=f"<u{width}").astype(np.uint64)
    if kind == "out_of_line_bitpacking":
        packed = encoding.out_of_line_bitpacking
        _check_bits(packed.uncompressed_bits_per_value, bits)
        return unpack_parts(chunks, counts, packed_width(packed), bits).astype(np.uint64)
    raise unsupported(kind, "sequences of integers")


def constant_of(constant: pb.Constant, bits: int) -> int:
    """Return the integer of a constant sequence that is not empty."""
    if len(constant.value) * 8 != bits:
        raise CorruptFileError(f"a constant of {len(constant.value)} bytes among integers of {bits} bits")
    return int.from_bytes(constant.value, "little")


def check_range(described: pb.Range, count: int, bits: int) -> None:
    """Check that so many integers fit into the range of their bits."""
    _check_bits(described.uncompressed_bits_per_value, bits)
    if described.start + described.step * max(count - 1, 0) >= 1 << bits:
        raise CorruptFileError(f"a range of {count} integers exceeds {bits} bits")


def decode_strings(
    variable: pb.Variable, offsets: ChunkBuffer | None, data: ChunkBuffer, counts: Integers
) -> Variable:
    """Decode the strings of chunks whose offsets are a sequence.

    Args:
        variable: Their description.
        offsets: Buffers of the offsets, None where they need none.
        data: The bytes of the strings.
        counts: Strings of each chunk.
    """
    bits = offset_bits(variable.offsets)
    found = decode_sequences(variable.offsets, offsets, counts + 1, bits)
    if len(found) and int(found.max()) > int(data.sizes.max()):
        raise CorruptFileError("the offsets of a chunk of strings leave the chunk")
    ends = found.astype(np.int64)
    firsts = np.cumsum(counts + 1) - (counts + 1)
    inner = np.ones(max(len(ends) - 1, 0), dtype=np.bool_)
    inner[firsts[1:] - 1] = False
    lengths = np.diff(ends)[inner]
    if bool((lengths < 0).any()) or bool((ends[firsts + counts] > data.sizes).any()):
        raise CorruptFileError("the offsets of a chunk of strings decrease or leave the chunk")
    last = np.zeros(len(ends), dtype=np.bool_)
    last[firsts + counts] = True
    return gather_values(data.data, ends[~last] + np.repeat(data.starts, counts), lengths)


def offset_bits(encoding: pb.CompressiveEncoding) -> int:
    """Return the bits of an integer of a sequence from its description."""
    kind = encoding.WhichOneof("compression")
    if kind == "constant":
        bits = 8 * len(encoding.constant.value)
    elif kind == "range":
        bits = encoding.range.uncompressed_bits_per_value
    elif kind == "delta":
        bits = encoding.delta.uncompressed_bits_per_value
    elif kind == "out_of_line_bitpacking":
        bits = encoding.out_of_line_bitpacking.uncompressed_bits_per_value
    elif kind == "rle":
        return offset_bits(encoding.rle.values)
    elif kind == "dictionary":
        return offset_bits(encoding.dictionary.items)
    elif kind == "general":
        return offset_bits(encoding.general.values)
    else:
        bits = flat_bits(encoding)
    if not 0 < bits <= _MAX_BITS or bits % 8:
        raise CorruptFileError(f"a sequence of integers of {bits} bits")
    return bits


def _check_bits(found: int, bits: int) -> None:
    if found != bits:
        raise CorruptFileError(f"integers of {found} bits where they should have {bits}")


def _count_up(described: pb.Range, counts: Integers, bits: int) -> Words:
    check_range(described, int(counts.max()) if len(counts) else 0, bits)
    numbers = np.arange(int(counts.sum()), dtype=np.uint64)
    numbers -= np.repeat(np.cumsum(counts) - counts, counts).astype(np.uint64)
    return numbers * np.uint64(described.step) + np.uint64(described.start)


def _add_up(described: pb.Delta, chunks: ChunkBuffer | None, counts: Integers, bits: int) -> Words:
    _check_bits(described.uncompressed_bits_per_value, bits)
    if len(counts) and int(counts.min()) < 1:
        raise CorruptFileError("differences of a sequence without integers")
    deltas = decode_sequences(described.deltas, chunks, counts - 1, bits)
    firsts = np.cumsum(counts) - counts
    follows = np.ones(int(counts.sum()), dtype=np.bool_)
    follows[firsts] = False
    sums = np.zeros(len(follows), dtype=np.uint64)
    sums[follows] = deltas
    # Sums of all sequences together may overflow: what is subtracted has overflowed as they have.
    np.cumsum(sums, out=sums)
    sums -= np.repeat(sums[firsts], counts)
    sums += np.uint64(described.base)
    overflows = (sums[1:] < sums[:-1]) & follows[1:]
    if bool(overflows.any()) or (len(sums) and int(sums.max()) >= 1 << bits):
        raise CorruptFileError(f"a rising sequence exceeds {bits} bits")
    return sums


def _frames(data: Bytes, count: int) -> list[int]:
    sizes: list[int] = read_words(
        data, _FRAME_BYTES * np.arange(count, dtype=np.int64), _FRAME_BYTES
    ).tolist()
    if sum(sizes) + count * _FRAME_BYTES > len(data):
        raise CorruptFileError(f"parts of {sum(sizes)} bytes in a buffer of {len(data)}")
    return sizes


def _decode_part(encoding: pb.CompressiveEncoding, data: Bytes, count: int, bits: int) -> Words:
    return decode_sequence(encoding, data if needs_bytes(encoding) else None, count, bits)


def _decode_runs(encoding: pb.CompressiveEncoding, data: Bytes, count: int, bits: int) -> Words:
    rle = encoding.rle
    values, lengths = data, data
    if needs_bytes(encoding):
        (size,) = _frames(data, 1)
        values, lengths = data[_FRAME_BYTES : _FRAME_BYTES + size], data[_FRAME_BYTES + size :]
    length_bits = offset_bits(rle.run_lengths)
    runs = _number_of(rle.run_lengths, lengths)
    if runs is None:
        runs = _number_of(rle.values, values)
    if runs is None:
        runs = _number_of_runs(rle.run_lengths, count, length_bits)
    found = _decode_part(rle.run_lengths, lengths, runs, length_bits)
    if sum(found.tolist()) != count:
        raise CorruptFileError("the run lengths of a sequence do not add up to its integers")
    repeated: Words = np.repeat(_decode_part(rle.values, values, runs, bits), found.astype(np.int64))
    return repeated


def _number_of(encoding: pb.CompressiveEncoding, data: Bytes) -> int | None:
    """Return the number of integers in a buffer; None if it has no count."""
    kind = encoding.WhichOneof("compression")
    if kind == "flat":
        return len(data) // (offset_bits(encoding) // 8)
    if kind == "general":
        return _number_of(encoding.general.values, _decompress(encoding, data))
    return None


def _number_of_runs(lengths: pb.CompressiveEncoding, count: int, bits: int) -> int:
    """Return how many runs there are whose lengths follow a rule, and add up to a number of integers."""
    kind = lengths.WhichOneof("compression")
    if kind == "constant":
        length = constant_of(lengths.constant, bits)
        return count // length if length else 0
    if kind != "range":
        raise unsupported(kind, "lengths of runs whose number is not known")
    runs, total = 0, 0
    while total < count and runs < _MAX_MADE:
        total += lengths.range.start + runs * lengths.range.step
        runs += 1
    return runs


def _decode_dictionary(encoding: pb.CompressiveEncoding, data: Bytes, count: int, bits: int) -> Words:
    dictionary = encoding.dictionary
    indices, items = data, data
    if needs_bytes(encoding):
        first, second = _frames(data, 2)
        start = 2 * _FRAME_BYTES
        indices, items = data[start : start + first], data[start + first : start + first + second]
    number = dictionary.num_dictionary_items
    if number > count:
        raise CorruptFileError(f"a dictionary of {number} entries for {count} integers")
    positions = _decode_part(dictionary.indices, indices, count, _INDEX_BITS)
    entries = _decode_part(dictionary.items, items, number, bits)
    if count and int(positions.max()) >= number:
        raise CorruptFileError(f"an integer points outside of its dictionary of {number} entries")
    return entries[positions.astype(np.int64)]


def _decode_general(encoding: pb.CompressiveEncoding, data: Bytes, count: int, bits: int) -> Words:
    return decode_sequence(encoding.general.values, _decompress(encoding, data), count, bits)


def _decompress(encoding: pb.CompressiveEncoding, data: Bytes) -> Bytes:
    plain = decompress(scheme_of(encoding.general.compression), pa.py_buffer(data))
    return np.frombuffer(plain, dtype=np.uint8)
