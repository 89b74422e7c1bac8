"""Every operation of the Python API and the core commands once, in the order in which a table lives.

`make lowest` runs this with the oldest dependencies and without pandas.
"""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import lance_ops as lo

INDEXES = [
    ("id", "BTREE", {}),
    ("kind", "BITMAP", {}),
    ("at", "ZONEMAP", {}),
    ("score", "BLOOMFILTER", {}),
    ("name", "NGRAM", {}),
    ("labels", "LABEL_LIST", {}),
    ("name", "INVERTED", {"stem": False}),
]


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "kind": pa.array([f"k{n % 3}" for n in numbers]),
            "at": pa.array([datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in numbers]),
            "score": pa.array([n / 4 for n in numbers], pa.float32()),
            "name": [f"row number {n}" for n in numbers],
            "labels": [[f"l{n % 2}", "all"] for n in numbers],
            "vector": pa.array([[float(n), 1.0] for n in numbers], pa.list_(pa.float32(), 2)),
        }
    )


def test_rows_are_written_changed_indexed_compacted_and_cleaned(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows(0, 40), uri, enable_stable_row_ids=True)
    lo.append(uri, rows(40, 20))
    for column, kind, parameters in INDEXES:
        lo.create_index(uri, column, kind, name=f"{column}_{kind}", parameters=parameters)
    lo.create_tag(uri, "before", lo.dataset(uri).version)

    lo.delete(uri, "id < 5")
    lo.update(uri, {"score": "score * 2"}, "id >= 50")
    lo.merge_insert(uri, rows(55, 10), on="id", when_matched="update_all", when_not_matched="insert_all")
    lo.replace_where(uri, rows(20, 2), "id IN (20, 21)")
    lo.add_columns(uri, {"twice": "id * 2"})
    lo.alter_columns(uri, {"path": "twice", "name": "double", "data_type": pa.float64()})
    lo.optimize_indices(uri)
    lo.compact(uri)

    table = lo.dataset(uri)
    assert table.count_rows() == 60
    ids = table.to_table(["id", "double"], "double >= 0").sort_by("id")
    assert ids["id"].to_pylist() == list(range(5, 65))
    assert ids["double"].to_pylist() == [2.0 * n for n in range(5, 65)]
    for condition, expected in {
        "id = 30": [30],
        "kind = 'k1' AND id < 10": [7],
        "at < TIMESTAMP '2024-01-08 00:00:00'": [5, 6],
        "score = 2.5": [10],
        "contains(name, 'number 33')": [33],
        "array_has(labels, 'l1') AND id < 10": [5, 7, 9],
    }.items():
        assert table.to_table(["id"], condition)["id"].to_pylist() == expected, condition
    nearest = table.to_table(["id"], nearest={"column": "vector", "q": [12.0, 1.0], "k": 1})
    assert nearest["id"].to_pylist() == [12]
    assert table.to_table(["id"], full_text_query="33")["id"].to_pylist() == [33]

    lo.drop_columns(uri, ["double"])
    lo.drop_index(uri, "name_NGRAM")
    lo.create_branch(uri, "side")
    lo.delete_branch(uri, "side")
    lo.shallow_clone(uri, str(tmp_path / "shallow.lance"))
    lo.deep_clone(uri, str(tmp_path / "deep.lance"))
    assert lo.dataset(uri, "before").count_rows() == 60
    lo.restore(uri, lo.dataset(uri).version)
    assert lo.cleanup(uri, retain_versions=1, dry_run=True) is not None
    for dataset in (uri, str(tmp_path / "deep.lance")):
        assert lo.fsck(dataset, deep=True).ok
    assert lo.measure_health(lo.dataset(uri)) is not None


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_the_command_line_takes_files_and_looks_after_a_fleet(tmp_path, suffix):
    source = tmp_path / f"rows.{suffix}"
    flat = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
    pq.write_table(flat, source) if suffix == "parquet" else pyarrow.csv.write_csv(flat, source)
    (tmp_path / "lake").mkdir()
    uri, policy = str(tmp_path / "lake" / "t.lance"), str(tmp_path / "fleet.yaml")
    answers = {}
    for arguments in (
        ["append", uri, str(source)],
        ["query", uri, "--filter", "id > 2", "--json"],
        ["health", uri],
        ["fsck", uri],
        ["fleet", "adopt", str(tmp_path / "lake"), "--policy", policy],
        ["fleet", "run", "--policy", policy],
        ["fleet", "report", "--policy", policy, "-o", str(tmp_path / "report.html")],
    ):
        ran = subprocess.run(
            [sys.executable, "-m", "lance_ops", *arguments], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, (arguments, ran.stdout, ran.stderr)
        answers[" ".join(arguments[:2])] = ran.stdout
    assert '"c"' in answers[f"query {uri}"]
