"""Numbers of some bits as RQ lays them: 64 at a time, in the order that suits sums of 16 at once."""

from functools import cache

import numpy as np
import numpy.typing as npt


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
    """Numbers of some bits, 64 at a time, as they lie for sums of 16 at once.

    Two and four bits share bytes between numbers 16 (of four bits: 8) places apart. Of three, five and seven
    bits the highest ones lie apart; of six and seven the last 16 numbers are in the free bits of the others.

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


def byte_tables(weights: npt.NDArray[np.float32], bits: int) -> npt.NDArray[np.float32]:
    """What each byte of packed numbers adds to the sum of the numbers times their weights.

    Args:
        weights: One for each number; those of numbers that fill a group up are zero.
        bits: Of a number.

    Returns:
        Shape (bytes, 256).
    """
    count = -(-len(weights) // 64)
    groups = np.zeros((count, 64), np.float32)
    groups.reshape(-1)[: len(weights)] = weights
    of_bits = (groups @ _numbers_of_bits(bits).T).reshape(count * 8 * bits, 8)
    tables = np.zeros((len(of_bits), 1), np.float32)
    for bit in range(8):
        tables = np.concatenate([tables, tables + of_bits[:, bit : bit + 1]], axis=1)
    return tables


@cache
def _numbers_of_bits(bits: int) -> npt.NDArray[np.float32]:
    """What each bit of a packed group adds to which number: shape (bits of the group, 64)."""
    single = np.packbits(np.eye(64 * bits, dtype=np.uint8), axis=1, bitorder="little")
    return unpack_bits(single, bits).astype(np.float32)
