"""Splitting of many strings into pieces at once: positions and bytes of each piece."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.index.inverted.packing import expand, offsets_in_owner
from lance_ops.index.inverted.tokenizers.tables import alphanumeric, not_whitespace

Ints = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of strings, in the order of the strings.

    Attributes:
        strings: The number of the text that each piece is from.
        positions: Which piece of its text it is, counted from 0.
        pieces: The pieces, large_string.
    """

    texts: Ints
    positions: Ints
    pieces: pa.LargeStringArray


@dataclass(frozen=True, slots=True)
class Texts:
    """Strings in sequence.

    Attributes:
        data: UTF-8 bytes of all.
        starts: Where each begins in the bytes, and where the last one ends.
    """

    data: _Bytes
    starts: Ints

    @classmethod
    def of(cls, values: pa.Array) -> "Texts":
        """Return those of a string array; a null is an empty text."""
        values = values.cast(pa.large_string()).fill_null("")
        _, offsets, data = values.buffers()
        starts = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
        if not len(values):
            return cls(np.zeros(0, np.uint8), np.zeros(1, np.int64))
        held = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        return cls(held[starts[0] : starts[-1]], starts - starts[0])


def words(texts: Texts) -> Pieces:
    """Return alphanumeric runs."""
    return runs_of(texts, alphanumeric())


def between_blanks(texts: Texts) -> Pieces:
    """Runs of anything but blanks."""
    return runs_of(texts, not_whitespace())


def whole(texts: Texts) -> Pieces:
    """Return each text as one piece, an empty one too."""
    count = len(texts.starts) - 1
    return Pieces(np.arange(count), np.zeros(count, np.int64), _strings(texts.starts, texts.data))


def ngrams(texts: Texts, least: int, greatest: int, *, prefix_only: bool) -> Pieces:
    """Runs of `least` to `greatest` characters, by where they begin; all at position 0, as in pylance."""
    first = (texts.data & 0xC0) != 0x80
    characters = np.append(np.flatnonzero(first), len(texts.data))
    begins = np.searchsorted(characters, texts.starts)
    counts = np.diff(begins)
    owner = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(owner))
    left = begins[owner + 1] - place
    if prefix_only:
        place, owner, left = (values[place == begins[owner]] for values in (place, owner, left))
    lengths = np.arange(least, greatest + 1)
    fits = lengths[None, :] <= left[:, None]
    row, column = np.nonzero(fits)
    start = characters[place[row]]
    stop = characters[place[row] + lengths[column]]
    sizes = stop - start
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    source = np.arange(offsets[-1]) + np.repeat(start - offsets[:-1], sizes)
    return Pieces(owner[row], np.zeros(len(row), np.int64), _strings(offsets, texts.data[source]))


def cut_pieces(pieces: Pieces, cut: Callable[[str], Sequence[tuple[str, int]]]) -> Pieces:
    """Return the words that pieces are cut into.

    Args:
        pieces: The pieces.
        cut: Returns the words of a piece, each with its position in the piece.
    """
    encoded = pieces.pieces.dictionary_encode()
    cuts = [cut(piece) for piece in encoded.dictionary.to_pylist()]
    numbers = encoded.indices.to_numpy()
    counts = np.array([len(words) for words in cuts], np.int64)
    spans = np.array([1 + max((place for _, place in words), default=-1) for words in cuts], np.int64)
    words = pa.array([word for words in cuts for word, _ in words], pa.large_string())
    places = np.array([place for words in cuts for _, place in words], np.int64)
    flat, owner = expand((np.cumsum(counts) - counts)[numbers], counts[numbers])
    before = offsets_in_owner(spans[numbers], pieces.texts)
    return Pieces(pieces.texts[owner], before[owner] + places[flat], words.take(pa.array(flat)))


def runs_of(texts: Texts, kept: npt.NDArray[np.bool_]) -> Pieces:
    """Return the runs of some characters.

    Args:
        texts: The strings.
        kept: True if a character is one of them, by its number.
    """
    inside = _of_bytes(texts.data, kept)
    begins = np.zeros(len(inside) + 1, np.bool_)
    begins[texts.starts] = True
    before = np.concatenate(([False], inside[:-1]))
    behind = np.concatenate((inside[1:], [False]))
    start = np.flatnonzero(inside & (~before | begins[:-1]))
    stop = np.flatnonzero(inside & (~behind | begins[1:])) + 1
    offsets = np.concatenate(([0], np.cumsum(stop - start)))
    first = np.searchsorted(start, texts.starts)
    owner = np.repeat(np.arange(len(texts.starts) - 1), np.diff(first))
    return Pieces(owner, np.arange(len(start)) - first[owner], _strings(offsets, texts.data[inside]))


def _of_bytes(data: _Bytes, kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return a mask over bytes of UTF-8 whose character is in a set."""
    if not len(data) or int(data.max()) < 0x80:
        return kept[data]
    points = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-32-le"), np.uint32)
    sizes = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    return np.repeat(kept[points], sizes)


def _strings(offsets: Ints, data: _Bytes) -> pa.LargeStringArray:
    buffers = [
        None,
        pa.py_buffer(np.ascontiguousarray(offsets, np.int64)),
        pa.py_buffer(np.ascontiguousarray(data)),
    ]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
