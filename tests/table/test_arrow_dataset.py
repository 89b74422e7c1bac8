"""Datasets as pyarrow datasets and Arrow streams: DuckDB, Polars and pandas read them."""

import pickle
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import lance_ops as lo
from lance_ops.errors import UnsupportedError
from lance_ops.table.arrow_dataset import ArrowDataset, pushed_filter
from lance_ops.table.dataset import Dataset

ROWS = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "small": pa.array([n % 7 for n in range(1000)], pa.uint8()),
        "word": [None if n % 10 == 3 else f"w{n % 5}" for n in range(1000)],
        "half": [n / 2 for n in range(1000)],
        "odd": [n % 2 == 1 for n in range(1000)],
        "day": [date(1969, 1, 1) + timedelta(days=n) for n in range(1000)],
    }
)


@pytest.fixture
def dataset(tmp_path: Path) -> lo.Dataset:
    uri = str(tmp_path / "t.lance")
    lo.append(uri, ROWS, max_rows_per_file=250)
    lo.create_index(uri, "id")
    lo.delete(uri, "id = 500")
    return lo.dataset(uri)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str | None]]:
    """Columns and filters that scans were asked for."""
    seen = []
    really = Dataset.to_batches

    def look(self, columns=None, condition=None, *more, **options):
        seen.append((columns, None if condition is None else condition.to_sql()))
        return really(self, columns, condition, *more, **options)

    monkeypatch.setattr(Dataset, "to_batches", look)
    return seen


FILTERS = [
    pc.field("id") > 990,
    (pc.field("id") >= 10) & (pc.field("word") == "w2") & (pc.field("half") < 20.5),
    (pc.field("small") == 3) | pc.field("word").is_null(),
    ~(pc.field("odd") == pc.scalar(True)) & (pc.field("small") <= 2),
    pc.field("id").isin([5, 500, 900]),
    pc.field("word") == 'a) and (id == "1',
    (pc.field("id") + 1) * 2 == 20,
    pc.field("small") < 300,
    pc.field("id") != 4,
    (pc.field("day") >= date(1969, 12, 30)) & (pc.field("day") < date(1970, 2, 1)),
    pc.field("day") > pa.scalar(-800_000, pa.date32()),
]


@pytest.mark.parametrize("condition", FILTERS, ids=str)
def test_every_filter_selects_what_pyarrow_selects(dataset, condition):
    live = dataset.to_table()
    found = dataset.to_pyarrow_dataset()
    assert found.to_table(filter=condition).equals(live.filter(condition))
    assert found.to_table(columns=["half"], filter=condition).equals(live.filter(condition).select(["half"]))
    assert found.count_rows(condition) == live.filter(condition).num_rows


def test_comparisons_that_must_hold_are_pushed_and_no_others():
    def pushed(condition: pc.Expression) -> str | None:
        found = pushed_filter(str(condition), ROWS.schema)
        return None if found is None else found.to_sql()

    assert pushed((pc.field("id") >= 10) & (pc.field("word") == "w2")) == "id >= 10 AND word = 'w2'"
    assert pushed((pc.field("id") >= 10) & (pc.field("half") < 20.5)) == "id >= 10"
    assert pushed(pc.field("day") == date(1970, 1, 2)) == "day = DATE '1970-01-02'"
    assert pushed(pc.field("day") > pa.scalar(-800_000, pa.date32())) is None
    assert pushed((pc.field("id") > 1) | (pc.field("id") < 0)) is None
    assert pushed(~(pc.field("id") > 1)) is None
    assert pushed(pc.field("small") < 300) is None
    assert pushed(pc.field("id") == 2.5) is None
    assert pushed(pc.field("gone") == 1) is None


@pytest.mark.parametrize(
    "condition",
    [
        pc.field("flag") == pc.field("true"),
        pc.field("flag") == pc.scalar(True),
        pc.field("true") == pc.scalar(False),
        pc.field("id") == pc.field("5"),
        pc.field("5") >= 5,
        (pc.scalar(5) < pc.scalar(6)) & (pc.field("id") >= 0),
        pc.field("word") == pc.field('"a"'),
    ],
    ids=str,
)
def test_columns_named_like_literals_are_told_from_these(tmp_path, condition):
    rows = pa.table(
        {
            "id": [5, 6, 7, 8],
            "flag": [True, False, True, False],
            "true": [True, False, False, True],
            "5": [5, 6, 9, 1],
            "word": ["a", "b", "a", "b"],
            '"a"': ["b", "b", "a", "a"],
        }
    )
    lo.append(tmp_path / "t.lance", rows)
    found = lo.dataset(tmp_path / "t.lance").to_pyarrow_dataset().to_table(filter=condition)
    assert found.equals(rows.filter(condition))


def test_it_is_a_pyarrow_dataset(dataset):
    found = dataset.to_pyarrow_dataset()
    assert isinstance(found, pads.Dataset)
    assert found.schema == dataset.schema
    assert found.count_rows() == 999
    assert found.head(3).num_rows == 3
    assert found.take([0, 998])["id"].to_pylist() == [0, 999]
    assert sum(batch.num_rows for batch in found.to_batches(batch_size=100)) == 999
    computed = found.to_table(columns={"twice": pc.field("id") * 2}, filter=pc.field("id") < 2)
    assert computed.to_pydict() == {"twice": [0, 2]}
    assert pickle.loads(pickle.dumps(found)).count_rows() == 999
    with pytest.raises(UnsupportedError):
        found.get_fragments()


def test_duckdb_pushes_projection_and_filter_down(dataset, asked):
    events = dataset.to_pyarrow_dataset()
    assert isinstance(events, ArrowDataset)
    found = duckdb.sql(
        "SELECT word, count(*) AS n FROM events WHERE id >= 900 GROUP BY word ORDER BY word"
    ).fetchall()
    expected = dataset.to_table(filter="id >= 900").group_by("word").aggregate([([], "count_all")])
    assert dict(found) == dict(
        zip(expected["word"].to_pylist(), expected["count_all"].to_pylist(), strict=True)
    )
    columns, condition = asked[-1]
    assert set(columns) == {"id", "word"}
    assert condition is not None
    assert "id >= 900" in condition


def test_polars_pushes_projection_and_filter_down(dataset, asked):
    lazy = pl.scan_pyarrow_dataset(dataset.to_pyarrow_dataset())
    found = lazy.filter(pl.col("id") >= 900).select("half").collect()
    assert sorted(found["half"].to_list()) == [n / 2 for n in range(900, 1000)]
    columns, condition = asked[-1]
    assert "word" not in columns
    assert condition is not None
    assert "id >= 900" in condition


def test_pandas_gets_only_what_was_asked_for(dataset, asked):
    events = dataset.to_pyarrow_dataset()
    found = events.to_table(columns=["half"], filter=pc.field("id") >= 900).to_pandas()
    assert found["half"].tolist() == [n / 2 for n in range(900, 1000)]
    columns, condition = asked[-1]
    assert set(columns) == {"half", "id"}
    assert condition is not None
    assert "id >= 900" in condition


def test_the_stream_is_read_by_all_three(dataset):
    live = dataset.to_table()
    assert pa.table(dataset).equals(live)
    assert pl.DataFrame(dataset)["id"].to_list() == live["id"].to_pylist()
    assert duckdb.sql("SELECT count(*), sum(id) FROM dataset").fetchall() == [(999, sum(range(1000)) - 500)]
    assert isinstance(pa.RecordBatchReader.from_stream(dataset).read_pandas(), pd.DataFrame)
