"""Whole pages of plain values with equal encodings, read as one because of the fixed cost of a page."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer, copy_parts
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.flat import bit_width, decode_flat
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.extents import fetch_extents
from lance_ops.file.io.fetch import Steps, gather
from lance_ops.file.io.page_errors import page_errors
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.v2_0.arrays import read_rows
from lance_ops.file.v2_0.columns import ArrayPage
from lance_ops.file.v2_0.words import find_words, is_plain, word_bits

# Larger pages gain nothing, and as views of a mapped file they need no copy.
_SMALL_BYTES = 64 << 10
_PAGES_AT_ONCE = 256

_Part = tuple[ArrayPage, RowSelection]


def read_parts(parts: Sequence[_Part], data_type: pa.DataType) -> Steps[list[pa.Array]]:
    """Read rows of some pages of a column that is neither a list nor a struct.

    Args:
        parts: Pages that follow each other, each with its own rows.
        data_type: Storage type of the values.

    Returns:
        Arrays that follow each other.

    Raises:
        CorruptFileError: The bytes do not match the encodings.
        UnsupportedError: An encoding that is not implemented, which is named.
    """
    if len(parts) == 1:
        return [(yield from read_rows(parts[0][0], data_type, parts[0][1]))]
    width, rest = divmod(bit_width(data_type), 8)
    steps: list[Steps[list[pa.Array]]] = []
    # Descriptions that are equal are one object, unless they are long.
    for _, found in groupby(parts, key=lambda part: id(part[0].encoding)):
        run = list(found)
        if rest or not width or len(run) == 1 or not all(_is_small(part, width) for part in run):
            steps.append(_read_apart(run, data_type))
            continue
        cuts = range(0, len(run), _PAGES_AT_ONCE)
        steps.extend(_read_together(run[first : first + _PAGES_AT_ONCE], data_type) for first in cuts)
    return [array for arrays in (yield from gather(steps)) for array in arrays]


def _is_small(part: _Part, width: int) -> bool:
    page, rows = part
    return rows.numbers is None and rows.count == page.length and page.length * width <= _SMALL_BYTES


def _read_apart(parts: Sequence[_Part], data_type: pa.DataType) -> Steps[list[pa.Array]]:
    return (yield from gather([read_rows(page, data_type, rows) for page, rows in parts]))


def _read_together(parts: Sequence[_Part], data_type: pa.DataType) -> Steps[list[pa.Array]]:
    encoding = parts[0][0].encoding
    if not is_plain(encoding) or pa.types.is_fixed_size_list(data_type):
        return (yield from _read_apart(parts, data_type))
    with page_errors(parts[0][0]):
        return [(yield from _read_words(parts, data_type))]


def _read_words(parts: Sequence[_Part], data_type: pa.DataType) -> Steps[pa.Array]:
    words = find_words(parts[0][0].encoding, bit_width(data_type))
    width = word_bits(words) // 8
    sizes = np.array([page.length for page, _ in parts], dtype=np.int64) * width
    places = np.array([page.buffer(words.flat.buffer) for page, _ in parts], dtype=np.int64)
    for number in np.flatnonzero(sizes > places[:, 1])[:1].tolist():
        page = parts[number][0]
        raise CorruptFileError(
            f"{page.length} rows need {sizes[number]} bytes, but the buffer has {places[number, 1]}",
            path=page.path,
            field=page.where,
        )
    data, found = yield from fetch_extents(places[:, 0], places[:, 0] + sizes, parts[0][1].gap)
    ends = np.cumsum(sizes)
    joined = empty(int(ends[-1]), np.uint8)
    copy_parts(ChunkBuffer(np.frombuffer(data, dtype=np.uint8), found, sizes), joined, ends - sizes)
    return decode_flat(pa.py_buffer(joined), data_type, int(ends[-1]) // width)
