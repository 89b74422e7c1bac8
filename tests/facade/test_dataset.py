"""The dataset object: delegates of functions, over a version that never moves."""

import inspect
import re
import threading
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_ops as lo
from lance_ops.errors import (
    InvalidArgumentError,
    LanceOpsError,
    PredicateError,
    UnknownArgumentError,
    UnsupportedError,
)
from lance_ops.facade.dataset import MISSING
from lance_ops.facade.delegates import Delegate
from lance_ops.table.dataset import Dataset as Snapshot

PAGE = Path(__file__).parents[2] / "docs" / "pylance.md"
DELEGATES = {name: item for name, item in vars(lo.Dataset).items() if isinstance(item, Delegate)}


@pytest.fixture
def dataset(tmp_path):
    return lo.write_dataset({"id": [1, 2, 3], "kind": ["a", "b", None]}, str(tmp_path / "t.lance"))


@pytest.mark.parametrize("name", DELEGATES)
def test_a_method_has_the_arguments_of_its_function(name):
    own = list(inspect.signature(getattr(lo.Dataset, name)).parameters.values())
    function = list(inspect.signature(DELEGATES[name].function).parameters.values())
    assert own[0].name == "self"
    assert own[1:] == function[1:]
    assert getattr(lo.Dataset, name).__doc__ == DELEGATES[name].function.__doc__


def test_the_object_moves_to_what_it_commits_and_the_snapshot_stays(dataset):
    before = dataset.snapshot()
    assert type(before) is Snapshot
    dataset.delete("id = 1")
    assert (dataset.version, dataset.count_rows()) == (2, 2)
    assert (before.version, before.count_rows()) == (1, 3)
    assert dataset.result.rows_deleted == 1


def test_a_plan_and_a_read_move_nothing(dataset):
    dataset.delete("id = 1", dry_run=True)
    dataset.cleanup(dry_run=True)
    dataset.measure_health()
    assert dataset.version == dataset.latest_version == 1


def test_functions_and_other_objects_move_no_object(dataset):
    other = lo.dataset(dataset.uri)
    lo.delete(dataset, "id = 1")
    other.append(pa.table({"id": [4], "kind": ["d"]}))
    assert (dataset.version, dataset.latest_version, other.version) == (1, 3, 3)
    assert dataset.checkout_latest() is dataset
    assert dataset.version == 3


def test_an_operation_of_an_old_version_acts_on_the_newest(dataset):
    old = dataset.checkout_version(1)
    dataset.append(pa.table({"id": [4], "kind": ["d"]}))
    old.delete("id = 1")
    assert (old.version, sorted(old.to_table()["id"].to_pylist())) == (3, [2, 3, 4])


def test_a_stream_goes_on_at_its_version_while_the_object_moves(dataset):
    with dataset.to_batches() as batches:
        dataset.delete("true")
        assert batches.read_all()["id"].to_pylist() == [1, 2, 3]
    assert dataset.count_rows() == 0


def test_threads_that_read_never_see_half_a_version(dataset):
    sums, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            ids = dataset.to_table(columns=["id"])["id"].to_pylist()
            sums.append(ids == list(range(1, len(ids) + 1)))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for number in range(4, 12):
            dataset.append(pa.table({"id": [number], "kind": ["x"]}))
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert sums
    assert all(sums)


@pytest.mark.parametrize(
    "door", [lo.fsck, lo.measure_health, lo.describe_indices, lo.compact, lo.cleanup, lo.list_jobs]
)
def test_functions_take_the_object(dataset, door):
    door(dataset)


def test_arguments_of_pylance_are_taken_or_refused_by_name(dataset):
    assert dataset.to_table(batch_readahead=3, late_materialization=True).num_rows == 3
    with pytest.raises(UnknownArgumentError, match="include_deleted_rows"):
        dataset.to_table(include_deleted_rows=True)
    with pytest.raises(UnknownArgumentError, match="blob_handling"):
        dataset.to_table(blob_handling="all_descriptions")
    with pytest.raises(UnknownArgumentError, match="committer"):
        lo.write_dataset({"id": [1]}, dataset.uri, commit_lock=object())
    with pytest.raises(UnknownArgumentError, match="batch_size"):
        dataset.scanner(batchsize=3)
    with pytest.raises(InvalidArgumentError, match="no clause"):
        dataset.merge_insert("id").execute({"id": [1]})
    with pytest.raises(UnsupportedError, match="force_binary_copy"):
        dataset.optimize.compact_files(compaction_mode="force_binary_copy")


@pytest.mark.parametrize(
    "condition", [pc.field("nope") == 1, pc.field("kind") == 1, pc.year(pc.field("id")) == 1], ids=str
)
def test_a_condition_that_cannot_be_read_deletes_nothing(dataset, condition):
    for call in (dataset.delete, dataset.count_rows):
        with pytest.raises((PredicateError, UnsupportedError)):
            call(condition)
    assert dataset.latest_version == 1


def test_rows_are_sorted_with_nulls_and_nan_in_their_place(tmp_path):
    table = pa.table({"x": [2.0, float("nan"), None, 1.0], "n": [1, 2, 3, 4]})
    made = lo.write_dataset(table, str(tmp_path / "t"))
    assert made.to_table(order_by=["x"])["n"].to_pylist() == [4, 1, 2, 3]
    assert made.to_table(columns=["n"], order_by=["x"], limit=2, offset=1).to_pydict() == {"n": [1, 2]}
    assert made.scanner(order_by=["x"], limit=3, offset=2).count_rows() == 2
    with pytest.raises(LanceOpsError, match="nope"):
        made.to_table(order_by=["nope"])


def _rows_of_the_page() -> dict[str, str]:
    text = PAGE.read_text().partition("## Methods of the dataset")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", text, re.MULTILINE))


@pytest.mark.peer
def test_the_page_says_of_every_name_of_pylance_what_it_is_here(dataset):
    names = {name for name in dir(lance.LanceDataset) if not name.startswith("_")}
    page = _rows_of_the_page()
    assert page.keys() == names
    for name, here in page.items():
        if hasattr(dataset, name):
            assert here == "the same"
        else:
            assert here == MISSING[name]
            with pytest.raises(AttributeError, match=re.escape(MISSING[name])):
                getattr(dataset, name)


def test_no_missing_name_is_there(dataset):
    assert not [name for name in MISSING if hasattr(dataset, name)]
