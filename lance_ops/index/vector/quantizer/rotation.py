"""Rotation: a random one that is cheap to make, so that all values of a vector say as much."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.kernels.fronts.index import rabit

ROUNDS = 4


def random_signs(dimension: int, seed: int) -> list[int]:
    """Signs for `rotate`: bytes, one bit a dimension, for each round in turn."""
    return list(np.random.default_rng(seed).bytes(ROUNDS * -(-dimension // 8)))


def rotate(vectors: npt.NDArray[np.float32], signs: Sequence[int]) -> npt.NDArray[np.float32]:
    """The rotation that signs stand for.

    Args:
        vectors: Shape (rows, dimension).
        signs: Bytes, one bit a dimension, for each round in turn.
    """
    dimension = vectors.shape[1]
    stored = np.array(signs, np.uint8).reshape(ROUNDS, -(-dimension // 8))
    flips = np.ascontiguousarray(np.unpackbits(stored, axis=1, bitorder="little")[:, :dimension])
    rotated = np.array(vectors, np.float32, order="C")
    rabit.rotate(vectors=rotated, flips=flips)
    return rotated
