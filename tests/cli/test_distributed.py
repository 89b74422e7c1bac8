"""write-fragments and commit: what they do, print and refuse."""

import json

import lance_ops as lo
from tests.support.commands import lance_ops, lance_ops_json, parquet, people


def test_fragments_of_two_tasks_become_one_version(tmp_path):
    uri = str(tmp_path / "people.lance")
    lance_ops("append", uri, parquet(tmp_path / "0.parquet", people(0, 10)))
    files = []
    for start in (10, 13):
        source = parquet(tmp_path / f"{start}.parquet", people(start, start + 3))
        lines = lance_ops("write-fragments", uri, source).stdout
        assert [json.loads(line)["physical_rows"] for line in lines.splitlines()] == [3]
        files.append(tmp_path / f"{start}.json")
        files[-1].write_text(lines)
    assert lo.dataset(uri).version == 1
    arguments = ("commit", uri, *map(str, files), "--read-version", "1", "--message", "two tasks")
    assert "Append of 6 rows" in lance_ops(*arguments, "--dry-run").stdout
    assert lance_ops_json(*arguments)["version"] == 2
    assert sorted(lo.dataset(uri).to_table()["id"].to_pylist()) == list(range(16))
    (tmp_path / "bad.json").write_text('{"id": 0}')
    assert "JSON of a fragment" in lance_ops("commit", uri, str(tmp_path / "bad.json"), code=1).stderr
