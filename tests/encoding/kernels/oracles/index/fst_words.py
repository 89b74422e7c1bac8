"""All words of finite state transducers, node by node."""

from typing import NoReturn

from lance_ops.encoding.kernels.index.fst_words import NOWHERE, TOO_LONG, TOO_MANY
from lance_ops.index.inverted.fst_nodes import DamageError, Node, read_node

_MOST_BYTES = 1 << 31
_ALL_BITS = (1 << 64) - 1


def list_words(
    data: bytes, version: int, root: int, count: int, common: bytes
) -> tuple[int, bytes, list[int], list[int]]:
    """Return all words with their numbers, in the order of their bytes.

    Returns:
        (how many, or what is wrong; the words in sequence; where each begins and the last one ends;
        the number of each). Nothing of the words where something is wrong.
    """
    known: dict[int, Node] = {}
    joined, offsets, numbers = bytearray(), [0], list[int]()
    word = bytearray()
    stack = [(root, 0, 0, 0)]
    try:
        while stack:
            address, length, byte, total = stack.pop()
            if length:
                word[length - 1 :] = (byte,)
            node = known.get(address)
            if node is None:
                node = known[address] = read_node(data, address, version, common)
            if node.is_final:
                if len(numbers) == count:
                    _refuse(TOO_MANY)
                if len(joined) + length > _MOST_BYTES:
                    _refuse(TOO_LONG)
                joined += word[:length]
                offsets.append(len(joined))
                numbers.append((total + node.final_output) & _ALL_BITS)
            elif not node.ways:
                _refuse(NOWHERE)
            for way, output, target in reversed(node.ways):
                stack.append((target, length + 1, way, total + output))
    except DamageError as error:
        return error.code, b"", [0], []
    return len(numbers), bytes(joined), offsets, numbers


def _refuse(code: int) -> NoReturn:
    raise DamageError(code)
