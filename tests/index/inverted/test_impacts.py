"""Posting lists with impacts are stored byte by byte as pylance stores them."""

import random
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.index.inverted.impacts import encode_impacts, size_codes
from lance_ops.index.inverted.partition import open_partitions

pytestmark = pytest.mark.peer

WORDS = [f"w{number}" for number in range(30)]


def texts(seed: int) -> list[str]:
    """Texts of very different lengths, with words that few and that nearly all hold; one is huge."""
    chance = random.Random(seed)
    weights = [1 / (number + 1) ** 2 for number in range(len(WORDS))]
    sizes = [chance.choice([1, 2, 3, 9, 17, 50, 300]) for _ in range(700)]
    found = [" ".join(chance.choices(WORDS, weights, k=size)) for size in sizes]
    return [*found, "huge " * 300_000]


def stored(uri: str) -> dict[str, dict[str, Any]]:
    """What the posting lists hold, by word and column."""
    dataset = lo.dataset(uri)
    _, (partition,) = open_partitions(*dataset.bases.index_directory(dataset.indices[0]))
    words, numbers = partition.tokens.words()
    rows = partition.invert.read_table().to_pylist()
    return {word: rows[number] for word, number in zip(words.to_pylist(), numbers.tolist(), strict=True)}


@pytest.mark.parametrize(
    "parameters",
    [{"block_size": 256, "with_position": True}, {"format_version": 3}],
    ids=str,
)
def test_posting_lists_are_those_of_pylance(tmp_path: Path, parameters: dict[str, Any]) -> None:
    table = pa.table({"t": texts(4)})
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for uri in (ours, theirs):
        lance.write_dataset(table, uri)
    lo.create_index(ours, "t", "INVERTED", parameters=parameters)
    lance.dataset(theirs).create_scalar_index("t", "INVERTED", **parameters)
    one, other = stored(ours), stored(theirs)
    assert one.keys() == other.keys()
    # The last bits of scores, which blocks of 128 begin with, depend on the order of additions.
    head = 0 if "block_size" in parameters else 4
    for word, row in one.items():
        expected = other[word]
        assert row.keys() == expected.keys()
        for found in (row, expected):
            found["_posting"] = [block[head:] for block in found["_posting"]]
        # A bound for sizes as they are scored is a little above that for sizes as they are.
        assert row.pop("_max_score") == pytest.approx(expected.pop("_max_score"), rel=0.1)
        assert row == expected, word
    versions = [lo.dataset(uri).indices[0].index_version for uri in (ours, theirs)]
    assert versions == [3, 3]
    assert lo.dataset(ours).indices[0].details == lo.dataset(theirs).indices[0].details


def test_entries_bound_every_document() -> None:
    chance = np.random.default_rng(5)
    lengths = np.array([1, 128, 300, 5_000])
    documents = np.concatenate([np.sort(chance.choice(9_000, n, replace=False)) for n in lengths])
    counts = chance.integers(1, 400, len(documents)).astype(np.uint32)
    codes = size_codes(chance.integers(1, 2**20, len(documents)).astype(np.uint32))
    lists = encode_impacts(documents.astype(np.uint32), counts, codes, lengths, 128)
    first = 0
    for length, entries in zip(lengths.tolist(), lists.to_pylist(), strict=True):
        blocks = -(-length // 128)
        assert len(entries) == blocks + -(-blocks // 32)
        spans = [(n * 128, 128) for n in range(blocks)]
        spans += [(n * 4096, 4096) for n in range(len(entries) - blocks)]
        for entry, (start, size) in zip(entries, spans, strict=True):
            part = slice(first + start, first + min(start + size, length))
            last, pairs = read_entry(entry)
            assert last == documents[part][-1]
            assert pairs == sorted(set(pairs))
            held = set(zip(counts[part].tolist(), codes[part].tolist(), strict=True))
            assert set(pairs) == {
                (count, code)
                for count, code in held
                if not any(c >= count and s <= code and (c, s) != (count, code) for c, s in held)
            }
        first += length


def read_entry(data: bytes) -> tuple[int, list[tuple[int, int]]]:
    """The last document, and the pairs."""
    at = 0

    def number() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    last, held = number(), number()
    pairs, count, code = [], 0, 0
    for _ in range(held):
        step = number()
        count += (step >> 1) + 1
        code += data[at] if step & 1 else 1
        at += step & 1
        pairs.append((count, code))
    assert at == len(data)
    return last, pairs
