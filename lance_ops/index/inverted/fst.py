"""Ordered maps from words to numbers as finite state transducers: the token sets of newer releases.

A node lies before its address and is read backwards from there: a byte that says of which form it is, sizes,
bytes that lead on, distances to the nodes that they lead to, outputs. The number of a word is the sum of the
outputs on its way.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lance_ops.encoding.kernels.fronts import fst
from lance_ops.errors import CorruptFileError

_VERSIONS = (1, 2, 3)
_HEADER = struct.Struct("<QQ")
_FOOTER = struct.Struct("<QQ")
_CHECKSUM_BYTES = 4
_EMPTY = 0
"""Address of the node that has no bytes: a word ends there, and nothing leads on."""
_INDEXED = 32
"""Nodes with more ways than so many have an index of 256 bytes, from version 2."""

_COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
"""Bytes that the form of a node with one way can name, counted from 1."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node, taken apart: ways in the order of their bytes."""

    is_final: bool
    final_output: int
    ways: tuple[tuple[int, int, int], ...]
    """(byte, output, address) of each."""


def write_fst(words: Sequence[str]) -> bytes:
    """A map from words to their places.

    Args:
        words: In the order of their bytes, each once.
    """
    encoded = [word.encode() for word in words]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    data = np.frombuffer(b"".join(encoded), np.uint8)
    return fst.build(data=data, offsets=offsets, values=np.arange(len(words)), common=_COMMON)


class FstMap:
    """A map from words to numbers.

    Args:
        data: Its bytes.
        path: The file that they are from, for messages.

    Raises:
        CorruptFileError: They are no such map, as far as their ends tell.
    """

    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self._path = path
        if len(data) < _HEADER.size + _FOOTER.size:
            raise self._damage("it is too short")
        self._version, _ = _HEADER.unpack_from(data)
        if self._version not in _VERSIONS:
            raise self._damage(f"its version is {self._version}")
        end = len(data) - (_CHECKSUM_BYTES if self._version > 2 else 0) - _FOOTER.size
        if end < _HEADER.size:
            raise self._damage("it is too short")
        self._count: int
        self._root: int
        self._count, self._root = _FOOTER.unpack_from(data, end)
        if self._root >= end:
            raise self._damage("its root lies outside")

    def __len__(self) -> int:
        return self._count

    def get(self, word: str) -> int | None:
        """The number of a word, or None when it is not among them.

        Raises:
            CorruptFileError: A node cannot be read.
        """
        address, total = self._root, 0
        for byte in word.encode():
            node = self._node(address, only=byte)
            if not node.ways:
                return None
            _, output, address = node.ways[0]
            total += output
        node = self._node(address)
        return total + node.final_output if node.is_final else None

    def items(self) -> Iterator[tuple[str, int]]:
        """All words with their numbers, in the order of their bytes.

        Raises:
            CorruptFileError: A node cannot be read, or there are more words than there should be.
        """
        found = 0
        known: dict[int, _Node] = {}
        word = bytearray()
        stack = [(self._root, 0, 0, 0)]
        while stack:
            address, length, byte, total = stack.pop()
            if length:
                word[length - 1 :] = (byte,)
            node = known.get(address)
            if node is None:
                node = known[address] = self._node(address)
            if node.is_final:
                found += 1
                if found > self._count:
                    raise self._damage(f"it has more words than the {self._count} that it says")
                try:
                    yield word.decode(), total + node.final_output
                except UnicodeDecodeError:
                    raise self._damage("a word is no text") from None
            elif not node.ways:
                raise self._damage("a way leads nowhere")
            for byte, output, target in reversed(node.ways):
                stack.append((target, length + 1, byte, total + output))
        if found != self._count:
            raise self._damage(f"it has {found} words and says {self._count}")

    def _node(self, address: int, only: int | None = None) -> _Node:
        """A node with all its ways, or with the one of a byte, if there is one."""
        if address == _EMPTY:
            return _Node(is_final=True, final_output=0, ways=())
        state = self._byte(address)
        if state & 0x80:
            node = self._with_one_way(address, state)
            return node if only in (None, node.ways[0][0]) else replace(node, ways=())
        return self._with_any_ways(address, state, only)

    def _with_one_way(self, address: int, state: int) -> _Node:
        at = address
        common = state & 0x3F
        if common:
            byte = _COMMON[common - 1]
        else:
            at -= 1
            byte = self._byte(at)
        if state & 0x40:
            # What it leads to is the node before this one.
            return _Node(is_final=False, final_output=0, ways=((byte, 0, self._behind(at - 1, address)),))
        at -= 1
        sizes = self._byte(at)
        distance_size, output_size = sizes >> 4, sizes & 0x0F
        at -= distance_size
        distance = self._number(at, distance_size)
        at -= output_size
        output = self._number(at, output_size)
        target = _EMPTY if distance == 0 else self._behind(at - distance, address)
        return _Node(is_final=False, final_output=0, ways=((byte, output, target),))

    def _with_any_ways(self, address: int, state: int, only: int | None) -> _Node:
        at = address
        count = state & 0x3F
        if count == 0:
            at -= 1
            count = self._byte(at)
            # One way has a form of its own.
            count = 256 if count == 1 else count
        at -= 1
        sizes = self._byte(at)
        distance_size, output_size = sizes >> 4, sizes & 0x0F
        if self._version >= 2 and count > _INDEXED:
            at -= 256
        at -= count
        letters = self._slice(at, count)[::-1]
        chosen = range(count) if only is None else (letters.index(only),) if only in letters else ()
        at -= count * distance_size
        distances = [self._number(at + (count - 1 - way) * distance_size, distance_size) for way in chosen]
        at -= count * output_size
        outputs = [self._number(at + (count - 1 - way) * output_size, output_size) for way in chosen]
        is_final = bool(state & 0x40)
        final_output = 0
        if is_final:
            at -= output_size
            final_output = self._number(at, output_size)
        targets = (_EMPTY if step == 0 else self._behind(at - step, address) for step in distances)
        return _Node(
            is_final,
            final_output,
            tuple(zip((letters[way] for way in chosen), outputs, targets, strict=True)),
        )

    def _byte(self, at: int) -> int:
        if not _HEADER.size <= at < len(self._data):
            raise self._damage("a node lies outside")
        return self._data[at]

    def _slice(self, at: int, size: int) -> bytes:
        if at < _HEADER.size:
            raise self._damage("a node lies outside")
        return self._data[at : at + size]

    def _number(self, at: int, size: int) -> int:
        return int.from_bytes(self._slice(at, size), "little") if size else 0

    def _behind(self, target: int, address: int) -> int:
        """Nodes lead to nodes that were written before them: whoever follows them comes to an end."""
        if not _HEADER.size <= target < address:
            raise self._damage("a way leads outside")
        return target

    def _damage(self, problem: str) -> CorruptFileError:
        return CorruptFileError(f"its words cannot be read: {problem}", path=self._path, field="tokens")
