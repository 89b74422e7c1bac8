"""What indices said is kept for who asks the same again, and for nobody else."""

import shutil
import threading
import warnings
import weakref
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.index.btree.kind import BTreeKind
from lance_ops.index.search import pruner as module
from lance_ops.index.search.pruner import IndexPruner

FILTER = "i BETWEEN 10 AND 19"


def write(uri, first=0, rows=1000, mode="create"):
    values = range(first, first + rows)
    lo.write_dataset(pa.table({"i": pa.array(values, pa.int64())}), uri, mode=mode, max_rows_per_file=100)


@pytest.fixture
def uri(tmp_path):
    path = str(tmp_path / "t.lance")
    write(path)
    lo.create_index(path, "i", "BTREE")
    return path


@pytest.fixture
def searches(monkeypatch):
    """Counts how often a segment is searched."""
    made, search = [], BTreeKind.search

    def counted(kind, dataset, segment, query):
        made.append(query)
        return search(kind, dataset, segment, query)

    monkeypatch.setattr(BTreeKind, "search", counted)
    return made


def found(dataset, condition=FILTER):
    return dataset.to_table(filter=condition)["i"].to_pylist()


def test_the_same_question_is_answered_once_for_one_dataset(uri, searches):
    dataset = lo.dataset(uri)
    assert found(dataset) == found(dataset) == list(range(10, 20))
    assert dataset.to_table(["i"], FILTER, 3, 2)["i"].to_pylist() == [12, 13, 14]
    assert dataset.count_rows(FILTER) == 10
    assert len(searches) == 1
    assert found(dataset, "i = 5") == [5]
    assert len(searches) == 2
    assert found(lo.dataset(uri)) == list(range(10, 20))
    assert len(searches) == 3


def test_who_asks_for_no_index_gets_none(uri, searches):
    dataset = lo.dataset(uri)
    assert found(dataset) == dataset.to_table(filter=FILTER, use_scalar_index=False)["i"].to_pylist()
    assert "index" not in dataset.scanner(None, FILTER, use_scalar_index=False).explain()
    assert len(searches) == 1


def test_every_version_has_its_own_answers(uri):
    """Each change is one that keeps the name of the index, or that of the dataset."""
    versions = [lo.dataset(uri)]
    assert found(versions[0]) == list(range(10, 20))
    lo.delete(uri, "i = 12")
    versions.append(lo.dataset(uri))
    write(uri, 10, 2, mode="append")
    versions.append(lo.dataset(uri))
    lo.optimize_indices(uri)
    lo.compact(uri)
    versions.append(lo.dataset(uri))
    deleted = [10, 11, *range(13, 20)]
    expected = [list(range(10, 20)), deleted, [*deleted, 10, 11], [*deleted, 10, 11]]
    for _ in range(2):
        assert [found(version) for version in versions] == expected
    lo.restore(uri, 2)
    assert found(lo.dataset(uri)) == list(range(10, 20))


def test_another_dataset_at_the_same_place_is_another_one(uri):
    before = lo.dataset(uri)
    assert found(before) == list(range(10, 20))
    shutil.rmtree(uri)
    write(uri, first=15)
    lo.create_index(uri, "i", "BTREE")
    assert found(lo.dataset(uri)) == list(range(15, 20))
    assert found(lo.dataset(uri)) == list(range(15, 20))


def test_an_index_that_cannot_be_read_is_told_each_time(uri):
    for file in Path(uri, "_indices").rglob("*.lance"):
        file.write_bytes(b"nothing")
    dataset = lo.dataset(uri)
    for _ in range(3):
        with pytest.warns(UnreadableIndexWarning):
            assert found(dataset) == list(range(10, 20))


def test_what_is_kept_keeps_no_dataset_alive(uri):
    dataset = lo.dataset(uri)
    found(dataset)
    found(dataset)
    dataset.to_table()
    gone = weakref.ref(dataset)
    del dataset
    assert gone() is None


def test_few_answers_are_kept_and_no_large_ones(uri, monkeypatch):
    dataset = lo.dataset(uri)
    pruner = IndexPruner()
    asked = [dataset.parse_filter(f"i = {number}") for number in range(40)]
    for expression in asked:
        pruner.prune(dataset, expression)
    kept = dataset.cache("index answers")
    assert [key for key, _ in kept.items()] == [id(expression) for expression in asked[-16:]]
    monkeypatch.setattr(module, "_MOST_ROWS", 5)
    large = dataset.parse_filter("i < 16")
    assert len(pruner.prune(dataset, large).rows) == 16
    assert kept.get(id(large)) is None


def test_threads_that_ask_one_dataset_get_their_own_answers(uri):
    dataset = lo.dataset(uri)
    wrong = []

    def ask(first):
        for number in range(first, first + 40):
            if found(dataset, f"i = {number % 50}") != [number % 50]:
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
