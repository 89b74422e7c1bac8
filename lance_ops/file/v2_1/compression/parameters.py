"""Parameters of compressions, as descriptions name them: widths and schemes, checked."""

from lance_ops.encoding.bits.bitpacking import word_type
from lance_ops.encoding.general.compression import LZ4, ZSTD
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.pb import encodings21_pb2 as pb

_SCHEMES = {
    pb.COMPRESSION_ALGORITHM_LZ4: LZ4,
    pb.COMPRESSION_ALGORITHM_ZSTD: ZSTD,
}
# What one value of fixed width may take: a page of longer ones could not be addressed.
MAX_BITS = 1 << 34


def flat_bits(encoding: pb.CompressiveEncoding) -> int:
    """Return bits of plain values, in which the parts of other compressions are stored."""
    kind = encoding.WhichOneof("compression")
    if kind != "flat":
        raise unsupported(kind, "parts of another compression")
    refuse_data_compression(encoding.flat)
    return encoding.flat.bits_per_value


def offset_bytes(variable: pb.Variable) -> int:
    """Return bytes of the offsets of strings."""
    if variable.HasField("values"):
        raise UnsupportedError("compressed bytes of strings are not supported")
    bits = flat_bits(variable.offsets)
    if bits not in (32, 64):
        raise CorruptFileError(f"offsets of {bits} bits")
    return bits // 8


def packed_width(encoding: pb.OutOfLineBitpacking) -> int:
    """Return bits of a packed integer."""
    width = flat_bits(encoding.values)
    if width > word_type(encoding.uncompressed_bits_per_value).itemsize * 8:
        raise CorruptFileError(f"integers packed into {width} bits")
    return width


def refuse_data_compression(flat: pb.Flat) -> None:
    """Refuse additional compression of plain values.

    Raises:
        UnsupportedError: They have one.
    """
    if flat.HasField("data") and flat.data.scheme != pb.COMPRESSION_ALGORITHM_UNSPECIFIED:
        raise UnsupportedError("compressed buffers of plain values are not supported")


def scheme_of(compression: pb.BufferCompression) -> str:
    """Return the name of a general compression."""
    scheme = _SCHEMES.get(compression.scheme)
    if scheme is None:
        raise UnsupportedError(f"the compression scheme {compression.scheme} is not supported")
    return scheme


def unsupported(kind: str | None, place: str) -> UnsupportedError:
    """Return the error for a compression that has no place somewhere."""
    return UnsupportedError(f"the compression {kind!r} is not supported for {place}")
