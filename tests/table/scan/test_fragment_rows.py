"""Many rows of a fragment, but not all: of large values only those are read, whatever lies beside them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.storage import open_store
from lance_ops.table.dataset import Dataset
from lance_ops.table.scan import fragment_rows
from tests.support.counting_store import CountingStore

ROWS = 300
LARGE = 8 << 10
VERSIONS = ["2.0", "2.1", "2.2"]


def make_table() -> pa.Table:
    rng = np.random.default_rng(3)
    texts = [rng.bytes(300).hex() if number % 7 else None for number in range(ROWS)]
    return pa.table(
        {
            "number": pa.array(rng.integers(0, 5000, ROWS)),
            "large": pa.array([rng.bytes(LARGE) for _ in range(ROWS)]),
            "list": pa.array([list(range(number % 4)) for number in range(ROWS)]),
            "text": pa.array(texts),
            "struct": pa.array([{"a": number, "b": text} for number, text in enumerate(texts)]),
            "vectors": pa.array(
                [rng.random((number % 3, 96), np.float32).tolist() for number in range(ROWS)],
                pa.list_(pa.list_(pa.float32(), 96)),
            ),
        }
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return make_table()


@pytest.fixture(scope="module", params=VERSIONS)
def uri(request, table, tmp_path_factory) -> str:
    made = str(tmp_path_factory.mktemp("rows") / "t.lance")
    lo.write_dataset(table, made, data_storage_version=request.param)
    # In a second file, and null in the first.
    lo.add_columns(made, {"later": "number + 1"})
    return made


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    share=st.sampled_from([0.03, 0.1, 0.2, 0.5, 0.9]),
    columns=st.lists(
        st.sampled_from(["number", "large", "list", "text", "struct", "vectors", "later"]),
        min_size=1,
        unique=True,
    ),
)
def test_any_share_of_the_rows_is_what_a_scan_shows(uri, table, seed, share, columns):
    rng = np.random.default_rng(seed)
    picked = np.flatnonzero(rng.random(ROWS) < share)
    picked = picked if len(picked) else np.array([5])
    dataset = lo.dataset(uri)
    found = dataset.take(picked, columns)
    found.validate(full=True)
    expected = dataset.to_table(columns).take(pa.array(picked))
    assert found.schema.equals(expected.schema)
    assert found.to_pylist() == expected.to_pylist()


def test_large_values_that_are_not_wanted_stay_unread(table):
    store = open_store("memory://large-values-of-some-rows")
    lo.write_dataset(table.select(["number", "large"]), store, data_storage_version="2.2")
    counted = CountingStore(store)
    dataset = Dataset.open(counted)
    counted.reset()
    # Far enough from each other for a store that reads what lies between two ranges.
    picked = np.concatenate([np.arange(60), np.arange(260, ROWS)])
    found = dataset.take(picked, ["large", "number"])
    assert found.equals(table.select(["large", "number"]).take(pa.array(picked)))
    assert counted.num_bytes < 0.5 * ROWS * LARGE


def test_columns_of_wide_tables_are_not_looked_at_one_by_one(tmp_path, monkeypatch):
    names = [f"c{number}" for number in range(fragment_rows._MOST_LOOKED_AT + 1)]
    lo.write_dataset(pa.table({name: range(50) for name in names}), tmp_path)
    monkeypatch.setattr(fragment_rows.FragmentReader, "sparse_from", None)
    assert lo.dataset(tmp_path).take([1, 3, 4]).column("c3").to_pylist() == [1, 3, 4]
