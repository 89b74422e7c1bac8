import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.fsst import (
    SymbolTable,
    decode_fsst,
    decode_fsst_chunks,
    decode_fsst_slices,
    encode_fsst,
    train_symbols,
)
from lance_ops.encoding.values.values import Variable
from lance_ops.encoding.values.variable import encode_variable_chunks
from lance_ops.errors import CorruptFileError
from tests.support.oracles import oracles_in_place

MAGIC = 0x46535354 << 32
COMPRESSED = 1 << 24

# What each of several ways of decoding makes of the same strings.
WAYS = ("values", "chunks", "wide chunks", "slices")


def table_of(*symbols: bytes, flags: int = COMPRESSED, magic: int = MAGIC) -> bytes:
    body = b"".join(symbol.ljust(8, b"\0") for symbol in symbols)
    return struct.pack("<Q", magic | flags | len(symbols)) + body + bytes(len(symbol) for symbol in symbols)


def offsets_of(strings: list[bytes], first: int = 0) -> np.ndarray[Any, Any]:
    return np.concatenate([[0], np.cumsum([len(text) for text in strings])]).astype(np.int64) + first


def cut(values: Variable) -> list[bytes]:
    plain = values.data.to_pybytes()
    assert not values.is_ascii or plain.isascii()
    return [plain[start:stop] for start, stop in pairwise((values.offsets - values.offsets[0]).tolist())]


def decode(table: bytes, strings: list[bytes], way: str = "values") -> list[bytes]:
    offsets = offsets_of(strings, 5)
    data = b"".join(strings)
    if way == "values":
        return cut(decode_fsst(table, offsets, pa.py_buffer(data)))
    if way == "slices":
        # Whatever lies between the strings does not count.
        apart = np.frombuffer(b"\xff\x00" + b"\xff\x01".join([*strings, b""]), dtype=np.uint8)
        sizes = np.diff(offsets)
        starts = offsets[:-1] - 3 + 2 * np.arange(len(strings))
        found = decode_fsst_slices(table, apart, starts, sizes)
        return cut(found)
    width = 8 if way.startswith("wide") else 4
    if not strings:
        nothing = np.empty(0, dtype=np.int64)
        empty = ChunkBuffer(np.empty(0, dtype=np.uint8), nothing, nothing)
        found = decode_fsst_chunks([table], nothing, empty, nothing, width)
    else:
        values = Variable(offsets, pa.py_buffer(data))
        counts, chunks = encode_variable_chunks(values, width, chunk_bytes=64)
        found = decode_fsst_chunks([table], np.zeros_like(counts), chunks, counts, width)
    return cut(found)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.lists(st.binary(min_size=1, max_size=8), max_size=20),
            st.lists(st.lists(st.integers(0, 30), max_size=40), min_size=1, max_size=5),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([4, 8]),
)
def test_chunks_of_several_tables_are_those_of_each(
    pages: list[tuple[list[bytes], list[list[int]], bool]], width: int
) -> None:
    tables, parts, counts, expected = [], [], [], []
    for symbols, codes, compressed in pages:
        table = table_of(*symbols) if compressed else table_of(*symbols, flags=0)
        strings = [bytes(code for code in one if code < len(symbols)) for one in codes]
        tables.append(table)
        counts.append(len(strings))
        expected += decode(table, strings)
        ends = np.cumsum([(len(strings) + 1) * width, *map(len, strings)])
        parts.append(ends.astype(f"<u{width}").tobytes() + b"".join(strings))
    sizes = np.array([len(part) for part in parts])
    chunks = ChunkBuffer(np.frombuffer(b"".join(parts), np.uint8), np.cumsum(sizes) - sizes, sizes)
    numbers = np.arange(len(pages))
    assert cut(decode_fsst_chunks(tables, numbers, chunks, np.array(counts), width)) == expected


@pytest.mark.parametrize("way", WAYS)
def test_symbols_and_escapes(way: str) -> None:
    table = table_of(b"http://", b"a", b"12345678")
    strings = [b"\x00\x01", b"", b"\xffx\x02", b"\xff\xff\xff\xff\x01", b"\xff\x00\x00", b""]
    plain = [b"http://a", b"", b"x12345678", b"\xff\xffa", b"\0http://", b""]
    assert decode(table, strings, way) == plain


@pytest.mark.parametrize("way", WAYS)
def test_long_runs_of_escapes(way: str) -> None:
    assert decode(table_of(b"ab"), [b"\xff" * 200, b"\x00" + b"\xff" * 2], way) == [b"\xff" * 100, b"ab\xff"]


@pytest.mark.parametrize("way", WAYS)
def test_a_table_without_the_flag_means_plain_bytes(way: str) -> None:
    assert decode(table_of(flags=0), [b"plain", b"\xff"], way) == [b"plain", b"\xff"]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_to_decode(way: str) -> None:
    assert decode(table_of(b"a"), [], way) == []
    assert decode(table_of(b"a"), [b""], way) == [b""]


def test_ascii_is_known_without_looking_at_all_bytes() -> None:
    codes = pa.py_buffer(b"\x00\xffz")
    assert decode_fsst(table_of(b"ab"), np.array([0, 3]), codes).is_ascii
    assert not decode_fsst(table_of(b"ab", b"\xc3"), np.array([0, 3]), codes).is_ascii
    assert not decode_fsst(table_of(b"ab"), np.array([0, 3]), pa.py_buffer(b"\x00\xff\xc3")).is_ascii


def test_strings_that_cross_the_blocks_of_a_decoder() -> None:
    table = table_of(b"abc", b"de")
    # An escape at every place around the end of a block.
    strings = [b"\x00" * (4090 + shift) + b"\xffx" * 9 + b"\x01" for shift in range(10)]
    expected = [b"abc" * (4090 + shift) + b"x" * 9 + b"de" for shift in range(10)]
    for way in WAYS:
        assert decode(table, strings, way) == expected


def test_strings_that_are_longer_than_a_sample_of_them_says() -> None:
    table = table_of(b"a", b"12345678")
    # Short symbols where samples are taken.
    codes = np.ones(128_000, dtype=np.uint8)
    codes[::1000] = 0
    found = decode(table, [codes.tobytes(), b"\x00"])
    assert found == [(b"a" + b"12345678" * 999) * 128, b"a"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [0, 1, 126, 127, 128, 129, 254, 255])
def test_tables_of_any_number_of_symbols(count: int, way: str) -> None:
    symbols = [bytes([code, 255 - code]) for code in range(count)]
    table = table_of(*symbols)
    known = bytes(range(count)) * 3
    escaped = b"".join(bytes([255, code]) for code in range(256))
    expected = [b"".join(symbols) * 3, bytes(range(256)), b"".join(symbols) * 3]
    assert decode(table, [known, escaped, known], way) == expected
    for code in range(count, 255):
        with pytest.raises(CorruptFileError):
            decode(table, [known + bytes([code]) + known], way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("table", "strings"),
    [
        (b"", [b"x"]),
        (table_of(b"a", magic=0), [b"\0"]),
        (table_of(b"a")[:-1], [b"\0"]),
        (table_of(b"a" * 9), [b"\0"]),
        (table_of(b""), [b"\0"]),
        (table_of(b"a"), [b"\x00\xff"]),
        (table_of(b"a"), [b"\x00\xff", b"\x00"]),
        (table_of(b"a"), [b"\x00" * 4095 + b"\xff", b"\x00"]),
        (table_of(b"a"), [b"\x07"]),
        (table_of(b"a"), [b"\x00" * 20 + b"\x07"]),
    ],
)
def test_damage_is_corrupt(table: bytes, strings: list[bytes], way: str) -> None:
    with pytest.raises(CorruptFileError):
        decode(table, strings, way)


def test_missing_bytes_are_corrupt() -> None:
    with pytest.raises(CorruptFileError, match="too early"):
        decode_fsst(table_of(b"a"), np.array([0, 3]), pa.py_buffer(b"\0\0"))
    codes = np.zeros(4, dtype=np.uint8)
    for start, size in [(3, 2), (-1, 1), (1, -1)]:
        with pytest.raises(CorruptFileError, match="within its page"):
            decode_fsst_slices(table_of(b"a"), codes, np.array([start]), np.array([size]))


@settings(max_examples=150)
@given(data=st.binary(max_size=200), symbols=st.lists(st.binary(min_size=1, max_size=8), max_size=255))
def test_any_codes_end_in_bytes_or_an_error(data: bytes, symbols: list[bytes]) -> None:
    # Chunks of any bytes, which are offsets as well.
    chunks = ChunkBuffer(
        np.frombuffer(data, dtype=np.uint8), np.array([0], np.int64), np.array([len(data)], np.int64)
    )
    for count in (0, 1, 3, 7):
        try:
            found = decode_fsst_chunks(
                [table_of(*symbols)], np.zeros(1, np.int64), chunks, np.array([count]), 4
            )
        except CorruptFileError:
            continue
        assert found.data.size <= 8 * len(data)
        assert len(found.offsets) == count + 1
        assert bool((np.diff(found.offsets) >= 0).all())


@settings(max_examples=100)
@given(
    strings=st.lists(st.binary(max_size=30), max_size=20), symbols=st.lists(st.binary(min_size=1, max_size=8))
)
def test_all_ways_of_decoding_agree(strings: list[bytes], symbols: list[bytes]) -> None:
    def outcome(way: str) -> list[bytes] | str:
        try:
            return decode(table_of(*symbols[:255]), strings, way)
        except CorruptFileError:
            return "corrupt"

    found = [outcome(way) for way in WAYS]
    with oracles_in_place():
        found += [outcome(way) for way in WAYS]
    assert all(one == found[0] for one in found)


def texts(count: int) -> list[bytes]:
    rng = np.random.default_rng(5)
    words = [b"the", b"quick", b"brown", b"fox", "füchse".encode(), b"\0\0\0", b"jumps over"]
    return [
        b" ".join(words[word] for word in rng.integers(0, len(words), 9)) + b"%d" % n for n in range(count)
    ]


CORPORA = {
    "texts": texts(3000),
    "prefixes": [b"user-%08d" % (n * 7919 % 10**8) for n in range(3000)],
    "many_bytes": [bytes(byte % 170 for byte in np.random.default_rng(n).bytes(40)) for n in range(500)],
    "one_long": [b"abcdefgh" * 9000],
    "empties": [b"", b"", b"something", b""] * 500,
    "zeros": [bytes(n % 50) for n in range(1000)],
    "short": [b"ab", b"c"],
    "one_byte": [b"x"],
}


@pytest.mark.parametrize("name", CORPORA)
def test_what_is_encoded_is_decoded(name: str) -> None:
    strings = CORPORA[name]
    offsets, data = offsets_of(strings, 9), pa.py_buffer(b"".join(strings))
    trained = train_symbols(offsets, data)
    assert trained is not None
    table, share = trained
    ends, codes = encode_fsst(table, offsets, data)
    assert codes.size <= 2 * data.size
    assert codes.size == pytest.approx(share * data.size, rel=0.15, abs=30)
    assert cut(decode_fsst(table.to_bytes(), ends, codes)) == strings
    with oracles_in_place():
        assert cut(decode_fsst(table.to_bytes(), ends, codes)) == strings


def test_repeated_words_become_symbols() -> None:
    strings = CORPORA["texts"]
    trained = train_symbols(offsets_of(strings), pa.py_buffer(b"".join(strings)))
    assert trained is not None
    assert trained[1] < 0.35
    assert not train_symbols(np.zeros(4, np.int64), pa.py_buffer(b""))


def test_nothing_is_looked_for_in_random_bytes() -> None:
    strings = [np.random.default_rng(n).bytes(40) for n in range(500)]
    assert train_symbols(offsets_of(strings), pa.py_buffer(b"".join(strings))) is None


def test_the_same_strings_get_the_same_table() -> None:
    strings = CORPORA["prefixes"] * 3
    offsets, data = offsets_of(strings), pa.py_buffer(b"".join(strings))
    first, second = train_symbols(offsets, data), train_symbols(offsets.astype(np.int32), data)
    assert (first and first[0].to_bytes()) == (second and second[0].to_bytes())


def test_a_table_is_as_long_as_readers_expect_and_comes_back() -> None:
    strings = CORPORA["texts"]
    trained = train_symbols(offsets_of(strings), pa.py_buffer(b"".join(strings)))
    assert trained is not None
    written = trained[0].to_bytes()
    assert len(written) == 2312
    again = SymbolTable.from_bytes(written)
    assert again is not None
    assert again.to_bytes() == written
    # Single bytes come last, the pairs with which other symbols begin first.
    lengths = again.lengths.tolist()
    ranks = [9 if length == 1 else length for length in lengths]
    assert ranks == sorted(ranks)
    pairs = [int(word) & 0xFFFF for word, length in zip(again.words, lengths, strict=True) if length > 2]
    limit = again.suffix_limit
    assert all(int(word) in pairs for word in again.words[:limit])
    assert not any(
        int(word) in pairs
        for word, length in zip(again.words[limit:], lengths[limit:], strict=True)
        if length == 2
    )
    terminator = again.terminator
    longer = again.words[again.lengths > 1].astype("<u8").view(np.uint8).reshape(-1, 8)
    used = np.arange(8) < again.lengths[again.lengths > 1][:, np.newaxis]
    assert terminator not in longer[used]


@settings(max_examples=60)
@given(strings=st.lists(st.binary(max_size=40), min_size=1, max_size=40))
def test_strings_of_a_foreign_table_are_encoded(strings: list[bytes]) -> None:
    # Symbols that begin alike, that other symbols hide, and that hold zeros.
    symbols = [b"\0", b"\0\0", b"\0\0\0", b"\0\0\0\0\0\0\0\0", b"\1\0\0", b"\1\0\0\0", b"\1\0\0\1", b"\1\1\1"]
    table = SymbolTable.from_bytes(table_of(*symbols))
    assert table is not None
    patterns = [bytes(byte & 1 for byte in text) for text in strings]
    offsets, data = offsets_of(patterns), pa.py_buffer(b"".join(patterns))
    ends, codes = encode_fsst(table, offsets, data)
    assert cut(decode_fsst(table.to_bytes(), ends, codes)) == patterns


@settings(max_examples=60)
@given(
    strings=st.lists(st.binary(max_size=200), max_size=60),
    threads=st.integers(2, 9),
    share=st.sampled_from([1, 7, 100]),
)
def test_any_number_of_threads_encodes_alike(strings: list[bytes], threads: int, share: int) -> None:
    patterns = [bytes(97 + (byte & 3) for byte in text) for text in strings]
    offsets, data = offsets_of(patterns), pa.py_buffer(b"".join(patterns))
    table = SymbolTable.from_bytes(table_of(b"ab", b"abc", b"aaaaaaaa", b"dc", b"a", b"b"))
    assert table is not None
    alone_ends, alone_codes = encode_fsst(table, offsets, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lance_ops.encoding.parallel.available_threads", lambda: threads)
        patch.setattr("lance_ops.encoding.fsst.encode._SHARE_BYTES", share)
        ends, codes = encode_fsst(table, offsets, data)
    assert ends.tolist() == alone_ends.tolist()
    assert codes.to_pybytes() == alone_codes.to_pybytes()
    assert cut(decode_fsst(table.to_bytes(), ends, codes)) == patterns


@settings(max_examples=60)
@given(
    strings=st.lists(st.binary(max_size=60), max_size=200),
    threads=st.integers(2, 5),
    share=st.sampled_from([1, 7, 300]),
    width=st.sampled_from([4, 8]),
    repeats=st.sampled_from([1, 2000]),
)
def test_any_number_of_threads_decodes_alike(
    strings: list[bytes], threads: int, share: int, width: int, repeats: int
) -> None:
    # Escapes, codes of symbols, and codes that stand for nothing, now and then.
    coded = [
        bytes(code for byte in text for code in ((byte,) if byte < 3 else (255, byte))) for text in strings
    ]
    coded = coded * (repeats if sum(map(len, coded)) < 200 else 1)
    table = table_of(b"a", b"bcdefghi", b"")
    values = Variable(offsets_of(coded), pa.py_buffer(b"".join(coded)))
    counts, chunks = encode_variable_chunks(values, width, chunk_bytes=512)
    arguments = ([table], np.zeros_like(counts), chunks, counts, width)
    try:
        alone = decode_fsst_chunks(*arguments)
    except CorruptFileError as error:
        alone = error
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lance_ops.encoding.parallel.available_threads", lambda: threads)
        patch.setattr("lance_ops.encoding.fsst.decode._SHARE_BYTES", share)
        if isinstance(alone, CorruptFileError):
            with pytest.raises(CorruptFileError, match=str(alone).split("(")[0]):
                decode_fsst_chunks(*arguments)
            return
        shared = decode_fsst_chunks(*arguments)
    assert cut(shared) == cut(alone)
    assert shared.is_ascii == alone.is_ascii
