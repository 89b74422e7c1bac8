"""Uncovered strings: tokenized at query time, and scored together with those of an index."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.index.inverted.bm25 import Statistics
from lance_ops.index.inverted.packing import Ints
from lance_ops.index.inverted.postings import Postings
from lance_ops.index.inverted.tokenizers.analyzer import Analyzer, Words
from lance_ops.table.manifest.row_set import Addresses


@dataclass(frozen=True, slots=True)
class FreshTexts:
    """Strings in words, those without any left out.

    Attributes:
        rows: Address of each.
        sizes: Words of each.
        batches: Their words; strings are numbered through all batches.
        numbers: For each batch the number of each word of its vocabulary.
    """

    rows: Addresses
    sizes: npt.NDArray[np.uint32]
    batches: tuple[Words, ...]
    numbers: tuple[dict[str, int], ...]

    @classmethod
    def of(cls, tables: Iterable[pa.Table], analyzer: Analyzer) -> "FreshTexts":
        """Cut the `values` of some tables (`values`, `ids`) into words."""
        rows: list[Addresses] = []
        sizes: list[npt.NDArray[np.uint32]] = []
        batches: list[Words] = []
        count = 0
        for table in tables:
            ids = np.asarray(table["ids"].to_numpy(), np.uint64)
            first = 0
            for chunk in table["values"].chunks:
                words = analyzer.words(chunk)
                own = np.bincount(words.texts, minlength=len(chunk)).astype(np.uint32)
                held = np.flatnonzero(own)
                number_of = np.cumsum(own > 0) - 1 + count
                batches.append(
                    Words(number_of[words.texts], words.positions, words.numbers, words.vocabulary)
                )
                rows.append(ids[first + held])
                sizes.append(own[held])
                count += len(held)
                first += len(chunk)
        return cls(
            np.concatenate(rows) if rows else np.zeros(0, np.uint64),
            np.concatenate(sizes) if sizes else np.zeros(0, np.uint32),
            tuple(batches),
            tuple({word: number for number, word in enumerate(batch.vocabulary)} for batch in batches),
        )

    def statistics(self, words: Iterable[str]) -> Statistics:
        """Return the corpus statistics of these strings."""
        holding = {word: len(self.postings(word)) for word in words}
        return Statistics(len(self.rows), int(self.sizes.sum(dtype=np.int64)), holding)

    def postings(self, word: str) -> Postings:
        """Strings that hold a word, and how often."""
        texts, _ = self.occurrences(word)
        documents, counts = np.unique(texts, return_counts=True)
        return Postings(documents, counts.astype(np.uint32))

    def occurrences(self, word: str) -> tuple[Ints, Ints]:
        """Strings and positions in them where a word is, in this order."""
        texts: list[Ints] = []
        positions: list[Ints] = []
        for batch, numbers in zip(self.batches, self.numbers, strict=True):
            number = numbers.get(word)
            if number is not None:
                here = np.flatnonzero(batch.numbers == number)
                texts.append(batch.texts[here])
                positions.append(batch.positions[here])
        if not texts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(texts), np.concatenate(positions)
