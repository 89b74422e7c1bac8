"""The change feed on Spark is that of one process."""

from decimal import Decimal

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.spark.changes import changes_dataframe
from tests.table.test_former_values import table as column_table

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("stable", [True, False])
def test_it_is_the_feed_of_one_process(spark, tmp_path, stable):
    uri = str(tmp_path / "t")
    start = pa.table(
        {"id": range(40), "s": [f"s{n}" for n in range(40)], "x": pa.array(range(40), pa.int32())}
    )
    lo.write_dataset(start, uri, max_rows_per_file=10, enable_stable_row_ids=stable)
    lo.delete(uri, "id in (3, 17)")
    lo.update(uri, {"x": "x + 100"}, "id % 4 = 0")
    lo.merge_insert(
        uri, start.slice(38).append_column("y", pa.array([1, 2])).drop(["y"]), "id", when_matched="update_all"
    )
    lo.append(uri, start.slice(0, 5))
    lo.add_columns(uri, {"y": "x * 2"})
    if stable:
        lo.compact(uri)
    for columns in (None, ["x", "y"]):
        local = lo.dataset(uri).changes(1, columns=columns, with_row_id=True).read_all()
        df = changes_dataframe(spark, uri, 1, columns=columns, with_row_id=True, rows_per_partition=4)
        found = [tuple(int(v) if isinstance(v, Decimal) else v for v in row) for row in df.collect()]
        expected = [tuple(row.values()) for row in local.to_pylist()]
        assert sorted(found, key=str) == sorted(expected, key=str)
        kinds = [row[-2].partition("_")[0] for row in found]
        assert kinds == sorted(kinds, key=["delete", "update", "insert"].index)
        assert df.columns == local.column_names
        assert df.rdd.getNumPartitions() >= local.num_rows // 8
    counts = df.groupBy("_change_type").count().collect()
    assert {row[0]: row[1] for row in counts}["delete"] == (2 if stable else 14)


@pytest.mark.peer
def test_columns_that_were_cast_dropped_and_added_again_are_those_of_one_process(spark, tmp_path):
    """Executors get what became of the columns: values of a dropped one show under no other name."""
    uri = str(tmp_path / "t")
    lo.write_dataset(column_table(), uri, enable_stable_row_ids=True, max_rows_per_file=4)
    lo.alter_columns(uri, {"path": "x", "name": "z", "data_type": pa.float32()})
    lance.dataset(uri).drop_columns(["s.a", "l"])
    lo.add_columns(uri, {"l": "i + 100", "x": "i * 7"})
    lo.delete(uri, "i >= 4")
    lo.update(uri, {"i": "i + 0"}, "i < 2")
    local = lo.dataset(uri).changes(1).read_all()
    found = changes_dataframe(spark, uri, 1, rows_per_partition=3).collect()
    keys = [(row["i"], row["_change_type"]) for row in local.to_pylist()]
    assert sorted((row.i, row["_change_type"]) for row in found) == sorted(keys)
    for row in found:
        is_old = row["_change_type"] in ("delete", "update_preimage")
        assert row.z == row.i * 0.5
        assert row.s.asDict() == {"b": f"b{row.i}"}
        assert row.l == (None if is_old else row.i + 100)
        assert row.x == (None if is_old else row.i * 7)


def test_nothing_changed_and_what_cannot_be_told(spark, tmp_path):
    uri = str(tmp_path / "t")
    lo.write_dataset(pa.table({"id": range(4)}), uri, max_rows_per_file=2)
    lo.write_dataset(pa.table({"id": [4]}), uri, mode="append")
    assert changes_dataframe(spark, uri, 2).collect() == []
    with pytest.raises(InvalidArgumentError, match="column"):
        changes_dataframe(spark, uri, 1, columns=["other"])
    lo.compact(uri)
    with pytest.raises(UnsupportedError, match="moved rows"):
        changes_dataframe(spark, uri, 1)
