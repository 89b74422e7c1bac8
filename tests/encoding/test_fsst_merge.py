"""Strings of several tables of symbols get one, and are the same strings."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.fsst import SymbolTable, decode_fsst_chunks, encode_fsst
from lance_ops.encoding.fsst.merge import CompressedStrings, merge_symbols, recode_strings
from lance_ops.encoding.values.values import Variable
from lance_ops.encoding.values.variable import encode_variable_chunks
from lance_ops.errors import CorruptFileError

SYMBOLS = st.lists(st.binary(min_size=1, max_size=8), min_size=0, max_size=255, unique=True)
# Few letters, so that symbols of different tables overlap, and all bytes, so that some have to be escaped.
TEXTS = st.one_of(st.text("abc", max_size=40).map(str.encode), st.binary(max_size=20))


def table_of(symbols: list[bytes]) -> SymbolTable:
    words = [int.from_bytes(symbol, "little") for symbol in symbols]
    return SymbolTable(np.array(words, np.uint64), np.array([len(symbol) for symbol in symbols], np.int64))


def compressed(
    pages: list[tuple[list[bytes], list[bytes]]], width: int, chunk_bytes: int
) -> CompressedStrings:
    parts, counts, owners, tables = [], [], [], []
    for number, (symbols, strings) in enumerate(pages):
        table = table_of(symbols)
        offsets = np.concatenate([[0], np.cumsum([len(text) for text in strings])]).astype(np.int64)
        own = Variable(*encode_fsst(table, offsets, pa.py_buffer(b"".join(strings))))
        found, buffer = encode_variable_chunks(own, width, chunk_bytes=chunk_bytes)
        parts += buffer.parts()
        counts.append(found)
        owners.append(np.full(len(found), number))
        tables.append(table)
    chunks = ChunkBuffer.from_parts(parts)
    return CompressedStrings.of_chunks(chunks, np.concatenate(counts), tables, np.concatenate(owners), width)


def decoded(table: SymbolTable, chunks: ChunkBuffer, counts: np.ndarray, width: int) -> list[bytes]:
    owners = np.zeros(len(counts), np.int64)
    values = decode_fsst_chunks([table.to_bytes()], owners, chunks, counts, width)
    plain = values.data.to_pybytes()
    return [plain[start:stop] for start, stop in pairwise((values.offsets - values.offsets[0]).tolist())]


@settings(deadline=None, max_examples=150)
@given(
    pages=st.lists(st.tuples(SYMBOLS, st.lists(TEXTS, min_size=1, max_size=40)), min_size=1, max_size=4),
    width=st.sampled_from([4, 8]),
    sizes=st.tuples(st.sampled_from([40, 200, 8192]), st.sampled_from([40, 200, 8192])),
    seed=st.integers(0, 99),
    share=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_strings_are_the_same_after_they_got_one_table(pages, width, sizes, seed, share) -> None:
    strings = compressed(pages, width, sizes[0])
    texts = [text for _, own in pages for text in own]
    gone = np.random.default_rng(seed).random(len(texts)) < share
    gone[0] = False
    edges = np.flatnonzero(np.diff(gone, prepend=False, append=False))
    merged = merge_symbols(strings)
    assert merged is not None
    recoded = recode_strings(strings, merged, (edges[0::2], edges[1::2]), chunk_bytes=sizes[1])
    if recoded is None:
        assert merged.growth > 1 or len(texts) < 100
        return
    counts, chunks = recoded
    assert decoded(merged.table, chunks, counts, width) == [
        text for text, goes in zip(texts, gone, strict=True) if not goes
    ]
    assert all(count >= 2 and count & (count - 1) == 0 for count in counts[:-1].tolist())
    assert all(
        size <= max(sizes[1], 0) or count <= 2
        for size, count in zip((chunks.sizes - width + 1).tolist(), counts.tolist(), strict=True)
    )


def test_symbols_that_occur_most_get_the_codes() -> None:
    often = [bytes([letter]) * 4 for letter in range(97, 117)]
    pages = [
        ([*often, *(bytes([number, page + 1, 7]) for number in range(200))], [b"".join(often)] * 50)
        for page in range(4)
    ]
    strings = compressed(pages, 4, 8192)
    merged = merge_symbols(strings)
    assert merged is not None
    assert merged.growth == 1.0
    assert len(merged.table) == 255
    assert {int(word).to_bytes(8, "little").rstrip(b"\0") for word in merged.table.words} >= set(often)


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(0, 2**20))
def test_damage_is_found_or_gives_other_strings_of_the_same_number(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = [bytes(rng.integers(97, 100, rng.integers(0, 30)).tolist()) for _ in range(60)]
    strings = compressed([([b"a", b"ab", b"abc"], texts[:30]), ([b"ab", b"c"], texts[30:])], 4, 200)
    merged = merge_symbols(strings)
    (data,) = (part.copy() for part in strings.data)
    for place in rng.integers(0, len(data), 3):
        data[place] = rng.integers(0, 256)
    moved = (strings.addresses - np.uint64(strings.data[0].ctypes.data)).astype(np.int64)
    broken = CompressedStrings.of_chunks(
        ChunkBuffer(data, moved, strings.sizes),
        strings.counts,
        strings.tables,
        strings.owners,
        4,
    )
    try:
        assert merge_symbols(broken) is not None
        recoded = recode_strings(broken, merged, None, chunk_bytes=200)
    except CorruptFileError:
        return
    assert recoded is None or int(recoded[0].sum()) == 60


def test_symbols_that_the_new_table_lacks_are_spelled_by_up_to_sixteen_codes() -> None:
    common = [bytes([first, second]) for first in range(1, 16) for second in range(1, 18)]
    rare = bytes(range(200, 208))
    texts = [b"".join(common[start::7]) for start in range(7)] * 20
    pages = [(common, texts), ([*common[1:], rare], [*texts, rare, rare + common[5] + b"\xff" + rare])]
    strings = compressed(pages, 4, 8192)
    merged = merge_symbols(strings)
    assert merged is not None
    assert int(merged.sizes.max()) == 16
    recoded = recode_strings(strings, merged, None, chunk_bytes=8192)
    assert recoded is not None
    assert decoded(merged.table, recoded[1], recoded[0], 4) == [text for _, own in pages for text in own]


@pytest.mark.parametrize("width", [4, 8])
def test_a_string_that_begins_within_an_escape_is_damaged_and_one_behind_an_escaped_escape_is_not(
    width: int,
) -> None:
    texts = [b"\xff" * number for number in range(1, 12)]
    strings = compressed([([b"a"], texts)], width, 8192)
    merged = merge_symbols(strings)
    assert merged is not None
    recoded = recode_strings(strings, merged, None, chunk_bytes=8192)
    assert recoded is not None
    assert decoded(merged.table, recoded[1], recoded[0], width) == texts
    (data,) = strings.data
    start = int(strings.addresses[0]) - data.ctypes.data
    for number in range(1, len(texts)):
        # The lowest byte of where a string ends.
        data[start + number * width] += 1
        with pytest.raises(CorruptFileError, match="escape"):
            recode_strings(strings, merged, None, chunk_bytes=8192)
        data[start + number * width] -= 1


def test_strings_that_several_threads_recode_at_once_do_not_mix() -> None:
    def recode(seed: int) -> None:
        rng = np.random.default_rng(seed)
        pages = [
            ([b"a", b"ab", b"abc", b"b"][turn % 3 :], [bytes(rng.integers(97, 100, 30).tolist())] * 50)
            for turn in range(6)
        ]
        texts = [text for _, own in pages for text in own]
        strings = compressed(pages, 4, 512)
        merged = merge_symbols(strings)
        assert merged is not None
        for _ in range(30):
            recoded = recode_strings(strings, merged, None, chunk_bytes=1024)
            assert recoded is not None
            assert decoded(merged.table, recoded[1], recoded[0], 4) == texts

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(recode, range(24)))


def test_strings_of_megabytes_are_recoded() -> None:
    texts = [b"abcabca" * (number << 16) for number in range(1, 8)]
    strings = compressed([([b"a", b"abc"], texts[:4]), ([b"ab", b"c"], texts[4:])], 4, 8192)
    merged = merge_symbols(strings)
    assert merged is not None
    recoded = recode_strings(strings, merged, None, chunk_bytes=8192)
    assert recoded is not None
    assert decoded(merged.table, recoded[1], recoded[0], 4) == texts


def test_chunks_without_room_for_their_offsets_are_damaged() -> None:
    chunks = ChunkBuffer.from_parts([np.zeros(8, np.uint8)])
    with pytest.raises(CorruptFileError):
        CompressedStrings.of_chunks(chunks, np.array([2]), [table_of([b"a"])], np.zeros(1, np.int64), 4)
