"""LZ4 blocks, walked without being unpacked."""

from typing import Any

_SHORTEST_MATCH = 4
_LONG = 15
"""A length of so much goes on in the bytes that follow."""


def is_whole(block: Any, stop: int, size: int) -> bool:
    """Return whether a block writes each byte of its output; also what the compiled loop is made of.

    Args:
        block: Its bytes.
        stop: How many they are.
        size: Bytes that it should become.
    """
    position = written = 0
    while position < stop:
        # Added to 0, because compiled sums of positions and unsigned bytes would be floats.
        token = 0 + block[position]
        position += 1
        count = token >> 4
        more = 255 if count == _LONG else 0
        while more == 255:
            if position == stop:
                return False
            more = 0 + block[position]
            position += 1
            count += more
        position += count
        written += count
        if position == stop:
            # The last sequence is one of plain bytes only.
            return bool(written == size)
        if position + 2 > stop:
            return False
        distance = 0 + block[position] + 256 * block[position + 1]
        position += 2
        if distance == 0 or distance > written:
            return False
        count = token & _LONG
        more = 255 if count == _LONG else 0
        while more == 255:
            if position == stop:
                return False
            more = 0 + block[position]
            position += 1
            count += more
        written += count + _SHORTEST_MATCH
        if written > size:
            return False
    return False
