"""Words of a partition with their numbers, in the two forms that releases of pylance write."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.distinct import distinct
from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.index.inverted.fst import FstMap, write_fst

WORD = "_token"
NUMBER = "_token_id"
_FST = "_token_fst_bytes"
_NEXT = "_token_next_id"
_LENGTH = "_token_total_length"


class TokenSet(Protocol):
    """Words with their numbers, which are the rows of their posting lists."""

    def __len__(self) -> int: ...

    def get(self, word: str) -> int | None:
        """Return the number of a word, or None when not a string has it."""
        ...

    def words(self) -> tuple[pa.LargeStringArray, npt.NDArray[np.uint64]]:
        """Return all words and the number of each, in the order of their bytes."""
        ...


class ArrowTokens:
    """A column of words and a column of numbers."""

    def __init__(self, words: pa.StringArray, numbers: pa.UInt32Array) -> None:
        self._words = words
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._words)

    def get(self, word: str) -> int | None:
        """See `TokenSet.get`."""
        place = pc.index(self._words, pa.scalar(word, self._words.type)).as_py()
        return None if place < 0 else int(self._numbers[place].as_py())

    def words(self) -> tuple[pa.LargeStringArray, npt.NDArray[np.uint64]]:
        """See `TokenSet.words`."""
        order = pc.sort_indices(self._words.cast(pa.large_binary()))
        numbers = self._numbers.take(order).to_numpy(zero_copy_only=False)
        return self._words.take(order), numbers.astype(np.uint64)


def read_token_set(reader: FileReader, form: str) -> TokenSet:
    """Read the words of a partition.

    Args:
        reader: Of `part_N_tokens.lance`.
        form: "arrow" or "fst".

    Raises:
        CorruptFileError: They cannot be read, or two have the same number.
    """
    table = reader.read_table()
    if form == "fst":
        if table.num_rows != 1 or _FST not in table.column_names:
            raise CorruptFileError("its words are not there", path=reader.path, field=_FST)
        return FstMap(table[_FST][0].as_py() or b"", reader.path)
    if WORD not in table.column_names or NUMBER not in table.column_names:
        raise CorruptFileError("its words are not there", path=reader.path, field=WORD)
    words, numbers = _one_array(table[WORD]), _one_array(table[NUMBER]).cast(pa.uint32())
    known = distinct(numbers.to_numpy(zero_copy_only=False))
    if words.null_count or numbers.null_count or len(known) != len(words):
        raise CorruptFileError("token ids are missing", path=reader.path, field=NUMBER)
    return ArrowTokens(words.cast(pa.large_string()), numbers)


def column_table(words: Sequence[str]) -> pa.Table:
    """Words in the form that needs no transducer, which all releases read; each is numbered by its place."""
    columns = [pa.field(WORD, pa.string(), nullable=False), pa.field(NUMBER, pa.uint32(), nullable=False)]
    numbers = pa.array(np.arange(len(words), dtype=np.uint32))
    return pa.table([pa.array(words, pa.string()), numbers], schema=pa.schema(columns))


def transducer_table(words: Sequence[str]) -> pa.Table:
    """Return words in the form of newer releases, each numbered by its place.

    Args:
        words: In the order of their bytes, each once.
    """
    data = write_fst(words)
    columns = [
        pa.field(_FST, pa.large_binary(), nullable=False),
        pa.field(_NEXT, pa.uint32(), nullable=False),
        pa.field(_LENGTH, pa.uint64(), nullable=False),
    ]
    length = sum(len(word.encode()) for word in words)
    return pa.table([[data], [len(words)], [length]], schema=pa.schema(columns))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
