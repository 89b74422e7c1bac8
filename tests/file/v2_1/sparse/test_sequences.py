"""Sequences of integers: every compression alone and within others, and what damage makes of them."""

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.bits.bitpacking import pack_parts
from lance_ops.encoding.general.compression import compress
from lance_ops.errors import CorruptFileError, LanceOpsError, UnsupportedError
from lance_ops.file.v2_1.compression.sequences import decode_sequence, needs_bytes
from lance_ops.pb import encodings21_pb2 as pb

Part = tuple[pb.CompressiveEncoding, bytes]


def flat(numbers: list[int], bits: int = 64) -> Part:
    return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits)), np.array(
        numbers, f"<u{bits // 8}"
    ).tobytes()


def constant(number: int, size: int = 8) -> Part:
    return pb.CompressiveEncoding(constant=pb.Constant(value=number.to_bytes(size, "little"))), b""


def rising(start: int, step: int, bits: int = 64) -> Part:
    described = pb.Range(uncompressed_bits_per_value=bits, start=start, step=step)
    return pb.CompressiveEncoding(range=described), b""


def packed(numbers: list[int], width: int, bits: int = 64) -> Part:
    words = np.array(numbers, f"<u{bits // 8}")
    encoding = pb.CompressiveEncoding()
    encoding.out_of_line_bitpacking.uncompressed_bits_per_value = bits
    encoding.out_of_line_bitpacking.values.flat.bits_per_value = width
    (data,) = pack_parts(words, np.array([len(numbers)]), width).parts()
    return encoding, data.tobytes()


def delta(base: int, deltas: Part, bits: int = 64) -> Part:
    described = pb.Delta(uncompressed_bits_per_value=bits, base=base, deltas=deltas[0])
    return pb.CompressiveEncoding(delta=described), deltas[1]


def runs(values: Part, lengths: Part) -> Part:
    encoding = pb.CompressiveEncoding(rle=pb.Rle(values=values[0], run_lengths=lengths[0]))
    if not needs_bytes(encoding):
        return encoding, b""
    return encoding, np.uint64(len(values[1])).tobytes() + values[1] + lengths[1]


def dictionary(indices: Part, items: Part, count: int) -> Part:
    encoding = pb.CompressiveEncoding(
        dictionary=pb.Dictionary(indices=indices[0], items=items[0], num_dictionary_items=count)
    )
    sizes = np.array([len(indices[1]), len(items[1])], "<u8").tobytes()
    return encoding, sizes + indices[1] + items[1]


def general(part: Part) -> Part:
    encoding = pb.CompressiveEncoding()
    encoding.general.compression.scheme = pb.COMPRESSION_ALGORITHM_ZSTD
    encoding.general.values.CopyFrom(part[0])
    return encoding, compress("zstd", pa.py_buffer(part[1])).to_pybytes()


def decode(part: Part, count: int, bits: int = 64) -> list[int]:
    encoding, data = part
    found = decode_sequence(
        encoding, np.frombuffer(data, np.uint8) if needs_bytes(encoding) else None, count, bits
    )
    return found.tolist()


CASES: list[tuple[str, Part, list[int], int]] = [
    ("flat", flat([5, 1, 9]), [5, 1, 9], 64),
    ("flat of 32 bits", flat([5, 1, 9], 32), [5, 1, 9], 32),
    ("constant", constant(7), [7] * 4, 64),
    ("range", rising(3, 5), [3, 8, 13], 64),
    ("packed", packed([1, 6, 3] * 700, 3), [1, 6, 3] * 700, 64),
    ("delta of flat", delta(4, flat([0, 2, 2])), [4, 4, 6, 8], 64),
    ("delta of a range", delta(1, rising(1, 1)), [1, 2, 4, 7], 64),
    ("delta of packed", delta(9, packed([1] * 1500, 1)), list(range(9, 1510)), 64),
    ("delta of runs", delta(0, runs(flat([2, 5]), flat([2, 1], 32))), [0, 2, 4, 9], 64),
    ("runs", runs(flat([8, 3]), flat([2, 3], 32)), [8, 8, 3, 3, 3], 64),
    ("runs of a constant length", runs(flat([8, 3]), constant(2, 4)), [8, 8, 3, 3], 64),
    ("runs of packed values", runs(packed([8, 3], 4), flat([2, 1], 32)), [8, 8, 3], 64),
    ("packed runs of a constant length", runs(packed([8, 3], 4), constant(2, 4)), [8, 8, 3, 3], 64),
    ("runs of two rules", runs(rising(1, 2), rising(1, 1, 32)), [1, 3, 3, 5, 5, 5], 64),
    ("dictionary", dictionary(flat([1, 0, 1], 32), flat([40, 50]), 2), [50, 40, 50], 64),
    ("dictionary of a range", dictionary(packed([1, 0, 1], 1, 32), rising(6, 6), 2), [12, 6, 12], 64),
    ("zstd", general(flat([1, 2, 3])), [1, 2, 3], 64),
    ("delta of zstd", delta(0, general(flat([1, 2, 3]))), [0, 1, 3, 6], 64),
    ("nothing", (pb.CompressiveEncoding(constant=pb.Constant()), b""), [], 64),
]  # fmt: skip


@pytest.mark.parametrize(
    ("part", "expected", "bits"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_sequences_are_decoded(part: Part, expected: list[int], bits: int) -> None:
    assert decode(part, len(expected), bits) == expected


@pytest.mark.parametrize(
    ("part", "count", "bits"),
    [
        (flat([1, 2]), 3, 64),
        (flat([1, 2]), 2, 32),
        (constant(1, 4), 2, 64),
        (rising(1 << 63, 1 << 63), 3, 64),
        (rising(1, 1), 1 << 40, 64),
        (delta(1, flat([(1 << 64) - 1])), 2, 64),
        (delta(1, flat([(1 << 32) - 1], 32), 32), 2, 32),
        (delta(1, flat([])), 0, 64),
        (runs(flat([8, 3]), flat([2, 3], 32)), 6, 64),
        (dictionary(flat([2, 0], 32), flat([40, 50]), 2), 2, 64),
        (dictionary(flat([0, 0], 32), flat([40]), 9), 2, 64),
        ((runs(flat([8]), flat([2], 32))[0], b"\xff" * 20), 2, 64),
    ],
)
def test_damage_is_named(part: Part, count: int, bits: int) -> None:
    with pytest.raises(CorruptFileError):
        decode(part, count, bits)


def test_what_is_not_known_is_named() -> None:
    encoding = pb.CompressiveEncoding()
    encoding.byte_stream_split.values.flat.bits_per_value = 64
    with pytest.raises(UnsupportedError, match="byte_stream_split"):
        decode((encoding, b"\0" * 8), 1)
    both = runs(packed([8, 3], 4), packed([2, 1], 2, 32))
    with pytest.raises(LanceOpsError, match="out_of_line_bitpacking"):
        decode(both, 3)
