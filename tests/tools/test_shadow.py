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
    refused = counts[Outcome.DIFFERENT], counts[Outcome.CRASHED], counts[Outcome.REFUSED]
    assert refused == (0, 0, 0), done.stdout


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ({"a": [1, 2]}, {"a": [1, 3]}, "row 1 of column 'a'"),
        ({"a": [1, 2]}, {"a": [1]}, "rows:"),
        ({"a": [1]}, {"b": [1]}, "schema:"),
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
        dataset.to_table(columns={"b": "a + 1"})
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
    for words in ("UnsupportedError: not for us", "row 2 of column 'a'", "KeyError", "columns computed"):
        assert words in out.getvalue()
