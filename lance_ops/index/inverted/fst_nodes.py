"""Nodes of finite state transducers, read one by one.

A node lies before its address and is read backwards from there: a byte that says of which form it is, sizes,
bytes that lead on, distances to the nodes that they lead to, outputs. The number of a word is the sum of the
outputs on its way.
"""

from dataclasses import dataclass, replace

from lance_ops.encoding.kernels.index.fst_words import LEADS_OUTSIDE, OUTSIDE

HEADER_BYTES = 16
EMPTY = 0
"""Address of the node that has no bytes: a word ends there, and nothing leads on."""
_INDEXED = 32
"""Nodes with more ways than so many have an index of 256 bytes, from version 2."""


class DamageError(ValueError):
    """A node cannot be read; `code` says what is wrong."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Node:
    """A node, taken apart.

    Attributes:
        is_final: True if a word ends here.
        final_output: What that adds to its number.
        ways: (byte, output, address) of each, in the order of the bytes.
    """

    is_final: bool
    final_output: int
    ways: tuple[tuple[int, int, int], ...]


def read_node(data: bytes, address: int, version: int, common: bytes, only: int | None = None) -> Node:
    """Return a node with all its ways, or with the one of a byte, if there is one.

    Args:
        data: The transducer.
        address: Of the node.
        version: Of the layout, 1 to 3.
        common: The bytes that a node with one way can name in its state, the first as 1.
        only: The byte.

    Raises:
        DamageError: It lies outside, or leads outside.
    """
    if address == EMPTY:
        return Node(is_final=True, final_output=0, ways=())
    state = _byte(data, address)
    if state & 0x80:
        node = _with_one_way(data, address, state, common)
        return node if only in (None, node.ways[0][0]) else replace(node, ways=())
    return _with_any_ways(data, address, state, version, only)


def _with_one_way(data: bytes, address: int, state: int, common: bytes) -> Node:
    at = address
    name = state & 0x3F
    if name:
        byte = common[name - 1]
    else:
        at -= 1
        byte = _byte(data, at)
    if state & 0x40:
        # What it leads to is the node before this one.
        return Node(is_final=False, final_output=0, ways=((byte, 0, _behind(at - 1, address)),))
    at -= 1
    sizes = _byte(data, at)
    distance_size, output_size = sizes >> 4, sizes & 0x0F
    at -= distance_size
    distance = _number(data, at, distance_size)
    at -= output_size
    output = _number(data, at, output_size)
    target = EMPTY if distance == 0 else _behind(at - distance, address)
    return Node(is_final=False, final_output=0, ways=((byte, output, target),))


def _with_any_ways(data: bytes, address: int, state: int, version: int, only: int | None) -> Node:
    at = address
    count = state & 0x3F
    if count == 0:
        at -= 1
        count = _byte(data, at)
        # One way has a form of its own.
        count = 256 if count == 1 else count
    at -= 1
    sizes = _byte(data, at)
    distance_size, output_size = sizes >> 4, sizes & 0x0F
    if version >= 2 and count > _INDEXED:
        at -= 256
    at -= count
    letters = _slice(data, at, count)[::-1]
    chosen = range(count) if only is None else (letters.index(only),) if only in letters else ()
    at -= count * distance_size
    distances = [_number(data, at + (count - 1 - way) * distance_size, distance_size) for way in chosen]
    at -= count * output_size
    outputs = [_number(data, at + (count - 1 - way) * output_size, output_size) for way in chosen]
    is_final = bool(state & 0x40)
    final_output = 0
    if is_final:
        at -= output_size
        final_output = _number(data, at, output_size)
    targets = (EMPTY if step == 0 else _behind(at - step, address) for step in distances)
    ways = zip((letters[way] for way in chosen), outputs, targets, strict=True)
    return Node(is_final, final_output, tuple(ways))


def _byte(data: bytes, at: int) -> int:
    if not HEADER_BYTES <= at < len(data):
        raise DamageError(OUTSIDE)
    return data[at]


def _slice(data: bytes, at: int, size: int) -> bytes:
    if at < HEADER_BYTES:
        raise DamageError(OUTSIDE)
    return data[at : at + size]


def _number(data: bytes, at: int, size: int) -> int:
    """Return sizes that no writer gives are cut to eight bytes."""
    return int.from_bytes(_slice(data, at, min(size, 8)), "little") if size else 0


def _behind(target: int, address: int) -> int:
    """Nodes lead to nodes that were written before them, so that every way ends."""
    if not HEADER_BYTES <= target < address:
        raise DamageError(LEADS_OUTSIDE)
    return target
