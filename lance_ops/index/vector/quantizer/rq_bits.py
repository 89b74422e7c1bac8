"""Bit layout of RQ: 64 numbers at a time, in an order for sums of 16 at once."""

from functools import cache

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.kernels.index import rabit


def pack_bits(values: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    """Undo `unpack_bits`.

    Args:
        values: Shape (rows, numbers), numbers in whole groups of 64, each of so many bits.
        bits: From 1 to 8.

    Returns:
        Shape (rows, bytes).
    """
    rows, count = len(values), values.shape[1] // 64
    if bits == 8:
        return values
    if bits == 1:
        return np.packbits(values, axis=1, bitorder="little")
    if bits == 4:
        eights = values.reshape(rows, count, 4, 2, 8)
        return np.asarray(eights[:, :, :, 0] | eights[:, :, :, 1] << 4, np.uint8).reshape(rows, count * 32)
    runs = np.moveaxis(values.reshape(rows, count, 4, 16), 2, 0)
    if bits in (2, 3):
        low = runs & 3
        planes = [low[0] | low[1] << 2 | low[2] << 4 | low[3] << 6]
    elif bits == 5:
        low = runs & 15
        planes = [low[0] | low[1] << 4, low[2] | low[3] << 4]
    else:
        low = runs & 63
        planes = [low[run] | (low[3] >> 2 * run) << 6 for run in range(3)]
    if bits in (3, 5, 7):
        top = runs >> (bits - 1)
        plane = np.zeros((rows, count, 8), np.uint8)
        for run in range(4):
            plane |= top[run, :, :, :8] << 2 * run | top[run, :, :, 8:] << (2 * run + 1)
        planes.append(plane)
    return np.concatenate(planes, axis=2).reshape(rows, count * 8 * bits)


def unpack_bits(packed: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.int32]:
    """Unpack numbers, 64 at a time, from the layout for sums of 16 at once.

    Two and four bits share bytes between numbers 16 (of four bits: 8) places apart. Of three, five and seven
    bits the highest ones are separate; of six and seven the last 16 numbers are in the free bits of the
    others.

    Args:
        packed: Shape (rows, bytes), bytes for whole groups of 64 numbers.
        bits: From 1 to 8.
    """
    rows = len(packed)
    groups = packed.reshape(rows, packed.shape[1] // (8 * bits), 8 * bits).astype(np.int32)
    count = groups.shape[1]
    if bits == 8:
        return groups.reshape(rows, count * 64)
    if bits == 1:
        return ((groups[..., None] >> np.arange(8)) & 1).reshape(rows, count * 64)
    if bits == 4:
        eights = groups.reshape(rows, count, 4, 8)
        return np.concatenate([eights & 15, eights >> 4], axis=3).reshape(rows, count * 64)
    if bits in (2, 3):
        low = [(groups[..., :16] >> 2 * run) & 3 for run in range(4)]
    elif bits == 5:
        low = [
            (groups[..., 16 * (run // 2) : 16 * (run // 2) + 16] >> 4 * (run % 2)) & 15 for run in range(4)
        ]
    else:
        blocks = [groups[..., 16 * run : 16 * run + 16] for run in range(3)]
        low = [block & 63 for block in blocks]
        low.append(blocks[0] >> 6 | blocks[1] >> 6 << 2 | blocks[2] >> 6 << 4)
    found = np.stack(low, axis=2)
    if bits in (3, 5, 7):
        plane = groups[..., 8 * bits - 8 :]
        place = np.arange(16)
        for run in range(4):
            top = (plane[..., place % 8] >> (2 * run + place // 8)) & 1
            found[:, :, run] |= top << (bits - 1)
    return found.reshape(rows, count * 64)


def unpack_numbers(
    signs: npt.NDArray[np.uint8], packed: npt.NDArray[np.uint8] | None, bits: int
) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """Return numbers whose highest bit is a sign, and whose other ones are packed.

    Args:
        signs: Shape (rows, dimension / 8): the signs of all rows, see `rabit.spread_signs`.
        packed: Shape (rows, bytes), bytes for whole groups of 64 numbers; None for no bits.
        bits: Of a packed number, from 0 to 8.

    Returns:
        Shape (rows, dimension).
    """
    dimension = 8 * signs.shape[1]
    words = np.empty(signs.shape, np.uint64)
    numbers = words.view(np.uint8)
    spread = _spread() << np.uint64(bits % 8)
    rabit.spread_signs(packed=np.ascontiguousarray(signs), spread=spread, numbers=words)
    if packed is None:
        return numbers
    if bits == 8:
        return numbers * np.uint16(256) + packed[:, :dimension]
    if bits == 1:
        numbers |= np.unpackbits(packed, axis=1, bitorder="little")[:, :dimension]
    else:
        whole = np.require(np.ascontiguousarray(packed).view(np.uint64), requirements=["C", "A"])
        rabit.add_levels(packed=whole, runs=_runs(bits), group=bits, numbers=words)
    return numbers


@cache
def _spread() -> npt.NDArray[np.uint64]:
    """Return the bits of each byte as bytes of a word, those of the lowest first."""
    every = np.arange(256, dtype=np.uint8)[:, None]
    return np.unpackbits(every, axis=1, bitorder="little").view(np.uint64).reshape(-1)


@cache
def _runs(bits: int) -> npt.NDArray[np.uint64]:
    """Return the positions of bits of numbers in a group, see `rabit.add_levels`."""
    single = np.packbits(np.eye(64 * bits, dtype=np.uint8), axis=1, bitorder="little")
    # Contribution of each bit of the group to each of its numbers. All bytes of a word are alike.
    adds = unpack_bits(single, bits)
    masks: dict[tuple[int, int, int], int] = {}
    for bit, number in zip(*np.nonzero(adds), strict=True):
        byte, place = divmod(int(bit), 8)
        if byte % 8 == 0:
            moved = int(adds[bit, number]).bit_length() - 1 - place
            key = (byte // 8, int(number) // 8, moved)
            masks[key] = masks.get(key, 0) | 1 << place
    runs = []
    for (word, to, moved), mask in masks.items():
        right = (mask & -mask).bit_length() - 1
        runs.append((word, to, right, (mask >> right) * 0x0101010101010101, moved + right))
    return np.array(runs, np.uint64)
