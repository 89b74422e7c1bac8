from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from lance_ops.encoding.values.array_values import from_arrow
from lance_ops.encoding.values.numbering import number_distinct
from lance_ops.encoding.values.values import Fixed, Variable, to_arrow
from lance_ops.file.v2_1.compression import dictionaries
from lance_ops.file.v2_1.compression.decode import decode_block
from lance_ops.file.v2_1.compression.dictionaries import dictionary_of_arrow, find_dictionary
from lance_ops.file.v2_1.compression.encoded import Block
from lance_ops.file.v2_1.compression.fixed import compress_fixed
from lance_ops.file.v2_1.options import FieldOptions
from tests.support.mini_block_file import write_mini_block_file

VERSIONS = ("2.1", "2.2")
PLAIN = FieldOptions()


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def pick(distinct: list[object], count: int, data_type: pa.DataType | None = None) -> pa.Array:
    return pa.array([distinct[n] for n in rng().integers(0, len(distinct), count)], data_type)


WORDS = [f"word-{n:04d}" for n in range(300)]
COLUMNS = {
    "strings": (lambda: pick(WORDS, 5000), VERSIONS),
    "large_strings": (lambda: pick(WORDS, 5000, pa.large_string()), VERSIONS),
    "binaries": (lambda: pick([b"", b"\xff\0", b"x" * 40], 500), VERSIONS),
    "empty_strings": (lambda: pick(["", "ab"], 200), VERSIONS),
    "long_strings": (lambda: pick([f"x{n:03d}" * 500 for n in range(20)], 1000), VERSIONS),
    "decimals": (lambda: pick(list(range(-50, 50)), 3000).cast(pa.decimal128(38, 2)), VERSIONS),
    "fixed_binaries": (lambda: pick([bytes([n]) * 16 for n in range(9)], 1000, pa.binary(16)), VERSIONS),
    "integers": (lambda: pick(list(range(-50, 50)), 3000), ("2.2",)),
    "doubles": (lambda: pick([0.1, -2.5, float("inf")], 3000), ("2.2",)),
    "timestamps": (lambda: pick([-(2**60), 5, 2**61], 3000, pa.timestamp("us", "UTC")), ("2.2",)),
}
CASES = [(name, version) for name, (_, versions) in COLUMNS.items() for version in versions]


def decode(positions: Fixed, items: Block, data_type: pa.DataType) -> pa.Array:
    values = to_arrow(decode_block(items.encoding, items.data, items.count), data_type)
    return values.take(pa.array(positions.data))


def find(array: pa.Array, version: str = "2.2", options: FieldOptions = PLAIN) -> tuple[Fixed, Block] | None:
    return find_dictionary(from_arrow(array), array.type, options, version)


@pytest.mark.parametrize("scheme", [None, "zstd", "lz4", "none"])
@pytest.mark.parametrize(("name", "version"), CASES)
def test_values_come_back(name: str, version: str, scheme: str | None) -> None:
    array = COLUMNS[name][0]()
    found = find(array, version, FieldOptions(dict_values_compression=scheme))
    assert found is not None
    positions, items = found
    assert (positions.bits, positions.data.dtype) == (32, np.uint32)
    assert items.count == len(array.unique())
    assert decode(positions, items, array.type).equals(array)
    if version == "2.1" or scheme == "none":
        assert items.encoding.WhichOneof("compression") != "general"


@pytest.mark.peer
@pytest.mark.parametrize(("name", "version"), CASES)
def test_the_peer_looks_values_up(name: str, version: str, tmp_path: Path) -> None:
    array = COLUMNS[name][0]()
    found = find(array, version)
    assert found is not None
    positions = compress_fixed(found[0], PLAIN, version)
    write_mini_block_file(tmp_path / "a.lance", array.type, positions, version, dictionary=found[1])
    reader = LanceFileReader(str(tmp_path / "a.lance"))
    assert reader.read_all().to_table()["x"].combine_chunks().equals(array)
    rows = [0, 7, len(array) - 1]
    assert reader.take_rows(rows).to_table()["x"].combine_chunks().equals(array.take(pa.array(rows)))


@pytest.mark.parametrize(
    "array",
    [
        pick(WORDS, 99),
        pa.array([f"row {n}" for n in range(5000)]),
        pa.array(np.arange(5000) % 2000),
        pa.array(np.arange(3000)),
        pa.array(rng().integers(0, 9, 3000, dtype=np.int32)),
        pa.array(rng().integers(0, 9, 3000).astype(np.float32)),
        pa.array([bytes([n % 7]) * 3 for n in range(900)], pa.binary(3)),
        pa.array([[1.0, 2.0]] * 900, pa.list_(pa.float64(), 2)),
    ],
    ids=str,
)
def test_no_dictionary_where_it_does_not_pay(array: pa.Array) -> None:
    assert find(array) is None


def test_numbers_of_64_bits_have_none_in_2_1() -> None:
    assert find(COLUMNS["integers"][0](), "2.1") is None


def test_options_are_followed() -> None:
    words = COLUMNS["strings"][0]()
    assert find(words, options=FieldOptions(dict_divisor=10)) is not None
    assert find(words, options=FieldOptions(dict_divisor=100)) is None
    assert find(words, options=FieldOptions(dict_size_ratio=0.01)) is None


def test_a_dictionary_that_would_be_too_large_to_read_for_one_row_is_not_made() -> None:
    names = [f"{n:040d}" for n in range(40_000)]
    assert find(pick(names, 200_000)) is None
    assert find(pick(names[:20_000], 200_000)) is not None


def test_rare_values_are_expected_from_a_sample() -> None:
    # Half of the rows are one value, all others occur once.
    array = pa.array(["same" if n % 2 else f"different {n}" for n in range(200_000)])
    assert find(array) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "index_type", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64()], ids=str
)
@pytest.mark.parametrize(
    "items",
    [
        pa.array(["a", "bcd", "", "a"]),
        pa.array(["a", "bcd", "", "a"], pa.large_string()),
        pa.array([b"\xff", b"", b"x", b"yy"]),
        pa.array([5, -1, 2**40, 0]),
        pa.array([0.5, 1.5, -2.0, 0.0]),
        pa.array([True, False, False, True]),
        pa.array([1, 2, 3, 4], pa.int8()),
    ],
    ids=lambda items: str(items.type),
)
def test_arrow_dictionaries_keep_their_entries(
    items: pa.Array, index_type: pa.DataType, version: str
) -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([3, 0, 1, 1, 2] * 3, index_type), items)
    for part in (array, array.slice(4, 6)):
        positions, block = dictionary_of_arrow(part, PLAIN, version)
        assert positions.bits == index_type.bit_width
        assert block.count == 4
        assert decode(positions, block, items.type).equals(part.dictionary_decode())


@pytest.mark.parametrize(
    "items", [pa.array(["x", "y", "z", "w"]), pa.array([5, 6, 7, 8]), pa.array([True, False] * 2)]
)
def test_slices_of_dictionaries(items: pa.Array) -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, 1], pa.int16()), items.slice(1, 2))
    positions, block = dictionary_of_arrow(array, PLAIN, "2.2")
    assert decode(positions, block, items.type).equals(array.dictionary_decode())


def test_entries_that_outnumber_the_rows_are_dropped() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([900, 7]), pa.array([str(n) for n in range(2000)]))
    positions, block = dictionary_of_arrow(array, PLAIN, "2.2")
    assert block.count == 2
    assert decode(positions, block, pa.string()).to_pylist() == ["900", "7"]


def test_unused_null_entries_do_not_get_into_the_file() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 2, 0]), pa.array(["a", None, "b"]))
    positions, block = dictionary_of_arrow(array, PLAIN, "2.2")
    assert block.count == 2
    assert decode(positions, block, pa.string()).to_pylist() == ["a", "b", "a"]


@pytest.mark.parametrize("same", [0, 64, 4_000])
@pytest.mark.parametrize("distinct", [1, 20, 100, 600])
def test_few_large_values_are_judged_by_all_of_their_bytes(
    same: int, distinct: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long they are alike at the beginning.
    values = [b"x" * same + number.to_bytes(2) + bytes(1_500) for number in range(distinct)]
    array = pick(values, 600, pa.binary())
    found = find(array)
    monkeypatch.setattr(dictionaries, "_LARGE_BYTES", 1 << 40)
    plain = find(array)
    assert (found is None) == (plain is None) == (distinct == 600)
    if found is not None and plain is not None:
        assert found[1].count == plain[1].count == len(array.unique())
        assert decode(*found, array.type).equals(array)


def test_few_large_values_are_not_read_where_their_beginnings_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def note(values: Fixed | Variable, limit: int, max_bytes: int) -> object:
        assert isinstance(values, Variable)
        read.append(int(values.offsets[-1] - values.offsets[0]))
        return number_distinct(values, limit, max_bytes)

    monkeypatch.setattr(dictionaries, "number_distinct", note)
    array = pa.array([number.to_bytes(2) + bytes(9_998) for number in range(300)])
    assert find(array) is None
    assert 0 < sum(read) < 100 * len(array)
