"""Descriptions of compressions, as pages carry them."""

from lance_ops.encoding.general.compression import LZ4, ZSTD
from lance_ops.pb import encodings21_pb2 as pb

_SCHEMES = {LZ4: pb.COMPRESSION_ALGORITHM_LZ4, ZSTD: pb.COMPRESSION_ALGORITHM_ZSTD}


def describe_flat(bits: int) -> pb.CompressiveEncoding:
    """Return values in sequence."""
    return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits))


def describe_inline_bitpacking(bits: int) -> pb.CompressiveEncoding:
    """Blocks of 1024 packed values, each with its own width."""
    return pb.CompressiveEncoding(inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=bits))


def describe_out_of_line_bitpacking(bits: int, width: int) -> pb.CompressiveEncoding:
    """Runs of packed blocks of one width."""
    return pb.CompressiveEncoding(
        out_of_line_bitpacking=pb.OutOfLineBitpacking(
            uncompressed_bits_per_value=bits, values=describe_flat(width)
        )
    )


def describe_runs(bits: int) -> pb.CompressiveEncoding:
    """Runs of equal values, with lengths of 8 bits."""
    return pb.CompressiveEncoding(rle=pb.Rle(values=describe_flat(bits), run_lengths=describe_flat(8)))


def describe_split_streams(bits: int) -> pb.CompressiveEncoding:
    """Streams of the bytes of values."""
    return pb.CompressiveEncoding(byte_stream_split=pb.ByteStreamSplit(values=describe_flat(bits)))


def describe_general(
    scheme: str, level: int | None, values: pb.CompressiveEncoding
) -> pb.CompressiveEncoding:
    """Another compression below a general one.

    Args:
        scheme: "zstd" or "lz4".
        level: Of the scheme, None for its default.
        values: What the plain bytes hold.
    """
    compression = pb.BufferCompression(scheme=_SCHEMES[scheme], level=level)
    return pb.CompressiveEncoding(general=pb.General(compression=compression, values=values))
