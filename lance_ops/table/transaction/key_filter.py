"""Key existence filter: keys of rows that an Update inserted, which detects two inserts of one key.

Source: transaction.proto, `KeyExistenceFilter`. Keys are stored as hashes of 64 bits: all of them, or a split
block bloom filter. Two filters are comparable if they have the same fields and parameters.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class BloomBits:
    """A split block bloom filter.

    Attributes:
        bitmap: Blocks of 256 bits.
        num_bits: Number of bits.
        items: Capacity in keys.
        probability: Target false positive rate.
    """

    bitmap: bytes
    num_bits: int
    items: int
    probability: float

    @property
    def made_for(self) -> tuple[int, int, float]:
        """Parameters; filters with different ones are not comparable."""
        return (self.num_bits, self.items, self.probability)


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Keys of inserted rows.

    Attributes:
        field_ids: Fields of the key, in its order.
        hashes: Of all keys; None with a bloom filter.
        bloom: The bloom filter; None with hashes.
    """

    field_ids: tuple[int, ...]
    hashes: frozenset[int] | None = None
    bloom: BloomBits | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether it has no key: pylance omits keys of types that it cannot hash."""
        return not self.hashes and (self.bloom is None or not any(self.bloom.bitmap))

    def meets(self, other: "KeyFilter") -> bool:
        """Return whether both may have a key in common; True if it is unknown."""
        if self.field_ids != other.field_ids or self.is_empty or other.is_empty:
            return True
        if self.hashes is not None and other.hashes is not None:
            return not self.hashes.isdisjoint(other.hashes)
        if self.bloom is None or other.bloom is None:
            return True
        ours, theirs = self.bloom, other.bloom
        if ours.made_for != theirs.made_for:
            return True
        if len(ours.bitmap) != len(theirs.bitmap) or len(ours.bitmap) % 32:
            return True
        words = np.frombuffer(ours.bitmap, "<u4") & np.frombuffer(theirs.bitmap, "<u4")
        # A key sets one bit in each of the eight words of its block.
        return bool((words.reshape(-1, 8) != 0).all(axis=1).any())

    def joined(self, other: "KeyFilter") -> "KeyFilter":
        """Return the union of two filters with equal parameters."""
        if self.bloom is None or other.bloom is None:
            hashes = (self.hashes or frozenset()) | (other.hashes or frozenset())
            return replace(self, hashes=hashes, bloom=None)
        words = np.frombuffer(self.bloom.bitmap, "<u4") | np.frombuffer(other.bloom.bitmap, "<u4")
        return replace(self, bloom=replace(self.bloom, bitmap=words.tobytes()))

    def encode(self, message: Any) -> None:
        """Set the fields of its wire message."""
        message.field_ids.extend(self.field_ids)
        if self.hashes is not None:
            message.exact.key_hashes.extend(sorted(self.hashes))
            message.exact.SetInParent()
        if self.bloom is not None:
            message.bloom.bitmap = self.bloom.bitmap
            message.bloom.num_bits = self.bloom.num_bits
            message.bloom.number_of_items = self.bloom.items
            message.bloom.probability = self.bloom.probability

    @classmethod
    def decode(cls, message: Any) -> "KeyFilter":
        """Read it from its wire message."""
        kind = message.WhichOneof("data")
        bloom = message.bloom
        return cls(
            tuple(message.field_ids),
            frozenset(message.exact.key_hashes) if kind == "exact" else None,
            BloomBits(bloom.bitmap, bloom.num_bits, bloom.number_of_items, bloom.probability)
            if kind == "bloom"
            else None,
        )
