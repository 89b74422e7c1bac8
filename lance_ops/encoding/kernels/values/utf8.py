"""UTF-8: whether bytes are text, and no string begins within a character.

Eight bytes are looked at as one word. A mask has the highest bit of each byte that is of some kind, and each
byte is judged together with the three before it. That is all there is: no state is carried from word to word,
so that the compiler does several words at a time.
"""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Offsets
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import READONLY_BYTES, load_u64

_HIGHEST = np.uint64(0x8080808080808080)
_1, _2, _3, _4, _5, _6, _7, _8, _16, _24, _40, _48, _56 = (
    np.uint64(count) for count in (1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 40, 48, 56)
)
_CONTINUATION, _CONTINUATION_MASK = 0x80, 0xC0
# Words looked through for anything but ASCII before they are judged.
_BLOCK = 64
_WORD = 8
MALFORMED = -1
BEGINS_WITHIN = -2


@inner(inline="always")
def _judge(word, before):
    """Masks of the bytes of a word that are wrong, given the word before; only the highest bits count."""
    previous = (word << _8) | (before >> _56)
    second = (word << _16) | (before >> _48)
    third = (word << _24) | (before >> _40)
    # Bit n of each byte is moved to where the highest is.
    bit5, bit4 = word << _2, word << _3
    leads = previous & (previous << _1)
    wanted = leads | (second & (second << _1) & (second << _2))
    wanted |= third & (third << _1) & (third << _2) & (third << _3)
    # Bytes that go on where none should, and none where one should.
    wrong = (word & ~(word << _1)) ^ wanted
    leads_three = leads & (previous << _2)
    leads_four = leads_three & (previous << _3)
    leads_three &= ~(previous << _3)
    three, two, one, zero = previous << _4, previous << _5, previous << _6, previous << _7
    # C0 and C1 would be longer than they need to be, F5 and above are beyond the last character.
    wrong |= leads & ~((previous << _2) | (previous << _3) | three | two | one)
    wrong |= leads_four & (three | (two & (one | zero)))
    # So would E0 be before 80 to 9F, and F0 before 80 to 8F.
    none = ~(three | two | one | zero)
    wrong |= leads_three & none & ~bit5
    wrong |= leads_four & none & ~(bit5 | bit4)
    # Surrogates, ED and A0 to BF; and F4 and 90 to BF, beyond the last character again.
    wrong |= leads_three & three & two & ~one & zero & bit5
    wrong |= leads_four & ~three & two & ~one & ~zero & (bit5 | bit4)
    return wrong


@inner
def _last_words(data, first):
    """The bytes from `first` on, fewer than a word, with zeros after them."""
    word = np.uint64(0)
    for at in range(len(data) - 1, first - 1, -1):
        word = (word << _8) | np.uint64(data[at])
    return word


@loop(
    [
        types.int64(READONLY_BYTES, types.Array(offset, 1, "C", readonly=True))
        for offset in (types.int32, types.int64)
    ]
)
def _check(data, offsets):
    words = len(data) // _WORD
    judged = False
    wrong = np.uint64(0)
    for start in range(0, words, _BLOCK):
        stop = min(start + _BLOCK, words)
        high = np.uint64(0)
        for number in range(max(start - 1, 0), stop):
            high |= load_u64(data, number * _WORD)
        if high & _HIGHEST == 0:
            continue
        judged = True
        first = start
        if not start:
            wrong |= _judge(load_u64(data, 0), np.uint64(0))
            first = 1
        for number in range(first, stop):
            wrong |= _judge(load_u64(data, number * _WORD), load_u64(data, number * _WORD - _WORD))
    # What is left, and then nothing, which ends a character that is not complete.
    before = load_u64(data, (words - 1) * _WORD) if words else np.uint64(0)
    last = _last_words(data, words * _WORD)
    wrong |= _judge(last, before) | _judge(np.uint64(0), last)
    if wrong & _HIGHEST != 0:
        return MALFORMED
    if not judged and (before | last) & _HIGHEST == 0:
        return 0
    size = len(data)
    for number in range(len(offsets) - 1):
        at = np.int64(offsets[number]) - np.int64(offsets[0])
        if at < size and data[at] & _CONTINUATION_MASK == _CONTINUATION:
            return BEGINS_WITHIN
    return 0


def check(*, data: Bytes, offsets: Offsets) -> int:
    """Validate the bytes of strings.

    Args:
        data: All bytes of the strings, and no more.
        offsets: Shape (strings + 1,), not decreasing: where they begin, and where the last one ends; the
            first offset is that of the first byte.

    Returns:
        0, `MALFORMED` when the bytes are no UTF-8, or `BEGINS_WITHIN` when a string begins within a
        character.
    """
    return int(_check(data, offsets))
