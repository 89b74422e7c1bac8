"""A fixed share of the shadow run, and that its report says what happened."""

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

from shadow_compare import difference  # noqa: E402 - tools are scripts, not a package
from shadow_report import Outcome, Tally  # noqa: E402


@pytest.mark.peer
def test_the_peers_own_api_gets_the_same_answers_from_both():
    command = [
        sys.executable,
        "-W",
        "ignore",
        str(ROOT / "tools" / "shadow.py"),
        str(ROOT / "tests" / "shadow"),
        "--every",
        "5",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    counts = {
        outcome: int(line.split(outcome.value)[1].split()[0].replace(",", ""))
        for outcome in Outcome
        for line in done.stdout.splitlines()
        if line.startswith(f"  {outcome.value} ")
    }
    assert " failed" not in done.stdout, done.stdout
    assert "ended with" not in done.stdout, done.stdout
    assert done.returncode == 0, done.stdout
    assert counts[Outcome.EQUAL] > 2_000
    bad = (Outcome.DIFFERENT, Outcome.CRASHED, Outcome.REFUSED, Outcome.BROKEN, Outcome.NOT_OURS)
    assert [counts[outcome] for outcome in bad] == [0] * len(bad), done.stdout
    for method in (
        "merge",
        "create_index",
        "cleanup_old_versions",
        "restore",
        "add_columns",
        "create_branch",
    ):
        assert f"LanceDataset.{method} " in done.stdout


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ({"a": [1, 2]}, {"a": [1, 3]}, "row 1 of column 'a'"),
        ({"a": [1, 2]}, {"a": [1]}, "rows:"),
        ({"a": [1]}, {"b": [1]}, "columns:"),
        ({"a": [float("nan"), 1.0]}, {"a": [float("nan"), 1.0]}, None),
        ({"a": [0.0]}, {"a": [-0.0]}, "row 0"),
        ({"a": [[1.0, float("nan")]]}, {"a": [[1.0, float("nan")]]}, None),
        ({"a": [None, "x"]}, {"a": ["", "x"]}, "row 0"),
    ],
)
def test_a_difference_is_found_and_said(ours, theirs, words):
    found = difference(pa.table(ours), pa.table(theirs))
    assert found is None if words is None else words in found


def test_metadata_and_order_count_where_they_are_promised():
    table = pa.table({"a": [1, 2]})
    assert "metadata:" in difference(table, table.replace_schema_metadata({"k": "v"}))
    assert difference(table, pa.table({"a": [2, 1]}), ordered=False) is None


@pytest.mark.peer
def test_wrong_rows_and_untyped_errors_of_ours_are_reported(tmp_path, monkeypatch):
    import lance
    from shadow_calls import install

    from lance_ops.errors import UnsupportedError
    from lance_ops.table.dataset import Dataset

    dataset = lance.write_dataset(pa.table({"a": [1, 2, 3]}), tmp_path)
    tally = Tally()
    put_back = install(tally)
    try:
        assert dataset.to_table().num_rows == 3
        monkeypatch.setattr(Dataset, "to_table", lambda *_, **__: pa.table({"a": [1, 2, 4]}))
        assert dataset.to_table().num_rows == 3
        monkeypatch.setattr(Dataset, "to_table", lambda *_, **__: {}["missing"])
        assert dataset.head(2).num_rows == 2

        def refuse(*_, **__):
            raise UnsupportedError("not for us")

        monkeypatch.setattr(Dataset, "to_table", refuse)
        assert len(list(dataset.to_batches())) == 1
        dataset.to_table(order_by=["a"])
    finally:
        put_back()
    assert dataset.to_table().num_rows == 3
    assert tally.counts == {
        (Outcome.EQUAL, "LanceDataset.to_table"): 1,
        (Outcome.DIFFERENT, "LanceDataset.to_table"): 1,
        (Outcome.CRASHED, "LanceDataset.head"): 1,
        (Outcome.REFUSED, "LanceDataset.to_batches"): 1,
        (Outcome.NOT_OURS, "LanceDataset.to_table"): 1,
    }
    out = io.StringIO()
    tally.write(out, shown={Outcome.DIFFERENT: 1, Outcome.CRASHED: 1})
    assert tally.is_bad
    for words in ("UnsupportedError: not for us", "row 2 of column 'a'", "KeyError", "order_by"):
        assert words in out.getvalue()


@pytest.mark.peer
def test_writes_of_ours_that_do_something_else_break_or_refuse_are_reported(tmp_path, monkeypatch):
    import lance
    from shadow_calls import install

    import lance_ops as lo
    from lance_ops.errors import UnsupportedError

    def refuse(*_, **__):
        raise UnsupportedError("not for us")

    tally = Tally()
    put_back = install(tally)
    ours = {name: getattr(lo, name) for name in ("delete", "append", "add_columns")}
    try:
        dataset = lance.write_dataset(pa.table({"a": [1, 2, 3]}), tmp_path / "t.lance")
        dataset.delete("a = 1")
        for broken in (
            lambda target, _: ours["delete"](target, "a < 9"),
            lambda target, _: ours["add_columns"](target, {"b": "a"}) and ours["delete"](target, "a = 2"),
            lambda *_: {}["missing"],
            refuse,
        ):
            monkeypatch.setattr(lo, "delete", broken)
            dataset.delete("a = 2")
            dataset.insert(pa.table({"a": [2]}))
        monkeypatch.undo()
        dataset.delete("a = 77")
        reader = pa.RecordBatchReader.from_batches(dataset.schema, iter(dataset.to_table().to_batches()))
        dataset.insert(reader)
        with pytest.raises(OSError, match="different schema"):
            dataset.insert(pa.table({"z": [2]}))
    finally:
        put_back()
    assert dataset.to_table()["a"].to_pylist() == [3, 2] * 2
    assert {key: count for key, count in tally.counts.items() if key[1] == "LanceDataset.delete"} == {
        (Outcome.EQUAL, "LanceDataset.delete"): 1,
        (Outcome.DIFFERENT, "LanceDataset.delete"): 2,
        (Outcome.CRASHED, "LanceDataset.delete"): 1,
        (Outcome.REFUSED, "LanceDataset.delete"): 1,
        (Outcome.KNOWN, "LanceDataset.delete"): 1,
    }
    assert tally.counts[Outcome.BOTH_REFUSE, "write_dataset"] == 1
    assert tally.of(Outcome.BROKEN) == 0
    found = " ".join(tally.examples[Outcome.DIFFERENT])
    assert "num_deleted_rows: ours 2" in found
    assert "versions: ours [1, 2, 3, 4, 5, 6]" in found


@pytest.mark.parametrize(
    ("scores", "ids", "limit", "words"),
    [
        ([0.1, 0.2, 0.2], [1, 3, 2], None, None),
        ([0.1, 0.2, 0.2], [1, 3, 4], None, "rows 1 to 3"),
        ([0.1, 0.2, 0.2], [1, 3, 4], 3, None),
        ([0.1, 0.2, 0.2], [1, 3, 9], 3, "rows 1 to 3"),
        ([0.1, 0.2, 0.3], [1, 2, 3], None, "_distance of row 2"),
        ([0.1, 0.2], [1, 2], None, "rows:"),
    ],
)
def test_ties_may_come_in_any_order_and_nothing_else(scores, ids, limit, words):
    from shadow_search import Search, search_difference

    theirs = pa.table({"id": [1, 2, 3], "_distance": [0.1, 0.2, 0.2]})
    more = pa.table({"id": [1, 2, 3, 4, 5], "_distance": [0.1, 0.2, 0.2, 0.2, 0.7]})
    ours = pa.table({"id": ids, "_distance": scores})
    if ids[-1] == 9:
        theirs, ours = ours, theirs
    search = Search("_distance", limit=limit, more=lambda: more)
    found, close = search_difference(ours, theirs, search)
    assert not close
    assert found is None if words is None else words in found


@pytest.mark.parametrize(("mine", "words"), [([1, 2, 3, 8], None), ([1, 7, 8, 9], "recall: ours 0.250")])
def test_an_index_that_approximates_has_to_find_as_much_as_the_peer(mine, words):
    from shadow_search import Search, search_difference

    exact = pa.table({"_rowid": [1, 2, 3, 4]})
    search = Search(
        "_distance",
        approximate=True,
        exact=lambda: exact,
        ours=lambda: pa.table({"_rowid": mine}),
        theirs=lambda: pa.table({"_rowid": [1, 2, 4, 9]}),
    )
    answers = [pa.table({"_distance": [value]}) for value in (0.1, 0.9)]
    found, close = search_difference(*answers, search)
    assert close == (words is None)
    assert found is None if words is None else words in found
