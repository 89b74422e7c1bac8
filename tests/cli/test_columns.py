"""merge, replace-columns and truncate: what they do and print."""

import pyarrow as pa

import lance_ops as lo
from tests.support.commands import lance_ops, lance_ops_json, parquet, people


def test_columns_are_joined_and_replaced_and_rows_go(tmp_path):
    uri = str(tmp_path / "people.lance")
    lance_ops("append", uri, parquet(tmp_path / "0.parquet", people(0, 10)))
    source = parquet(tmp_path / "more.parquet", pa.table({"key": [3, 4], "extra": ["c", "d"]}))
    assert (
        "add extra" in lance_ops("merge", uri, source, "--on", "id", "--right-on", "key", "--dry-run").stdout
    )
    assert lance_ops_json("merge", uri, source, "--on", "id", "--right-on", "key")["columns"] == ["extra"]
    arguments = ("replace-columns", uri, "--set", "score=id * 2.0", "--fragment", "0", "--job-key", "k")
    for already in (False, True):
        assert lance_ops_json(*arguments)["already_committed"] == already
    (row,) = lo.dataset(uri).to_table(filter="id = 4").to_pylist()
    assert (row["extra"], row["score"]) == ("d", 8.0)
    assert "10 rows" in lance_ops("truncate", uri, "--dry-run").stdout
    assert lance_ops_json("truncate", uri)["rows_deleted"] == 10
