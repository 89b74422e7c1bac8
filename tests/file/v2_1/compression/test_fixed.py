from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from lance_ops.encoding.values.flat import bit_width, encode_flat
from lance_ops.encoding.values.values import Fixed, to_arrow
from lance_ops.errors import LanceOpsError
from lance_ops.file.v2_1.compression.decode import decode_block, decode_chunk_values
from lance_ops.file.v2_1.compression.encoded import ChunkedValues
from lance_ops.file.v2_1.compression.fixed import compress_block_fixed, compress_fixed
from lance_ops.file.v2_1.options import FieldOptions
from tests.support.mini_block_file import write_mini_block_file

VERSIONS = ("2.1", "2.2")


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def wide(count: int, width: int = 24) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(width), count, [None, pa.py_buffer(rng().bytes(width * count))])


def mixed_runs() -> pa.Array:
    random = rng().integers(0, 2**63, 9000)
    return pa.array(np.concatenate([np.full(50_000, 3), random, np.full(50_000, 3)]))


COLUMNS: dict[str, Callable[[], pa.Array]] = {
    "sequence": lambda: pa.array(np.arange(5000)),
    "random": lambda: pa.array(rng().integers(-(2**63), 2**63 - 1, 5000)),
    "bytes": lambda: pa.array(rng().integers(0, 20, 5000, dtype=np.uint8)),
    "words": lambda: pa.array(rng().integers(0, 2000, 5000, dtype=np.uint16)),
    "widths": lambda: pa.array(np.concatenate([rng().integers(0, 2**w, 1024) for w in range(0, 33, 4)])),
    "zeros_within": lambda: pa.array(np.concatenate([np.arange(3000), np.zeros(3000, np.int64)])),
    "runs": lambda: pa.array(np.repeat(rng().integers(0, 2**60, 200), rng().integers(1, 700, 200))),
    "mixed_runs": mixed_runs,
    "short_runs": lambda: pa.array(np.repeat(rng().integers(0, 2**60, 4000), 2)),
    "constant": lambda: pa.array(np.full(9000, 7, np.int32)),
    "floats": lambda: pa.array(rng().random(5000, dtype=np.float32)),
    "doubles": lambda: pa.array(rng().random(5000)),
    "halves": lambda: pa.array(rng().random(5000).astype(np.float16)),
    "flags": lambda: pa.array(rng().random(20_000) < 0.4),
    "decimals": lambda: pa.array(rng().integers(0, 10**9, 3000)).cast(pa.decimal128(38, 2)),
    "long_decimals": lambda: pa.array(rng().integers(0, 10**9, 3000)).cast(pa.decimal256(60, 2)),
    "binaries": lambda: wide(3000),
    "short_binaries": lambda: wide(3000, 3),
    "one": lambda: pa.array([42]),
    "one_flag": lambda: pa.array([True]),
}
OPTIONS = {
    "default": FieldOptions(),
    "none": FieldOptions(compression="none"),
    "zstd": FieldOptions(compression="zstd", compression_level=3),
    "lz4": FieldOptions(compression="lz4"),
    "split": FieldOptions(compression="zstd", bss="on"),
    "zstd_level": FieldOptions(compression="zstd", compression_level=12, bss="off"),
    "no_runs": FieldOptions(rle_threshold=0.0),
}


def fixed(array: pa.Array) -> Fixed:
    return Fixed(bit_width(array.type), len(array), encode_flat(array))


def kind(values: ChunkedValues) -> str:
    return str(values.encoding.WhichOneof("compression"))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", COLUMNS)
def test_values_come_back(name: str, options: str) -> None:
    array = COLUMNS[name]()
    compressed = compress_fixed(fixed(array), OPTIONS[options], "2.2")
    assert int(compressed.counts.sum()) == len(array)
    decoded = decode_chunk_values(compressed.encoding, compressed.buffers, compressed.counts)
    assert to_arrow(decoded, array.type).equals(array)


@pytest.mark.peer
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_peer_reads_every_technique(version: str, name: str, options: str, tmp_path: Path) -> None:
    array = COLUMNS[name]()
    compressed = compress_fixed(fixed(array), OPTIONS[options], version)
    write_mini_block_file(tmp_path / "a.lance", array.type, compressed, version)
    reader = LanceFileReader(str(tmp_path / "a.lance"))
    assert reader.read_all().to_table()["x"].combine_chunks().equals(array)
    rows = np.unique(rng().integers(0, len(array), 20)).tolist()
    taken = reader.take_rows(rows).to_table()["x"].combine_chunks()
    assert taken.equals(array.take(pa.array(rows)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sequence", "inline_bitpacking"),
        ("random", "flat"),
        ("runs", "rle"),
        ("short_runs", "rle"),
        ("constant", "rle"),
        ("floats", "inline_bitpacking"),
        ("decimals", "flat"),
        ("one", "flat"),
    ],
)
def test_the_smallest_technique_is_chosen(name: str, expected: str) -> None:
    assert kind(compress_fixed(fixed(COLUMNS[name]()), FieldOptions(), "2.2")) == expected


def test_options_are_followed() -> None:
    numbers = fixed(COLUMNS["sequence"]())
    assert kind(compress_fixed(numbers, OPTIONS["none"], "2.2")) == "flat"
    assert kind(compress_fixed(numbers, FieldOptions(rle_threshold=1.0), "2.2")) == "inline_bitpacking"
    runs = fixed(COLUMNS["runs"]())
    assert kind(compress_fixed(runs, OPTIONS["no_runs"], "2.2")) == "inline_bitpacking"
    assert kind(compress_fixed(runs, FieldOptions(rle_threshold=0.01), "2.2")) == "rle"
    assert kind(compress_fixed(runs, FieldOptions(rle_threshold=0.001), "2.2")) == "inline_bitpacking"
    split = compress_fixed(fixed(COLUMNS["doubles"]()), OPTIONS["split"], "2.2").encoding
    assert split.general.values.WhichOneof("compression") == "byte_stream_split"


def test_a_general_compression_that_does_not_help_is_left_out() -> None:
    assert kind(compress_fixed(fixed(COLUMNS["random"]()), OPTIONS["lz4"], "2.2")) == "flat"


@pytest.mark.parametrize("levels", [0.0, 4.0, 8.0])
def test_chunks_of_short_runs_get_smaller(levels: float) -> None:
    words = mixed_runs().to_numpy().view(np.uint64)
    compressed = compress_fixed(
        Fixed(64, len(words), words), FieldOptions(), "2.1", levels_bytes_per_value=levels
    )
    assert kind(compressed) == "rle"
    sizes = sum(buffer.sizes for buffer in compressed.buffers) + compressed.counts * levels
    assert sizes.max() < 32 << 10
    whole = compressed.counts[:-1]
    assert set(np.unique(whole & (whole - 1))) == {0}
    assert len(set(whole.tolist())) > 1
    decoded = decode_chunk_values(compressed.encoding, compressed.buffers, compressed.counts)
    assert isinstance(decoded, Fixed)
    assert (decoded.data == words).all()


def test_chunks_leave_room_for_levels() -> None:
    values = Fixed(8000 * 8, 5, np.zeros(40_000, dtype=np.uint8))
    assert compress_fixed(values, FieldOptions(), "2.1").counts.tolist() == [2, 2, 1]
    with pytest.raises(LanceOpsError, match="too large for chunks"):
        compress_fixed(values, FieldOptions(), "2.1", levels_bytes_per_value=10_000)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", COLUMNS)
def test_blocks_come_back(name: str, version: str) -> None:
    array = COLUMNS[name]()
    for options in (FieldOptions(), FieldOptions(dict_values_compression="zstd")):
        block = compress_block_fixed(fixed(array), version, options)
        decoded: Any = decode_block(block.encoding, block.data, block.count)
        assert to_arrow(decoded, array.type).equals(array)


@pytest.mark.peer
@pytest.mark.parametrize("scheme", ["lz4", "zstd", "none"])
@pytest.mark.parametrize("name", ["sequence", "random", "doubles", "runs", "one"])
def test_the_peer_reads_dictionaries_of_numbers(name: str, scheme: str, tmp_path: Path) -> None:
    items = COLUMNS[name]()
    indices = rng().integers(0, len(items), 10_000, dtype=np.uint32)
    block = compress_block_fixed(fixed(items), "2.2", FieldOptions(dict_values_compression=scheme))
    values = compress_fixed(Fixed(32, len(indices), indices), FieldOptions(), "2.2")
    write_mini_block_file(tmp_path / "a.lance", items.type, values, "2.2", dictionary=block)
    reader = LanceFileReader(str(tmp_path / "a.lance"))
    assert reader.read_all().to_table()["x"].combine_chunks().equals(items.take(pa.array(indices)))
