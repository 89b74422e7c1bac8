"""FSST encoding. There is no reference: only compiled loops would be fast enough."""

from lance_ops.encoding.arrays import Bytes, Integers, Levels, Offsets, Words64
from lance_ops.encoding.kernels import load

ALL_PLACES = 3 << 10
"""Of the three tables of symbols of three bytes or more."""

ALL_PAIRS = (1 << 16) + 256
"""All pairs of two bytes, and then all single bytes."""

_Codes = Levels


def available() -> bool:
    """Return whether the other functions can be called."""
    return load("fsst.encode") is not None


def prepare(
    *,
    words: Words64,
    lengths: Integers,
    found_words: Words64,
    found_codes: _Codes,
    pair_codes: _Codes,
) -> tuple[int, int]:
    """Fill in the tables of an encoder.

    Args:
        words: Shape (symbols,), at most 255: their bytes, the first one lowest.
        lengths: Shape (symbols,): how many these are, from 1 to 8.
        found_words: Shape (ALL_PLACES,): gets the symbol of each place.
        found_codes: Shape (ALL_PLACES,): gets the code of each place, and its length.
        pair_codes: Shape (ALL_PAIRS,): gets the code of each pair and of each byte, and its length.

    Returns:
        The bytes of the keys of the first two tables, the first being 0 if all tables are empty.
    """
    kernel = load("fsst.encode")
    assert kernel is not None
    first_key, second_key = kernel.prepare(words, lengths, found_words, found_codes, pair_codes)
    return first_key, second_key


def encode(
    *,
    data: Bytes,
    ending: Bytes,
    ends: Integers,
    count: int,
    half: int,
    keys: tuple[int, int],
    words: Words64,
    codes: _Codes,
    pairs: _Codes,
    out: Bytes,
    middle: int,
    out_ends: Integers,
) -> tuple[int, int]:
    """Compress strings that are not empty and follow each other from the start of the data.

    Args:
        data: The strings.
        ending: The last 8 bytes of the data, or as many as there are, and 8 bytes more.
        ends: Shape (count + 1,): of the strings in the data, rising; the last one is not used.
        count: Number of strings, at least 1.
        half: Number of the first string of the second half, up to `count`.
        keys: As `prepare` says.
        words: As `prepare` filled them in.
        codes: As `prepare` filled them in.
        pairs: As `prepare` filled them in.
        out: Room for twice the bytes of each half.
        middle: Where the second half begins in the output.
        out_ends: Shape (count,): gets the ends of the compressed strings; those of each half are counted from
            the start of the output.

    Returns:
        Where the two halves end in the output.
    """
    kernel = load("fsst.encode")
    assert kernel is not None
    plain = (data, ending, ends, count, half)
    first_end, second_end = kernel.encode(*plain, *keys, words, codes, pairs, out, middle, out_ends)
    return first_end, second_end


def find_ends(*, offsets: Offsets, ends: Integers) -> int:
    """Return the ends of the non-empty strings, counted from the first offset.

    Args:
        offsets: Shape (strings + 1,), not decreasing.
        ends: Shape (strings + 1,): gets the ends; what is behind them may be written.

    Returns:
        How many strings are not empty.
    """
    kernel = load("fsst.encode")
    assert kernel is not None
    return int(kernel.find_ends(offsets, ends))


def fill_offsets(*, offsets: Offsets, ends: Integers, out_offsets: Integers) -> None:
    """Fill in the offsets of empty strings.

    Args:
        offsets: As `find_ends` was given them.
        ends: Of the compressed strings that are not empty.
        out_offsets: Shape (strings + 1,): gets the offsets of all compressed strings.
    """
    kernel = load("fsst.encode")
    assert kernel is not None
    kernel.fill_offsets(offsets, ends, out_offsets)
