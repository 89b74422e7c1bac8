"""What a dataset keeps of its segments between searches, and whom that may not bind."""

import gc
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.cache import cache_stats
from lance_ops.errors import CorruptFileError
from lance_ops.index.opened import opened, opened_parts
from tests.support.caches import budget


@pytest.fixture
def dataset(tmp_path: Path) -> lo.Dataset:
    uri = tmp_path / "t.lance"
    lo.append(uri, pa.table({"x": [1, 2, 3]}))
    lo.create_index(uri, "x")
    return lo.dataset(uri)


def test_a_segment_is_opened_once_for_a_dataset_and_anew_for_the_next(dataset):
    (segment,) = dataset.indices
    made: list[object] = []

    def open_it() -> object:
        made.append(object())
        return made[-1]

    assert opened(dataset, segment, open_it) is opened(dataset, segment, open_it)
    assert opened(dataset, segment, open_it, part="other") is not made[0]
    again = lo.dataset(dataset.uri)
    assert opened(again, segment, open_it) is made[2]
    assert len(made) == 3


def test_what_cannot_be_opened_is_not_kept(dataset):
    (segment,) = dataset.indices

    def fail() -> object:
        raise CorruptFileError("cut off", path="x")

    with pytest.raises(CorruptFileError):
        opened(dataset, segment, fail)
    assert opened(dataset, segment, lambda: 7) == 7


def test_what_is_kept_goes_with_its_dataset_and_is_bounded(dataset):
    # The fixture keeps its own.
    dataset = lo.dataset(dataset.uri)
    (segment,) = dataset.indices
    with budget(0):
        pass
    with budget(2_000):
        for number in range(5):
            opened(dataset, segment, lambda: 1, part=str(number), size_bytes=lambda _: 700)
        kept = [part for (_, part), _ in dataset.cache("index segments").items()]
    assert kept == ["3", "4"]
    before = cache_stats().kinds["index segments"].entries
    del dataset
    gc.collect()
    assert cache_stats().kinds["index segments"].entries == before - 2


def test_searches_of_one_dataset_read_the_head_of_an_index_once(tmp_path: Path, monkeypatch):
    uri = tmp_path / "t.lance"
    lo.append(uri, pa.table({"x": list(range(9000))}))
    lo.create_index(uri, "x")
    dataset = lo.dataset(uri)
    assert dataset.to_table(filter="x = 7")["x"].to_pylist() == [7]
    (lookup,) = (uri / "_indices").glob("*/page_lookup.lance")
    lookup.rename(lookup.with_name("gone"))
    assert dataset.to_table(filter="x = 8000")["x"].to_pylist() == [8000]
    with pytest.warns(lo.errors.UnreadableIndexWarning):
        assert lo.dataset(uri).to_table(filter="x = 9")["x"].to_pylist() == [9]


def test_parts_are_read_together_once_and_those_not_asked_for_longest_go(dataset):
    (segment,) = dataset.indices
    read: list[list[int]] = []

    def read_them(numbers: list[int]) -> list[str]:
        read.append(numbers)
        return [f"part {number}" for number in numbers]

    def ask(*numbers: int) -> list[str]:
        return opened_parts(dataset, segment, numbers, read_them, lambda part: 1000)

    with budget(0):
        pass
    with budget(4_000):
        assert ask(1, 2) == ["part 1", "part 2"]
        assert ask(3, 1) == ["part 3", "part 1"]
        assert ask(4) == ["part 4"]
        assert ask(3, 1, 4, 2) == ["part 3", "part 1", "part 4", "part 2"]
    assert read == [[1, 2], [3], [4], [2]]


@pytest.mark.parametrize(
    ("kind", "conditions"),
    [
        ("BTREE", ["x = 3", "x BETWEEN 2 AND 9", "x > 90", "x IS NULL"]),
        ("BITMAP", ["x = 3", "x IN (3, 5, 60)", "x < 7", "x IS NULL"]),
        ("LABEL_LIST", ["array_has(l, 3)", "array_has_all(l, [3, 4])", "array_has_any(l, [4, 9])"]),
    ],
)
def test_what_a_search_left_behind_changes_no_later_one(tmp_path: Path, kind: str, conditions: list[str]):
    numbers = [None if number % 11 == 0 else number % 97 for number in range(30_000)]
    lists = [[number % 13, (number + 1) % 13] for number in range(30_000)]
    uri = tmp_path / "t.lance"
    lo.write_dataset(pa.table({"x": numbers, "l": lists}), uri, max_rows_per_file=12_000)
    lo.create_index(uri, "l" if kind == "LABEL_LIST" else "x", kind)
    dataset = lo.dataset(uri)
    for condition in [*conditions, *conditions, *reversed(conditions)]:
        expected = dataset.to_table(filter=condition, use_scalar_index=False)
        assert "index" in dataset.explain(filter=condition)
        assert dataset.to_table(filter=condition) == expected, condition
