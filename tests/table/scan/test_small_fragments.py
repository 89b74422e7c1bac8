"""Runs of small fragments: what is put together, and that reading them as one changes no answer."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.table.scan.small_fragments import FragmentGroup, find_groups

VERSIONS = ("2.0", "2.1", "2.2")


def rows(count: int, seed: int) -> pa.Table:
    """Columns of many shapes, of which some are described differently from file to file."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-1000, 1000, count)
    some = rng.random(count) < (0.3 if seed % 3 else 0.0)
    words = [None if seed % 4 == 1 and value < 0 else f"word {value}" for value in numbers.tolist()]
    return pa.table(
        {
            "id": pa.array(seed * 10_000 + np.arange(count)),
            "number": pa.array(numbers),
            "nullable": pa.array(numbers, pa.int32(), mask=some),
            "flag": pa.array(numbers > 0),
            "constant": pa.array([7 if seed % 2 else None] * count, pa.int16()),
            "word": pa.array(words),
            "few": pa.array(["a", "b"] * count)[:count],
            "pair": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(2 * count, dtype=np.float32)), 2),
            "list": pa.array([[value] * (value % 3) for value in numbers.tolist()]),
            "struct": pa.StructArray.from_arrays([pa.array(numbers), pa.array(words)], names=["x", "y"]),
        }
    )


def write_many(path: Path, version: str, sizes: list[int]) -> pa.Table:
    """A dataset of one small fragment for each size, and its rows."""
    tables = [rows(count, seed) for seed, count in enumerate(sizes)]
    for number, table in enumerate(tables):
        lo.write_dataset(table, path, mode="append" if number else "create", data_storage_version=version)
    return pa.concat_tables(tables)


SIZES = [1, 7, 100, 100, 1000, 3, 8, 1025, 64, 65]


@pytest.mark.parametrize("version", VERSIONS)
def test_many_small_fragments_read_as_they_were_written(tmp_path: Path, version: str) -> None:
    expected = write_many(tmp_path / "t", version, SIZES)
    dataset = lo.dataset(tmp_path / "t")
    assert dataset.to_table().equals(expected)
    assert dataset.to_table(columns=["word", "number"]).equals(expected.select(["word", "number"]))
    assert pa.Table.from_batches(dataset.to_batches()).equals(expected)
    assert dataset.to_table(columns=[]).num_rows == len(expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_filters_limits_and_counts_are_those_of_single_fragments(tmp_path: Path, version: str) -> None:
    expected = write_many(tmp_path / "t", version, SIZES)
    dataset = lo.dataset(tmp_path / "t")
    kept = expected.filter(pa.compute.field("number") > 500)
    assert dataset.to_table(filter="number > 500").equals(kept)
    assert dataset.to_table(filter="number > 5000").num_rows == 0
    assert dataset.count_rows("number > 500") == len(kept)
    assert dataset.to_table(filter="number > 500", limit=20, offset=15).equals(kept.slice(15, 20))
    assert dataset.to_table(limit=500, offset=150).equals(expected.slice(150, 500))
    addresses = dataset.to_table(columns=["number"], with_row_address=True)
    assert addresses.column("number").equals(expected.column("number"))
    assert addresses.column("_rowaddr").to_pylist() == [
        (number << 32) + row for number, size in enumerate(SIZES) for row in range(size)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_plain_columns_of_a_run_come_in_one_piece(tmp_path: Path, version: str) -> None:
    write_many(tmp_path / "t", version, [100] * 6)
    dataset = lo.dataset(tmp_path / "t")
    run = FragmentGroup(dataset.bases, dataset.fragments)
    table = run.read(dataset.lance_schema.project(["number", "pair"]))
    assert table is not None
    assert table.num_rows == run.num_rows == 600
    assert table.column("number").num_chunks == 1


def test_deletions_and_evolved_fragments_stand_alone(tmp_path: Path) -> None:
    expected = write_many(tmp_path / "t", "2.2", [10] * 6)
    lo.delete(tmp_path / "t", "id = 20000")
    dataset = lo.dataset(tmp_path / "t")
    runs = [len(run) for run in find_groups(dataset.fragments, lambda fragment: fragment)]
    assert runs == [2, 1, 3]
    left = pa.concat_tables([expected.slice(0, 20), expected.slice(21)])
    assert dataset.to_table().equals(left)
    assert dataset.to_table(filter="number < 0").equals(left.filter(pa.compute.field("number") < 0))


def test_runs_are_bounded_by_rows(tmp_path: Path) -> None:
    write_many(tmp_path / "t", "2.2", [10] * 5)
    fragments = lo.dataset(tmp_path / "t").fragments
    assert [len(run) for run in find_groups(fragments, lambda fragment: fragment, 25)] == [2, 2, 1]
    assert [len(run) for run in find_groups(fragments, lambda _: None)] == [1] * 5


@pytest.mark.parametrize("version", VERSIONS)
def test_compaction_joins_small_fragments(tmp_path: Path, version: str) -> None:
    expected = write_many(tmp_path / "t", version, SIZES)
    lo.compact(tmp_path / "t")
    dataset = lo.dataset(tmp_path / "t")
    assert len(dataset.fragments) == 1
    assert dataset.to_table().equals(expected)


def _truncated(data: bytes) -> bytes:
    return data[:-1]


def _without_mark(data: bytes) -> bytes:
    return data[:-4] + b"XXXX"


def _other_rows(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [_truncated, _without_mark, _other_rows])
def test_a_damaged_file_of_a_run_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    write_many(tmp_path / "t", "2.2", [10] * 5)
    dataset = lo.dataset(tmp_path / "t")
    name = dataset.fragments[3].files[0].path
    file = tmp_path / "t" / "data" / name
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(LanceOpsError) as raised:
        dataset.to_table()
    assert name in str(raised.value)


@pytest.mark.parametrize("version", VERSIONS)
def test_damage_anywhere_gives_the_answer_of_reading_one_by_one(tmp_path: Path, version: str) -> None:
    write_many(tmp_path / "t", version, [20] * 3)
    dataset = lo.dataset(tmp_path / "t")
    file = tmp_path / "t" / "data" / dataset.fragments[1].files[0].path
    sound = file.read_bytes()
    rng = np.random.default_rng(5)
    for position in rng.integers(0, len(sound), 40).tolist():
        damaged = bytearray(sound)
        damaged[position] ^= 1 << int(rng.integers(0, 8))
        file.write_bytes(damaged)
        together = _answer(lambda: lo.dataset(tmp_path / "t").to_table())
        alone = _answer(
            lambda: pa.concat_tables(
                lo.dataset(tmp_path / "t").to_table(fragments=[number]) for number in range(3)
            )
        )
        assert (together is None) == (alone is None)
        assert together is None or alone is None or together.equals(alone)


def _answer(read: Callable[[], pa.Table]) -> pa.Table | None:
    try:
        return read()
    except LanceOpsError:
        return None
