"""Members of JSON documents as the format keeps them; see `values.jsonb`.

There is no reference: where `available` says no, documents are read as text.
"""

from lance_ops.encoding.arrays import Bytes, Integers
from lance_ops.encoding.kernels import load

MISSING = -1
DAMAGED = -2


def available() -> bool:
    """Return whether the other function can be called."""
    return load("values.jsonb") is not None


def find_members(
    *,
    data: Bytes,
    offsets: Integers,
    names: Bytes,
    ends: Integers,
    kinds: Integers,
    starts: Integers,
    sizes: Integers,
) -> None:
    """Find the value under some names, each a member of the one before, in each document.

    Args:
        data: The documents.
        offsets: Where each begins, and where the last one ends: they never fall, and lie within the data.
        names: The names, in sequence, at least one.
        ends: Where each name ends.
        kinds: Filled: the kind of the value, `MISSING` where there is none, or `DAMAGED`.
        starts: Filled where there is one: where it lies in the data.
        sizes: Filled where there is one: its bytes.
    """
    kernel = load("values.jsonb")
    assert kernel is not None
    kernel.find_members(data, offsets, names, ends, kinds, starts, sizes)
