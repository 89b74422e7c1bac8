"""`LanceTable`: a table as an object."""

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import DatasetNotFoundError, InvalidArgumentError, UnsupportedError
from lance_ops.spark import LanceTable
from lance_ops.spark.facade import MergeBuilder


def test_keys_of_a_merge_are_columns_of_one_name():
    table = LanceTable(None, "t.lance")
    assert table.merge(None, "id").on == ("id",)
    assert table.merge(None, ["a", "b"]).on == ("a", "b")
    assert table.merge(None, "t.id = s.id and s.day == t.day").on == ("id", "day")
    for wrong in ("t.a = s.b", "t.a > s.a AND t.b = s.b", "t.a = t.a", "a = 3", "t.a = 'x"):
        with pytest.raises(UnsupportedError):
            table.merge(None, wrong)


def test_a_second_clause_of_a_kind_does_not_replace_the_first():
    merge = MergeBuilder(None, None, ("id",))
    for first in (merge.when_matched_delete(), merge.when_matched_update_all("source.v > 1")):
        for second in (first.when_matched_delete, first.whenMatchedUpdateAll):
            with pytest.raises(UnsupportedError, match="only one clause"):
                second()
    with pytest.raises(UnsupportedError, match="when_not_matched_by_source"):
        merge.when_not_matched_by_source_delete("id = 1").whenNotMatchedBySourceDelete()


@pytest.mark.spark
def test_a_table_is_changed_kept_and_told_of(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    with pytest.raises(DatasetNotFoundError):
        LanceTable.for_path(spark, uri)
    for start in (0, 10):
        lo.append(uri, pa.table({"id": range(start, start + 10), "word": ["a"] * 10}))
    table = LanceTable.forPath(spark, uri)
    assert table.update("id = 2", {"word": "upper(word)"}).rows_updated == 1
    with pytest.raises(InvalidArgumentError, match="at least one column"):
        table.update("id = 2")
    assert table.delete("id >= 18").rows_deleted == 2
    news = spark.createDataFrame([(1, "one"), (99, "new")], "id long, word string")
    merge = table.merge(news, "t.id = s.id").whenMatchedUpdateAll("source.word > target.word")
    done = merge.when_not_matched_insert_all().execute()
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    gone = table.merge(news, "id").when_matched_delete().execute()
    assert gone.rows_deleted == 2
    assert table.to_df().count() == 17
    assert table.to_df(["id"], version=1).count() == 10
    assert table.optimize().fragments_removed > 0
    assert [row.operation for row in table.history(1).collect()] == ["Rewrite"]
    assert table.changes(2, 3).count() > 0
    assert table.vacuum(retention_hours=0).versions_removed > 0
    spark.sql(f"CREATE TABLE facade USING lance LOCATION '{uri}'")
    try:
        assert LanceTable.for_name(spark, "facade").toDF().count() == 17
    finally:
        spark.sql("DROP TABLE facade")
