"""Finite state transducers: ordered words with numbers, in the layout of the Rust crate `fst`, version 3."""

import struct
from itertools import pairwise

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.index import fst as reference

_REMEMBERED = 1 << 22
_ROOM_OF_BYTE, _MORE_ROOM = 32, 80


def build(*, data: Bytes, offsets: Integers, values: Integers, common: bytes) -> bytes:
    """Make a transducer.

    Args:
        data: The words, in sequence, in the order of their bytes and each once; up to 64 MB.
        offsets: Shape (words + 1,): where each begins in `data`, and where the last one ends.
        values: Shape (words,): the number of each, 0 or more and below 2**31.
        common: The bytes that a node with one way can name in its state, the first as 1.

    Returns:
        Its bytes.
    """
    names = np.zeros(256, np.uint8)
    names[np.frombuffer(common, np.uint8)] = np.arange(1, len(common) + 1)
    kernel = load("index.fst")
    if kernel is None:
        bounds, joined = offsets.tolist(), data.tobytes()
        words = [joined[start:stop] for start, stop in pairwise(bounds)]
        nodes, root = reference.build_nodes(words, values.tolist(), names.tobytes())
        body = nodes + struct.pack("<QQ", len(values), root)
        return body + struct.pack("<I", reference.checksum(body))
    places = 1 << min(_REMEMBERED, 4 * len(data) + 16).bit_length()
    table, found = np.full(places, -1, np.int32), np.zeros(1, np.int64)
    out = np.empty(_ROOM_OF_BYTE * len(data) + _MORE_ROOM, np.uint8)
    used = int(kernel.build(data, offsets, values, names, table, out, found))
    out[:16] = np.frombuffer(struct.pack("<QQ", 3, 0), np.uint8)
    body = out[:used].tobytes() + struct.pack("<QQ", len(values), int(found[0]))
    return body + struct.pack("<I", int(kernel.checksum(np.frombuffer(body, np.uint8))))
