"""xxHash64."""

from lance_ops.encoding.arrays import Bytes, Offsets, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.index import xxhash64 as reference


def hash_parts(*, data: Bytes, offsets: Offsets, hashes: Words64) -> None:
    """Hash parts of some bytes, each of which begins where the one before ends.

    Args:
        data: The bytes.
        offsets: Where each part begins, and where the last one ends; they never fall, and all lie in `data`.
        hashes: Shape (parts,): room for a hash of each.
    """
    kernel = load("index.xxhash64")
    if kernel is None:
        reference.hash_parts(data=data, offsets=offsets, hashes=hashes)
    else:
        kernel.hash_parts(data, offsets, hashes)
