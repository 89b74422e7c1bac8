"""Decompression of run-length encoded chunks, whose values and lengths may be compressed, too."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.bits.bitpacking import unpack_parts
from lance_ops.encoding.bits.rle import decode_runs
from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.general.compression import decompress_parts
from lance_ops.encoding.values.values import Fixed
from lance_ops.errors import CorruptFileError
from lance_ops.file.v2_1.compression.parameters import flat_bits, packed_width, scheme_of, unsupported
from lance_ops.pb import encodings21_pb2 as pb

Integers = npt.NDArray[np.int64]


def decode_run_chunks(rle: pb.Rle, values: ChunkBuffer, lengths: ChunkBuffer, counts: Integers) -> Fixed:
    """Decode the runs of consecutive chunks.

    Args:
        rle: How values and lengths are stored.
        values: One value of each run.
        lengths: The length of each run.
        counts: Values of each chunk once repeated.

    Raises:
        CorruptFileError: The buffers are not what the description says.
        UnsupportedError: A compression of values or lengths that is not implemented, which is named.
    """
    value_encoding, values = _decompress(rle.values, values)
    length_encoding, lengths = _decompress(rle.run_lengths, lengths)
    bits, length_bits = _bits(value_encoding), _bits(length_encoding)
    # Packed integers have no count.
    if value_encoding.WhichOneof("compression") == "out_of_line_bitpacking":
        values = _unpack(value_encoding, values, lengths.sizes // max(flat_bits(length_encoding) // 8, 1))
    elif length_encoding.WhichOneof("compression") == "out_of_line_bitpacking":
        lengths = _unpack(length_encoding, lengths, values.sizes // max(bits // 8, 1))
    return Fixed(bits, int(counts.sum()), decode_runs(values, lengths, counts, bits, length_bits))


def _decompress(
    encoding: pb.CompressiveEncoding, chunks: ChunkBuffer
) -> tuple[pb.CompressiveEncoding, ChunkBuffer]:
    while encoding.WhichOneof("compression") == "general":
        chunks = decompress_parts(scheme_of(encoding.general.compression), chunks)
        encoding = encoding.general.values
    return encoding, chunks


def _bits(encoding: pb.CompressiveEncoding) -> int:
    kind = encoding.WhichOneof("compression")
    if kind == "out_of_line_bitpacking":
        return encoding.out_of_line_bitpacking.uncompressed_bits_per_value
    if kind != "flat":
        raise unsupported(kind, "runs")
    return flat_bits(encoding)


def _unpack(encoding: pb.CompressiveEncoding, chunks: ChunkBuffer, runs: Integers) -> ChunkBuffer:
    """Plain integers of chunks of packed ones."""
    packed = encoding.out_of_line_bitpacking
    words = unpack_parts(chunks, runs, packed_width(packed), packed.uncompressed_bits_per_value)
    ends = np.cumsum(runs) * words.itemsize
    if len(ends) and int(ends[-1]) != words.nbytes:
        raise CorruptFileError("the number of packed runs does not match their metadata")
    return ChunkBuffer(words.view(np.uint8), ends - runs * words.itemsize, runs * words.itemsize)
