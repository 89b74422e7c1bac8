"""Tables over which the peer has laid newer values of single cells: read, searched, changed and compacted."""

from datetime import timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import CorruptManifestError, InvalidArgumentError, UnsupportedError
from lance_ops.maintenance.index import operation
from lance_ops.table.manifest.data_file import Overlay
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.overlaid import rows_of_list, rows_of_range
from tests.support.overlays import ALLOWED, lay

MEMBERS = pa.struct([("a", pa.int64()), ("b", pa.string())])
ROWS = pa.table(
    {
        "i": pa.array(range(10), pa.int64()),
        "s": pa.array([None if i == 3 else {"a": i, "b": str(i)} for i in range(10)], MEMBERS),
        "l": pa.array([[i] for i in range(10)], pa.list_(pa.int64())),
    }
)
"""Field ids: i 0, s 1 with a 2 and b 3, l 4 with its items 5."""


def numbers(*values: int | None) -> pa.Table:
    return pa.table({"i": pa.array(values, pa.int64())})


@pytest.fixture
def uri(tmp_path, monkeypatch) -> str:
    monkeypatch.setenv(ALLOWED, "1")
    path = str(tmp_path / "t")
    lance.write_dataset(ROWS, path, max_rows_per_file=5, data_storage_version="2.1")
    return path


def agree(uri: str, **query: object) -> list[dict]:
    """What both read; with an index, the peer gives rows in another order."""
    ours = lo.dataset(uri).to_table(**query).to_pylist()
    theirs = lance.dataset(uri).to_table(**query).to_pylist()
    order = repr if "filter" in query else len
    assert sorted(ours, key=order) == sorted(theirs, key=order)
    return ours


def values(uri: str, column: str = "i") -> list:
    return [row[column] for row in agree(uri)]


def test_the_newest_value_of_a_cell_counts(uri):
    lay(uri, numbers(100, None), [0], [1, 3])
    lay(uri, numbers(7, 8), [0], [0, 1], fragment_id=1)
    lay(uri, numbers(101), [0], [1])
    assert values(uri) == [0, 101, 2, None, 4, 7, 8, 7, 8, 9]
    dataset = lo.dataset(uri)
    assert [row["i"] for row in dataset.take([1, 2, 3, 6]).to_pylist()] == [101, 2, None, 8]
    assert dataset.count_rows("i = 101") == 1
    assert dataset.count_rows("i = 1") == 0
    assert [batch.num_rows for batch in dataset.to_batches(batch_size=3, columns=["i"])]


def test_members_are_replaced_one_by_one_and_other_values_as_a_whole(uri):
    lay(uri, pa.table({"s": pa.array([None, {"a": 30, "b": None}], MEMBERS)}), [2, 3], [1, 3])
    assert values(uri, "s")[:4] == [{"a": 0, "b": "0"}, {"a": None, "b": None}, {"a": 2, "b": "2"}, None]
    one = pa.array([{"a": 77}, {"a": 78}], pa.struct([("a", pa.int64())]))
    lay(uri, pa.table({"s": one}), [2], [1, 2])
    both = pa.table({"i": pa.array([7, 8], pa.int64()), "l": pa.array([[1, 2], None], ROWS["l"].type)})
    lay(uri, both, [0, 5], [[0, 1], [2, 3]])
    assert values(uri, "s")[1:3] == [{"a": 77, "b": None}, {"a": 78, "b": "2"}]
    assert values(uri, "l")[:5] == [[0], [1], [1, 2], None, [4]]
    assert values(uri)[:3] == [7, 8, 2]


@pytest.mark.parametrize("stable", [False, True])
def test_an_index_does_not_answer_for_values_that_were_replaced(tmp_path, monkeypatch, stable):
    monkeypatch.setenv(ALLOWED, "1")
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri, max_rows_per_file=5, enable_stable_row_ids=stable)
    lance.dataset(uri).create_scalar_index("i", "BTREE")
    lay(uri, numbers(100, 101), [0], [1, 3])
    for text in ("i = 100", "i = 1", "i >= 3", "i is null"):
        agree(uri, filter=text)
    (segment,) = lo.dataset(uri).indices
    assert segment.fragment_ids == {1}
    lo.optimize_indices(uri)
    for text in ("i = 100", "i = 1", "i >= 3"):
        agree(uri, filter=text)
    assert frozenset().union(*(item.fragment_ids for item in lo.dataset(uri).indices)) == {0, 1}
    # What lies over another column is nothing to the index.
    lay(uri, pa.table({"l": pa.array([[5]], ROWS["l"].type)}), [5], [0])
    assert frozenset().union(*(item.fragment_ids for item in lo.dataset(uri).indices)) == {0, 1}


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("compacted", [False, True])
def test_an_index_that_is_built_meanwhile_does_not_answer_for_them_either(
    tmp_path, monkeypatch, stable, compacted
):
    monkeypatch.setenv(ALLOWED, "1")
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri, max_rows_per_file=5, enable_stable_row_ids=stable)
    real, built = operation._build, []

    def build(*args):
        built.append(real(*args))
        if len(built) == 1:
            lay(uri, numbers(100), [0], [1])
            if compacted:
                # The new fragment has no overlay, and other values than those that were indexed.
                lo.compact(uri, target_rows_per_fragment=100)
        return built[-1]

    monkeypatch.setattr(operation, "_build", build)
    lo.create_index(uri, "i", "BTREE")
    for text in ("i = 100", "i = 1", "i >= 3"):
        expected = lance.dataset(uri).to_table(filter=text, use_scalar_index=False).to_pylist()
        assert agree(uri, filter=text) == expected


def test_nearest_vectors_are_those_of_now(tmp_path, monkeypatch):
    monkeypatch.setenv(ALLOWED, "1")
    uri = str(tmp_path / "t")
    kind = pa.list_(pa.float32(), 4)
    vectors = np.random.default_rng(1).random((600, 4), np.float32)
    table = pa.table({"v": pa.array(list(vectors), kind), "n": range(600)})
    lance.write_dataset(table, uri, max_rows_per_file=300)
    lance.dataset(uri).create_index("v", "IVF_FLAT", num_partitions=2)
    lay(uri, pa.table({"v": pa.array([[9, 9, 9, 9]], kind)}), [0], [17])
    nearest = {"column": "v", "q": [9, 9, 9, 9], "k": 1, "nprobes": 2}
    assert lo.dataset(uri).to_table(nearest=nearest)["n"].to_pylist() == [17]


def test_appends_deletes_and_updates_go_on_top(uri):
    lay(uri, numbers(100, 101), [0], [1, 3])
    lo.append(uri, ROWS.slice(0, 2))
    lo.delete(uri, "i = 101")
    lo.update(uri, {"i": "i + 1000"}, where="i = 100")
    lo.merge_insert(uri, ROWS.slice(7, 1), on=["i"], when_matched="update_all")
    assert sorted(values(uri)) == [0, 0, 1, 2, 4, 5, 6, 7, 8, 9, 1100]
    kept = [fragment for fragment in lance.dataset(uri).get_fragments() if fragment.metadata.overlays]
    assert [fragment.fragment_id for fragment in kept] == [0]


@pytest.mark.parametrize("method", ["copy", "rewrite"])
@pytest.mark.parametrize("deferred", [False, True])
def test_a_compaction_lays_the_values_down(uri, method, deferred):
    lance.dataset(uri).create_scalar_index("i", "BTREE")
    lay(uri, numbers(100, 101), [0], [1, 3])
    lo.delete(uri, "i = 0")
    lo.compact(uri, method=method, min_source_fragments=2, defer_index_remap=deferred)
    lo.compact(uri, method=method, target_rows_per_fragment=10, materialize_deletions_threshold=0.05)
    assert sorted(values(uri)) == [2, 4, 5, 6, 7, 8, 9, 100, 101]
    for text in ("i = 100", "i = 1", "i = 8", "i >= 3"):
        agree(uri, filter=text)
    assert not any(fragment.overlays for fragment in lo.dataset(uri).fragments)
    assert not lo.dataset(uri).manifest.reader_flags & 64
    assert lo.fsck(uri).findings == ()


def test_many_overlays_make_a_fragment_worth_rewriting(uri):
    lo.compact(uri, target_rows_per_fragment=10)
    (fragment,) = lo.dataset(uri).fragments
    for number in range(11):
        lay(uri, numbers(200 + number), [0], [number % 3], fragment_id=fragment.id)
    expected = values(uri)
    assert lo.compact(uri, target_rows_per_fragment=10).fragments_removed == 1
    assert values(uri) == expected


def test_files_of_overlays_are_kept_cloned_and_cleaned(uri, tmp_path):
    lay(uri, numbers(100, 101), [0], [1, 3])
    expected = values(uri)
    deep, shallow = str(tmp_path / "deep"), str(tmp_path / "shallow")
    lo.deep_clone(uri, deep)
    lo.shallow_clone(uri, shallow)
    assert values(deep) == values(shallow) == expected
    lo.cleanup(uri, older_than=timedelta(0), delete_unverified=True, clones=[shallow])
    assert values(uri) == values(shallow) == expected
    assert lo.fsck(uri).findings == ()
    (name,) = [item.file.path for item in lo.dataset(uri).fragments[0].overlays]
    Path(uri, "data", name).unlink()
    assert lo.fsck(uri).findings


def test_changes_without_stable_ids_are_not_guessed(uri):
    lay(uri, numbers(100), [0], [1])
    with pytest.raises(UnsupportedError, match="replaced in place"):
        lo.dataset(uri).changes(since=1).read_all()


def test_changes_with_stable_ids_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv(ALLOWED, "1")
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri, enable_stable_row_ids=True)
    lay(uri, numbers(100), [0], [1])
    lo.compact(uri, target_rows_per_fragment=20)
    found = lo.dataset(uri).changes(since=1).read_all()
    assert found.select(["i", "_change_type"]).to_pylist() == [
        {"i": 1, "_change_type": "update_preimage"},
        {"i": 100, "_change_type": "update_postimage"},
    ]


def test_columns_of_overlaid_rows_are_not_replaced_below_them(uri):
    lay(uri, numbers(100), [0], [1])
    lo.add_columns(uri, {"y": "i * 2"})
    assert values(uri, "y")[:3] == [0, 200, 4]
    with pytest.raises(InvalidArgumentError, match="overlays"):
        lo.replace_columns(uri, ROWS.select(["i"]))
    lo.drop_columns(uri, ["i"])
    assert not any(fragment.overlays for fragment in lo.dataset(uri).fragments)
    assert values(uri, "y")[:3] == [0, 200, 4]


def test_what_an_overlay_says_of_its_rows_must_be_right(uri):
    lay(uri, numbers(100), [0], [1])
    (overlay,) = lo.dataset(uri).fragments[0].overlays
    with pytest.raises(CorruptManifestError, match="row 1 of a fragment of 1 rows"):
        overlay.coverage(1)
    for damaged in (b"", b"\x3a", overlay.bitmaps[0][:-1]):
        with pytest.raises(CorruptManifestError, match="bitmap of an overlay"):
            Overlay(overlay.file, (damaged,), shared=True, committed_version=2).coverage(5)
    message = lo.dataset(uri).fragments[0].to_proto()
    message.overlays[0].ClearField("data_file")
    with pytest.raises(CorruptManifestError, match="has no data file"):
        Fragment.from_proto(message)
    message = lo.dataset(uri).fragments[0].to_proto()
    message.overlays[0].ClearField("coverage")
    with pytest.raises(CorruptManifestError, match="has no coverage"):
        Fragment.from_proto(message)
    message.overlays[0].field_coverage.offset_bitmaps.extend([b"", b""])
    with pytest.raises(CorruptManifestError, match="1 fields has 2"):
        Fragment.from_proto(message)
    message = lo.dataset(uri).fragments[0].to_proto()
    message.overlays.add().CopyFrom(message.overlays[0])
    message.overlays[1].committed_version = 1
    with pytest.raises(CorruptManifestError, match="follows one of the newer"):
        Fragment.from_proto(message)


def test_places_and_ranks():
    offsets = np.array([1, 3, 8], np.uint32)
    places, ranks = rows_of_range(offsets, 2, 9)
    assert (places.tolist(), ranks.tolist()) == ([1, 6], [1, 2])
    places, ranks = rows_of_list(offsets, np.array([0, 1, 2, 8, 9]))
    assert (places.tolist(), ranks.tolist()) == ([1, 3], [0, 2])


LAYERS = st.lists(
    st.tuples(
        st.sets(st.integers(0, 9), min_size=1),
        st.sampled_from(["i", "l", "both"]),
        st.integers(0, 1000),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=15, deadline=None)
@given(layers=LAYERS, deleted=st.integers(0, 9), rows=st.lists(st.integers(0, 8), unique=True))
def test_both_read_the_same_whatever_was_laid(tmp_path_factory, layers, deleted, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ALLOWED, "1")
        uri = str(tmp_path_factory.mktemp("overlays") / "t")
        lance.write_dataset(ROWS, uri)
        lance.dataset(uri).delete(f"i = {deleted}")
        for offsets, which, first in layers:
            count = len(offsets)
            columns = {
                "i": pa.array(range(first, first + count), pa.int64()),
                "l": pa.array([[first] * (n % 3) for n in range(count)], ROWS["l"].type),
            }
            fields = {"i": 0, "l": 5}
            names = ["i", "l"] if which == "both" else [which]
            table = pa.table({name: columns[name] for name in names})
            lay(uri, table, [fields[name] for name in names], sorted(offsets))
        agree(uri)
        ours, theirs = lo.dataset(uri), lance.dataset(uri)
        assert ours.take(rows).to_pylist() == theirs.take(rows).to_pylist()
