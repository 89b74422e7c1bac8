"""Runs in chunks: values and lengths, each plain, packed, or compressed as a whole."""

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.bits.bitpacking import pack_parts
from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.general.compression import compress
from lance_ops.encoding.values.values import as_words
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.v2_1.compression.runs import decode_run_chunks
from lance_ops.pb import encodings21_pb2 as pb

# Two chunks, of three and of 1100 runs.
VALUES = [[5, 0, 7], [number % 30 for number in range(1100)]]
LENGTHS = [[2, 1, 9], [1 + number % 3 for number in range(1100)]]
COUNTS = np.array([sum(lengths) for lengths in LENGTHS])
EXPECTED = np.concatenate(
    [np.repeat(values, lengths) for values, lengths in zip(VALUES, LENGTHS, strict=True)]
)


def store(chunks: list[list[int]], bits: int, how: str) -> tuple[pb.CompressiveEncoding, ChunkBuffer]:
    encoding = pb.CompressiveEncoding()
    plain = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits))
    words = [np.array(numbers, f"<u{bits // 8}") for numbers in chunks]
    if how == "packed":
        encoding.out_of_line_bitpacking.uncompressed_bits_per_value = bits
        encoding.out_of_line_bitpacking.values.flat.bits_per_value = 5
        return encoding, pack_parts(np.concatenate(words), np.array([len(one) for one in words]), 5)
    parts = [one.view(np.uint8) for one in words]
    if how == "plain":
        return plain, ChunkBuffer.from_parts(parts)
    encoding.general.compression.scheme = pb.COMPRESSION_ALGORITHM_ZSTD
    encoding.general.values.CopyFrom(plain)
    compressed = [np.frombuffer(compress("zstd", pa.py_buffer(part)), np.uint8) for part in parts]
    return encoding, ChunkBuffer.from_parts(compressed)


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize(
    ("values", "lengths"),
    [("plain", "plain"), ("packed", "plain"), ("plain", "packed"), ("zstd", "zstd"), ("packed", "zstd")],
)
def test_runs(values: str, lengths: str, bits: int) -> None:
    value_encoding, value_chunks = store(VALUES, bits, values)
    length_encoding, length_chunks = store(LENGTHS, 8, lengths)
    rle = pb.Rle(values=value_encoding, run_lengths=length_encoding)
    found = decode_run_chunks(rle, value_chunks, length_chunks, COUNTS)
    assert found.bits == bits
    assert as_words(found).tolist() == EXPECTED.tolist()


def test_damage_is_named() -> None:
    value_encoding, value_chunks = store(VALUES, 32, "packed")
    length_encoding, length_chunks = store([[2, 1, 8], LENGTHS[1]], 8, "plain")
    rle = pb.Rle(values=value_encoding, run_lengths=length_encoding)
    with pytest.raises(CorruptFileError, match="do not add up"):
        decode_run_chunks(rle, value_chunks, length_chunks, COUNTS)
    both, packed_lengths = store(LENGTHS, 8, "packed")
    with pytest.raises(UnsupportedError, match="out_of_line_bitpacking"):
        decode_run_chunks(
            pb.Rle(values=value_encoding, run_lengths=both), value_chunks, packed_lengths, COUNTS
        )
    unknown = pb.CompressiveEncoding(constant=pb.Constant(value=b"\x01"))
    with pytest.raises(UnsupportedError, match="constant"):
        decode_run_chunks(
            pb.Rle(values=value_encoding, run_lengths=unknown), value_chunks, length_chunks, COUNTS
        )
