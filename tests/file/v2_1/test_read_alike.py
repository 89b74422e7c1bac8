"""Columns of one type are decoded together, and are what they are one by one."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_1 import read as reading
from lance_ops.file.v2_1 import read_alike
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store
from tests.support.arrays import random_array

ROWS = 3_000
KINDS = (pa.int32(), pa.float64(), pa.string(), pa.bool_(), pa.list_(pa.float32(), 3), pa.decimal128(9, 2))


def make_table() -> pa.Table:
    columns = {}
    for number in range(48):
        kind = KINDS[number % len(KINDS)]
        nulls = 0.2 if number % 4 == 1 else 0.0
        columns[f"{number}"] = random_array(kind, ROWS, nulls=nulls, seed=number)
    for number in range(8):
        columns[f"few {number}"] = pa.array([f"{row % (number + 2)} of {number}" for row in range(ROWS)])
        columns[f"list {number}"] = pa.array([[row] * (row % 3) for row in range(ROWS)])
    return pa.table(columns)


TABLE = make_table()


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("alike")
    schema = Schema.from_arrow(TABLE.schema)
    with FileWriter(open_store(path), "a", schema, version=request.param) as writer:
        writer.write(TABLE)
    return path


def test_wide_tables_read_as_they_were_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = []
    find = read_alike.find_alike

    def noted(*arguments: object) -> list[read_alike.AlikeColumns]:
        found = list(find(*arguments))  # type: ignore[arg-type]
        groups.extend(found)
        return found

    monkeypatch.setattr(reading, "find_alike", noted)
    reader = FileReader.open(open_store(folder), "a")
    for start, stop in ((0, ROWS), (0, 10), (7, 8), (1_000, 2_999)):
        table = reader.read_table(start=start, stop=stop)
        table.validate(full=True)
        assert table.equals(TABLE.slice(start, stop - start))
    for count in (1, 5, 100, 1_500):
        rows = np.sort(np.random.default_rng(count).choice(ROWS, count, replace=False))
        for _ in range(2):
            assert reader.take(rows).equals(TABLE.take(pa.array(rows)))
    assert sum(len(group.numbers) for group in groups) > 200


@pytest.mark.parametrize("most", [1, 20_000])
def test_groups_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(read_alike, "_GROUP_BYTES", most)
    assert FileReader.open(open_store(folder), "a").read_table().equals(TABLE)


def test_a_damaged_page_names_its_column(folder: Path, tmp_path: Path) -> None:
    reader = FileReader.open(open_store(folder), "a")
    index = 18
    (page,) = reader.column_metadata(index).pages
    position, size = page.buffers[0]
    data = bytearray((folder / "a").read_bytes())
    data[position : position + size] = b"\xff" * size
    (tmp_path / "a").write_bytes(data)
    damaged = FileReader.open(open_store(tmp_path), "a")
    with pytest.raises(CorruptFileError) as raised:
        damaged.read_table()
    assert raised.value.path == "a"
    assert str(raised.value.field).startswith(f"column {index}, page 0")
    with pytest.raises(CorruptFileError) as raised:
        damaged.take([0, 100, 1_000])
    assert str(raised.value.field).startswith(f"column {index}, page 0")
