"""LZ4 blocks, walked without being unpacked."""

from lance_ops.encoding.arrays import Bytes
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference import lz4 as reference


def is_whole(*, block: Bytes, size: int) -> bool:
    """Return whether a block writes each byte of its output, and never more.

    Args:
        block: Any bytes; all positions in it are checked.
        size: Bytes that it should become.
    """
    kernel = load("lz4")
    if kernel is None:
        return reference.is_whole(block.data, len(block), size)
    return bool(kernel.is_whole(block, len(block), size))
