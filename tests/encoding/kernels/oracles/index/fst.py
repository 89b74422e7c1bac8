"""Finite state transducers of ordered words, word by word; see the kernel of that name."""

import struct
from dataclasses import dataclass, field

_HEADER = struct.pack("<QQ", 3, 0)
_INDEXED = 32
_ONE_WAY, _NEXT, _FINAL = 0x80, 0x40, 0x40
_IN_STATE = 63

Way = tuple[int, int, int]
"""(byte, output, address of the node that it leads to)."""


@dataclass(slots=True)
class _Unfinished:
    """A node on the way to the newest word."""

    is_final: bool = False
    final_output: int = 0
    ways: list[Way] = field(default_factory=list)
    byte: int = 0
    output: int = 0


def build_nodes(words: list[bytes], values: list[int], names: bytes) -> tuple[bytes, int]:
    """Return the header and all nodes, and where the first one is.

    Args:
        words: In the order of their bytes, each once.
        values: The number of each.
        names: For each byte how nodes name it, 0 where they cannot.
    """
    out = bytearray(_HEADER)
    known: dict[tuple[bool, int, tuple[Way, ...]], int] = {}
    path = [_Unfinished()]

    def freeze(length: int) -> int:
        """Write the nodes behind the first so many bytes of the path."""
        address = 0
        while len(path) > length:
            node = path.pop()
            key = (node.is_final, node.final_output, tuple(node.ways))
            if key == (True, 0, ()) and path:
                address = 0
            else:
                if key not in known:
                    known[key] = _write(out, names, *key)
                address = known[key]
            if path:
                path[-1].ways.append((path[-1].byte, path[-1].output, address))
        return address

    last = b""
    for word, value in zip(words, values, strict=True):
        rest, shared = value, 0
        while shared < min(len(last), len(word)) and last[shared] == word[shared]:
            node, following = path[shared], path[shared + 1]
            both = min(node.output, rest)
            pushed, node.output = node.output - both, both
            rest -= both
            shared += 1
            if following.is_final:
                following.final_output += pushed
            following.ways = [(byte, output + pushed, address) for byte, output, address in following.ways]
            if shared < len(last):
                following.output += pushed
        freeze(shared + 1)
        for place in range(shared, len(word)):
            path[place].byte, path[place].output = word[place], rest
            rest = 0
            path.append(_Unfinished())
        path[-1].is_final = True
        if not word:
            path[0].final_output = rest
        last = word
    root = freeze(0)
    return bytes(out), root


def _write(out: bytearray, names: bytes, is_final: bool, final_output: int, ways: tuple[Way, ...]) -> int:
    start = len(out)
    distances = [start - address if address else 0 for _, _, address in ways]
    outputs = [output for _, output, _ in ways]
    if len(ways) == 1 and not is_final:
        byte = ways[0][0]
        state = _ONE_WAY | names[byte]
        if distances == [1] and outputs == [0]:
            state |= _NEXT
        else:
            wide, far = (_width(outputs[0]) if outputs[0] else 0), _width(distances[0])
            out += outputs[0].to_bytes(wide, "little") + distances[0].to_bytes(far, "little")
            out.append(far << 4 | wide)
        if not names[byte]:
            out.append(byte)
        out.append(state)
        return len(out) - 1
    wide = max(map(_width, [final_output, *outputs])) if final_output or any(outputs) else 0
    far = max(map(_width, distances), default=0)
    if wide and is_final:
        out += final_output.to_bytes(wide, "little")
    for numbers, width in ((outputs, wide), (distances, far)):
        for number in reversed(numbers):
            out += number.to_bytes(width, "little")
    out += bytes(byte for byte, _, _ in ways[::-1])
    if len(ways) > _INDEXED:
        places = bytearray(b"\xff" * 256)
        for place, (byte, _, _) in enumerate(ways):
            places[byte] = place
        out += places
    out.append(far << 4 | wide)
    in_state = len(ways) if len(ways) <= _IN_STATE else 0
    if not in_state:
        out.append(1 if len(ways) == 256 else len(ways))
    out.append((_FINAL if is_final else 0) | in_state)
    return len(out) - 1


def _width(number: int) -> int:
    return max(1, -(-number.bit_length() // 8))


def checksum(data: bytes) -> int:
    """CRC-32C of some bytes, rotated and moved as the crate does it."""
    found = 0xFFFF_FFFF
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (0x82F6_3B78 if found & 1 else 0)
    found ^= 0xFFFF_FFFF
    return ((found >> 15 | found << 17) + 0xA282_EAD8) & 0xFFFF_FFFF
