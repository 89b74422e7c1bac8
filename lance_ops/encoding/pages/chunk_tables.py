"""Chunk tables of several pages, decoded at once; see `chunks`."""

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError

# A word of a table: the bytes of the chunk in units of 8, less one, and its values as a power of two.
_UNIT, _COUNT_BITS = 8, 4
_MAX_COUNT = 1 << 15

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


def decode_chunk_tables(
    tables: Bytes, table_sizes: Integers, *, word_bytes: int, num_values: Integers, room: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """Parse the words that describe the chunks of some pages.

    Args:
        tables: Those of all pages, one after the other.
        table_sizes: Bytes of each, at least one page.
        word_bytes: Bytes of a word, 2 (2.1) or 4 (2.2).
        num_values: Of each page; its last chunk has what the others leave.
        room: Bytes that the chunks of each page may take.

    Returns:
        The number of chunks of each page. Of each chunk: where it begins in its page, its size, its values.

    Raises:
        CorruptFileError: Sizes or counts do not add up.
    """
    numbers = table_sizes // word_bytes
    if bool((numbers * word_bytes != table_sizes).any()) or not int(numbers.min()):
        raise CorruptFileError("the table of the chunks of a page is not made of whole words")
    words = np.frombuffer(tables.tobytes(), dtype=f"<u{word_bytes}").astype(np.int64)
    lasts = np.cumsum(numbers) - 1
    firsts = lasts - numbers + 1
    sizes = ((words >> _COUNT_BITS) + 1) * _UNIT
    ends = np.cumsum(sizes)
    before = ends[firsts] - sizes[firsts]
    if bool((ends[lasts] - before > room).any()):
        raise CorruptFileError("the chunks of a page do not fit into its bytes")
    values = np.int64(1) << (words & ((1 << _COUNT_BITS) - 1))
    values[lasts] = 0
    rest = num_values - np.add.reduceat(values, firsts)
    if bool((rest < 0).any()) or bool((rest > _MAX_COUNT).any()):
        raise CorruptFileError("the last chunk of a page cannot hold what the others leave")
    values[lasts] = rest
    return numbers, ends - sizes - np.repeat(before, numbers), sizes, values
