"""`fast_search`: fragments that the indices of a filter do not cover are left out, as with pylance."""

import warnings
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning

pytestmark = pytest.mark.peer

CONDITIONS = (
    "x = 1",
    "y = 1",
    "z = 1",
    "x = 1 AND y = 1",
    "x = 1 OR y = 1",
    "x = 1 AND z = 1",
    "x = 1 OR z = 1",
    "y = 1 AND z = 1",
    "m = 1",
    "m = 1 AND x = 1",
    "y = 1 OR m = 1",
    "NOT x = 1",
    "x IS NULL",
    "x + 1 = 2",
    "x = 1 AND m = 1 AND y = 1",
    "s LIKE '%b1c%'",
    "contains(s, 'ab1c') AND y = 1",
    "(x = 1 OR z = 1) AND y = 1",
    "i < 50 AND x = 1",
    "x IN (1, 2) AND (y = 1 OR x = 1)",
)


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    columns = {name: [n % size for n in numbers] for name, size in zip("xyzm", (5, 3, 2, 4), strict=True)}
    texts = [f"ab{n % 5}c" for n in numbers]
    return pa.table({"i": list(numbers), **columns, "s": texts, "t": [f"red {n}" for n in numbers]})


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Fragments 0 to 3; `x`, `m` and `s` are indexed in the first one, `y` in the first two, `t` in three."""
    uri = str(tmp_path_factory.mktemp("fast") / "t.lance")
    lo.write_dataset(rows(0, 30), uri)
    lo.create_index(uri, "x", "BTREE")
    lo.create_index(uri, "m", "ZONEMAP")
    lo.create_index(uri, "s", "NGRAM")
    lo.append(uri, rows(30, 60))
    lo.create_index(uri, "y", "BITMAP")
    lo.append(uri, rows(60, 90))
    lo.create_index(uri, "t", "INVERTED")
    lo.append(uri, rows(90, 100))
    lo.delete(uri, "i = 5 OR i = 35")
    return uri


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_fast_search_finds_what_it_finds_with_pylance(uri: str, condition: str) -> None:
    expected = lance.dataset(uri).to_table(columns=["i"], filter=condition, fast_search=True)["i"]
    dataset = lo.dataset(uri)
    assert dataset.to_table(["i"], condition, fast_search=True)["i"].to_pylist() == expected.to_pylist()
    assert dataset.scanner(["i"], condition, fast_search=True).count_rows() == len(expected)
    assert dataset.to_table(["i"], condition)["i"].to_pylist() == (
        lance.dataset(uri).to_table(columns=["i"], filter=condition)["i"].to_pylist()
    )


@pytest.mark.parametrize("prefilter", [True, False])
@pytest.mark.parametrize("condition", ["x = 1", "z = 1", "x = 1 AND y = 1"])
def test_so_does_the_filter_beside_a_search(uri: str, condition: str, prefilter: bool) -> None:
    search = {"full_text_query": "red", "fast_search": True, "prefilter": prefilter}
    expected = lance.dataset(uri).to_table(columns=["i"], filter=condition, **search)["i"].to_pylist()
    assert sorted(lo.dataset(uri).to_table(["i"], condition, **search)["i"].to_pylist()) == sorted(expected)


def test_without_an_index_that_serves_the_filter_all_rows_are_read(uri: str) -> None:
    dataset = lo.dataset(uri)
    assert dataset.to_table(fast_search=True).num_rows == dataset.count_rows()
    assert dataset.scanner(filter="x = 1", fast_search=True, use_scalar_index=False).count_rows() == 20


def test_rows_of_a_segment_that_cannot_be_read_are_scanned(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows(0, 30), uri)
    lo.create_index(uri, "x", "BTREE")
    lo.create_index(uri, "y", "BITMAP")
    segment = next(item for item in lo.dataset(uri).indices if item.name == "x_idx")
    Path(uri, segment.directory, "page_data.lance").unlink()
    lo.append(uri, rows(30, 60))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = lo.dataset(uri).to_table(["i"], "x = 1 AND y = 1", fast_search=True)["i"].to_pylist()
    assert found == [1, 16]
    assert any(item.category is UnreadableIndexWarning for item in caught)
