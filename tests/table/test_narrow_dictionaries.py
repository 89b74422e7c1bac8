"""Dictionary columns with narrow indices: what does not fit together gets files of its own."""

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.maintenance.compact import plan
from lance_ops.table.narrow_dictionaries import NarrowDictionaries

ROWS = 100


def rows(prefix: str, count: int = ROWS, index: pa.DataType | None = None) -> pa.Table:
    codes = pa.array(np.arange(count) % ROWS, index or pa.int8())
    values = pa.array([f"{prefix}{number}" for number in range(ROWS)])
    return pa.table({"id": range(count), "c": pa.DictionaryArray.from_arrays(codes, values)})


def nested(table: pa.Table) -> pa.Table:
    column = table["c"].combine_chunks()
    lists = pa.ListArray.from_arrays(pa.array([0, *range(1, len(column) + 1)], pa.int32()), column)
    return table.append_column("n", pa.StructArray.from_arrays([lists], ["l"]))


def assert_read(uri: str, expected: pa.Table, files: int) -> None:
    dataset = lo.dataset(uri)
    assert len(dataset.fragments) == files
    found = dataset.to_table()["c"].to_pylist()
    assert sorted(found) == sorted(expected["c"].to_pylist())
    assert lance.dataset(uri).to_table()["c"].to_pylist() == found
    assert lo.fsck(uri, deep=True).ok


OPERATIONS: dict[str, Callable[[str], object]] = {
    "update of another column": lambda uri: lo.update(uri, {"id": "id + 1"}),
    "update of the column": lambda uri: lo.update(uri, {"c": "concat(c, '')"}),
    "compact after deletions": lambda uri: (lo.delete(uri, "id = -1"), lo.compact(uri, method="rewrite")),
    "overwrite": lambda uri: lo.write_dataset(lo.dataset(uri).to_table(), uri, mode="overwrite"),
    "upsert": lambda uri: lo.merge_insert(
        uri, lo.dataset(uri).to_table(["id"]), "id", when_matched="update_all"
    ),
}


@pytest.mark.peer
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("way", OPERATIONS)
def test_the_peer_reads_what_an_operation_leaves(tmp_path: Path, way: str, version: str) -> None:
    uri = str(tmp_path / "t")
    first, second = rows("v"), rows("w").set_column(0, "id", pa.array(range(ROWS, 2 * ROWS)))
    gone = first.slice(0, 1).set_column(0, "id", pa.array([-1]))
    lo.write_dataset(pa.concat_tables([first, gone]), uri, data_storage_version=version)
    lo.append(uri, second)
    if "deletions" not in way:
        lo.delete(uri, "id = -1")
    OPERATIONS[way](uri)
    assert_read(uri, pa.concat_tables([first, second]), 2)


@pytest.mark.peer
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_batches_of_one_write_go_into_files_that_fit(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    tables = [rows("a"), rows("a"), rows("b"), rows("b"), rows("a")]
    if version != "2.0":
        tables = list(map(nested, tables))
    lo.write_dataset(pa.concat_tables(tables), uri, data_storage_version=version)
    assert_read(uri, pa.concat_tables(tables), 3)


@pytest.mark.peer
@pytest.mark.parametrize("method", ["copy", "rewrite", "auto"])
def test_a_compaction_keeps_apart_what_does_not_fit(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    tables = [rows(prefix, 20_000) for prefix in "aabb"]
    for table in tables:
        lo.append(uri, table)
    lo.compact(uri, method=method, strategy="rows")
    assert_read(uri, pa.concat_tables(tables), 2)
    result = lo.compact(uri, method=method, strategy="rows")
    assert not result.changed
    assert "cannot be merged: the dictionaries of c" in result.notes[0]
    # A plan that knows nothing of it is refused.
    monkeypatch.setattr(plan, "without_kept_apart", lambda dataset, groups, notes: list(groups))
    with pytest.raises(LanceOpsError, match=r"cannot be merged.*than the index type allows.*field: c"):
        lo.compact(uri, method=method, strategy="rows")
    assert_read(uri, pa.concat_tables(tables), 2)


@pytest.mark.peer
@pytest.mark.parametrize("data_type", [pa.dictionary(pa.int32(), pa.string()), pa.string()], ids=str)
def test_another_type_lets_the_fragments_become_one(tmp_path: Path, data_type: pa.DataType) -> None:
    uri = str(tmp_path / "t")
    for prefix in "ab":
        lo.append(uri, rows(prefix))
    lo.alter_columns(uri, {"path": "c", "data_type": data_type})
    assert lo.dataset(uri).schema.field("c").type == data_type
    lo.compact(uri)
    assert_read(uri, pa.concat_tables([rows("a"), rows("b")]), 1)


@pytest.mark.peer
def test_copies_of_dictionaries_that_fit_are_still_copies(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for _ in range(3):
        lo.append(uri, rows("a", 20_000))
    (group,) = lo.compact(uri, method="copy", dry_run=True).groups
    assert group.method.method == "copy"
    result = lo.compact(uri, method="copy")
    assert (result.fragments_removed, result.fragments_added) == (3, 1)
    assert_read(uri, pa.concat_tables([rows("a", 20_000)] * 3), 1)


def test_a_computed_column_that_does_not_fit_names_the_column(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lo.write_dataset(pa.table({"id": range(200)}), uri)
    kind = pa.dictionary(pa.int8(), pa.string())

    @lo.batch_udf(pa.schema([("c", kind)]), batch_size=100)
    def labels(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = pa.array([f"v{number}" for number in batch["id"].to_pylist()])
        return pa.record_batch([values.dictionary_encode().cast(kind)], names=["c"])

    with pytest.raises(LanceOpsError, match="dictionar"):
        lo.add_columns(uri, labels)
    assert lo.dataset(uri).schema.names == ["id"]


@pytest.mark.parametrize(
    ("index", "version", "most"),
    [
        (pa.int8(), "2.2", 128),
        (pa.uint8(), "2.2", 256),
        (pa.int8(), "2.0", 127),
        (pa.int16(), "2.1", 32_768),
    ],
)
def test_as_many_values_fit_as_the_index_can_number(index: pa.DataType, version: str, most: int) -> None:
    kind = pa.dictionary(index, pa.int32())

    def batch(first: int, stop: int) -> pa.RecordBatch:
        items = pa.array(range(first, stop), pa.int32())
        return pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0], index), items)], names=["c"])

    dictionaries = NarrowDictionaries(pa.schema([("c", kind)]), version)
    assert dictionaries.add(batch(0, 100))
    assert dictionaries.add(batch(50, most))
    assert not dictionaries.add(batch(most, most + 1))
    assert dictionaries.add(batch(0, 2))
