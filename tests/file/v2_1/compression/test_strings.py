from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import lance_ops as lo
from lance_ops.encoding.values.array_values import from_arrow
from lance_ops.encoding.values.binary import is_large
from lance_ops.encoding.values.values import Variable, to_arrow
from lance_ops.errors import LanceOpsError
from lance_ops.file.v2_1.compression.decode import decode_chunk_values
from lance_ops.file.v2_1.compression.decode_rows import decode_variable_rows
from lance_ops.file.v2_1.compression.strings import compress_values_apart, compress_variable
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.pb import encodings21_pb2 as pb
from tests.support.mini_block_file import write_mini_block_file

VERSIONS = ("2.1", "2.2")
OPTIONS = {
    "default": FieldOptions(),
    "none": FieldOptions(compression="none"),
    "fsst": FieldOptions(compression="fsst"),
    "zstd": FieldOptions(compression="zstd", compression_level=5),
    "lz4": FieldOptions(compression="lz4"),
    "small_chunks": FieldOptions(minichunk_bytes=1024),
}


def users(count: int = 5000) -> list[str]:
    rng = np.random.default_rng(3)
    return [f"user-{n:08d}" for n in rng.integers(0, 10**8, count)]


COLUMNS: dict[str, Callable[[], pa.Array]] = {
    "users": lambda: pa.array(users()),
    "large_users": lambda: pa.array(users(), pa.large_string()),
    "texts": lambda: pa.array([f"the quick brown füchslein {n * 7919} jumps" * 3 for n in range(1500)]),
    "mixed": lambda: pa.array(["", "x" * 200, "y", ""] * 700),
    "random": lambda: pa.array([np.random.default_rng(n).bytes(90) for n in range(900)]),
    "large_random": lambda: pa.array(
        [np.random.default_rng(n).bytes(n % 90) for n in range(900)], pa.large_binary()
    ),
    "empties": lambda: pa.array([""] * 3000),
    "one": lambda: pa.array(["only"]),
    "two": lambda: pa.array(["one", ""]),
    "three": lambda: pa.array(["one", "", "x" * 9000]),
}


def values_of(array: pa.Array) -> tuple[Variable, int]:
    values = from_arrow(array)
    assert isinstance(values, Variable)
    return values, 64 if is_large(array.type) else 32


def kind(encoding: pb.CompressiveEncoding) -> str:
    return str(encoding.WhichOneof("compression"))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("version", VERSIONS)
def test_chunks_come_back(name: str, options: str, version: str) -> None:
    array = COLUMNS[name]()
    compressed = compress_variable(*values_of(array), OPTIONS[options], version)
    assert int(compressed.counts.sum()) == len(array)
    decoded = decode_chunk_values(compressed.encoding, compressed.buffers, compressed.counts)
    assert to_arrow(decoded, array.type).equals(array)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", COLUMNS)
def test_values_compressed_apart_come_back(name: str, options: str) -> None:
    array = COLUMNS[name]()
    encoding, values = compress_values_apart(*values_of(array), OPTIONS[options], "2.2")
    assert to_arrow(decode_variable_rows(encoding, values), array.type).equals(array)


@pytest.mark.peer
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_peer_reads_every_choice(version: str, name: str, options: str, tmp_path: Path) -> None:
    array = COLUMNS[name]()
    compressed = compress_variable(*values_of(array), OPTIONS[options], version)
    write_mini_block_file(tmp_path / "a.lance", array.type, compressed, version)
    reader = LanceFileReader(str(tmp_path / "a.lance"))
    assert reader.read_all().to_table()["x"].combine_chunks().equals(array)
    rows = np.unique(np.random.default_rng(1).integers(0, len(array), 20)).tolist()
    assert reader.take_rows(rows).to_table()["x"].combine_chunks().equals(array.take(pa.array(rows)))


def test_symbols_are_used_where_they_pay() -> None:
    for name, found in [
        ("users", "fsst"),
        ("texts", "fsst"),
        ("random", "variable"),
        ("one", "variable"),
    ]:
        values = values_of(COLUMNS[name]())
        assert kind(compress_variable(*values, FieldOptions(), "2.2").encoding) == found
        assert kind(compress_values_apart(*values, FieldOptions(), "2.2")[0]) == found
    few = values_of(pa.array(users(1000)))
    assert kind(compress_variable(*few, FieldOptions(), "2.2").encoding) == "variable"
    assert kind(compress_variable(*few, OPTIONS["fsst"], "2.2").encoding) == "fsst"
    short = values_of(pa.array(["abcd"] * 20_000))
    assert kind(compress_variable(*short, FieldOptions(), "2.2").encoding) == "variable"


def test_options_are_followed() -> None:
    values = values_of(COLUMNS["texts"]())
    for options, found in [("none", "variable"), ("zstd", "general"), ("lz4", "general")]:
        assert kind(compress_variable(*values, OPTIONS[options], "2.2").encoding) == found
        assert kind(compress_values_apart(*values, OPTIONS[options], "2.2")[0]) == found
    assert compress_variable(*values, OPTIONS["zstd"], "2.2").encoding.general.compression.level == 5
    sizes = compress_variable(*values, OPTIONS["small_chunks"], "2.2").buffers[0].sizes
    assert (
        int(sizes.max())
        <= 1024
        < int(compress_variable(*values, FieldOptions(), "2.2").buffers[0].sizes.max())
    )


def test_values_that_stand_by_themselves_are_never_lz4() -> None:
    # Readers would ask a null, which has no bytes, for the size of its block.
    values = values_of(COLUMNS["texts"]())
    encoding, _ = compress_values_apart(*values, OPTIONS["lz4"], "2.2")
    assert encoding.general.compression.scheme == pb.COMPRESSION_ALGORITHM_ZSTD


@pytest.mark.peer
@pytest.mark.parametrize("compression", ["zstd", "lz4", "fsst", "none"])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_peer_reads_nulls_among_values_that_stand_by_themselves(
    version: str, compression: str, tmp_path: Path
) -> None:
    options = {
        "lance-encoding:compression": compression,
        "lance-encoding:structural-encoding": "fullzip",
    }
    texts = [None if n % 5 == 1 else "" if n % 5 == 2 else f"text {n * 7919} " * 9 for n in range(900)]
    table = pa.table([pa.array(texts)], schema=pa.schema([pa.field("x", pa.string(), metadata=options)]))
    lo.write_dataset(table, tmp_path / "t", data_storage_version=version)
    assert lance.dataset(str(tmp_path / "t")).to_table()["x"].to_pylist() == texts
    assert lo.dataset(tmp_path / "t").to_table()["x"].to_pylist() == texts


def test_a_general_compression_that_does_not_help_is_left_out() -> None:
    values = values_of(COLUMNS["random"]())
    assert kind(compress_variable(*values, OPTIONS["lz4"], "2.2").encoding) == "variable"
    assert kind(compress_values_apart(*values, OPTIONS["zstd"], "2.2")[0]) == "variable"


def test_large_values_are_compressed_one_by_one() -> None:
    rng = np.random.default_rng(5)
    texts = [rng.integers(0, 4, 40_000, dtype=np.uint8).tobytes(), b"", b"short"] * 5
    encoding, values = compress_values_apart(*values_of(pa.array(texts)), FieldOptions(), "2.2")
    assert kind(encoding) == "general"
    assert encoding.general.compression.scheme == pb.COMPRESSION_ALGORITHM_ZSTD
    # What is empty needs no frame to say so.
    assert (np.diff(values.offsets) == 0).tolist() == [False, True, False] * 5
    assert to_arrow(decode_variable_rows(encoding, values), pa.binary()).to_pylist() == texts


def test_two_values_must_fit_into_a_chunk_of_2_1() -> None:
    values = values_of(pa.array([np.random.default_rng(n).bytes(20_000) for n in range(3)]))
    with pytest.raises(LanceOpsError, match="fit into a chunk"):
        compress_variable(*values, FieldOptions(), "2.1")
    compressed = compress_variable(*values, FieldOptions(), "2.2")
    assert compressed.counts.tolist() == [2, 1]
