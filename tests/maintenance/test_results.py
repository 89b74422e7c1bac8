import json
import pickle

import pyarrow as pa

import lance_ops as lo
from lance_ops.maintenance.results import AppendResult, CompactResult, DeleteResult
from lance_ops.maintenance.text import bytes_text, count_text, ids_text, table_text


def test_a_result_reads_as_one_line_with_its_conflicts_below():
    result = DeleteResult(
        uri="t.lance",
        read_version=3,
        version=5,
        seconds=0.25,
        predicate="x > 1",
        rows_deleted=1200,
        fragments_updated=1,
        fragments_removed=2,
        conflicts=("Append of 1 fragment (version 4)",),
    )
    assert str(result) == (
        "delete: deleted 1,200 rows: 1 fragment updated, 2 removed (version 3 -> 5, 0.25 s)\n"
        "  conflict met: Append of 1 fragment (version 4)"
    )


def test_nothing_to_do_leaves_the_version_and_says_so():
    result = CompactResult(uri="t.lance", read_version=3, version=3, seconds=0.0)
    assert not result.changed
    assert str(result) == "compact: nothing to compact (version 3, 0.00 s)"


def test_a_job_already_committed_says_so():
    result = AppendResult(uri="t", read_version=9, version=4, seconds=0, already_committed=True)
    assert not result.changed
    assert "already committed as version 4" in str(result)


def test_results_are_json_and_picklable():
    result = AppendResult(
        uri="t", read_version=None, version=1, seconds=0.5, rows_added=7, conflicts=("a", "b")
    )
    values = json.loads(json.dumps(result.to_dict()))
    assert values["operation"] == "append"
    assert values["rows_added"] == 7
    assert values["conflicts"] == ["a", "b"]
    assert pickle.loads(pickle.dumps(result)) == result


def test_numbers_read_well():
    assert [bytes_text(n) for n in (0, 999, 1000, 1536, 12_345_678, 10**12)] == [
        "0 B", "999 B", "1.0 kB", "1.5 kB", "12 MB", "1.0 TB"
    ]  # fmt: skip
    assert count_text(1, "row") == "1 row"
    assert count_text(2000, "index", "indices") == "2,000 indices"
    assert ids_text([0, 1, 2, 7, 9, 10]) == "0-2, 7, 9-10"
    assert ids_text(range(0, 100, 2), limit=2) == "0, 2 and 48 more"
    assert table_text(("a", "n"), [("x", "1"), ("yy", "10")]) == "a    n\nx    1\nyy  10"
    assert table_text(("a",), [("x",)] * 3, limit=1).endswith("... and 2 more")


def test_commits_and_checks_say_what_they_did_like_all_results(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": [1]}))
    done = lo.update_config(uri, {"k": "v"})
    told = json.loads(json.dumps(done.to_dict()))
    assert (told["operation"], told["read_version"], told["version"]) == ("update_config", 1, 2)
    assert "UpdateConfig" in done.summary()
    found = lo.fsck(uri)
    assert found.summary().startswith("version 2 is sound: ")
    for result in (done, found, lo.append(uri, pa.table({"id": [2]})), lo.cleanup(uri)):
        assert isinstance(result, lo.Result)
        assert result.seconds >= 0
        assert pickle.loads(pickle.dumps(result)) == result
        told = json.loads(json.dumps(result.to_dict()))
        assert told["operation"] == result.operation
        assert (told["uri"], told["version"], told["seconds"]) == (uri, result.version, result.seconds)
