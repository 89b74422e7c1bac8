"""Compactions that leave index segments as they are, and what they say of each index."""

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, StorageError
from lance_ops.index.coverage import coverage
from lance_ops.index.registry import kind_of
from lance_ops.index.upkeep.routes import Route
from lance_ops.storage import open_store
from lance_ops.table.manifest.fragment_reuse import decode as fragment_reuse
from lance_ops.table.manifest.fragment_reuse import write as fragment_reuse_write
from tests.support.faulty_store import FaultyStore
from tests.support.unknown_index import CONTENT, add_unknown_index

ROWS, FRAGMENT = 300, 60
FILTERS = {
    "btree": "btree = 101",
    "bitmap": "bitmap = 3",
    "labels": "array_has(labels, 'l3')",
    "zones": "zones >= 40 and zones < 60",
    "bloom": "bloom = 77",
    "ngram": "contains(ngram, 'alpha81')",
}


SCALAR_KINDS = {
    "btree": "BTREE",
    "bitmap": "BITMAP",
    "labels": "LABEL_LIST",
    "zones": "ZONEMAP",
    "bloom": "BLOOMFILTER",
    "ngram": "NGRAM",
    "text": "INVERTED",
}


def all_kinds(start: int, stop: int, vectors: np.ndarray) -> pa.Table:
    """Rows with a column for each kind of index."""
    numbers = range(start, stop)
    return pa.table(
        {
            "id": numbers,
            "btree": numbers,
            "bitmap": [n % 5 for n in numbers],
            "labels": [[f"l{n % 5}", f"l{n % 3}"] for n in numbers],
            "zones": numbers,
            "bloom": numbers,
            "ngram": [f"word alpha{n} beta" for n in numbers],
            "text": [f"word alpha{n} beta" for n in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors[start:stop].ravel()), 8),
        }
    )


def peer_ids(uri, **query) -> list[int]:
    return sorted(lance.dataset(str(uri)).to_table(columns=["id"], **query)["id"].to_pylist())


def peer_agrees(uri) -> None:
    """The peer uses its indices, and finds what it finds without them."""
    dataset = lance.dataset(str(uri))
    for name, sql in FILTERS.items():
        plan = dataset.scanner(filter=sql).explain_plan()
        assert "ScalarIndexQuery" in plan, (name, plan)
        assert peer_ids(uri, filter=sql) == peer_ids(uri, filter=sql, use_scalar_index=False) != [], name
    found = dataset.to_table(full_text_query="alpha81", columns=["id"])["id"].to_pylist()
    assert sorted(found) == peer_ids(uri, filter="text like '%alpha81 %'") != []
    query = dataset.to_table(columns=["vector"], filter="id = 55")["vector"][0].as_py()
    nearest = {"column": "vector", "q": query, "k": 1, "nprobes": 4, "refine_factor": 10}
    assert "ANN" in dataset.scanner(nearest=nearest).explain_plan()
    assert dataset.to_table(nearest=nearest)["id"].to_pylist() == [55]


def ratios(uri) -> dict[str, float]:
    return {item.name: item.ratio for item in coverage(lo.dataset(uri))}


@pytest.fixture
def table(tmp_path):
    """Fragments of 60 rows under an index of each kind of the peer, with some rows deleted."""
    uri = tmp_path / "t.lance"
    vectors = np.random.default_rng(1).random((ROWS, 8), dtype=np.float32)
    for start in range(0, ROWS, FRAGMENT):
        rows = all_kinds(start, start + FRAGMENT, vectors)
        lance.write_dataset(rows, str(uri), mode="append" if start else "create")
    dataset = lance.dataset(str(uri))
    for column, kind in SCALAR_KINDS.items():
        dataset.create_scalar_index(column, kind)
    dataset.create_index("vector", "IVF_PQ", num_partitions=2, num_sub_vectors=4)
    lance.dataset(str(uri)).delete("id % 7 = 1")
    return uri


def test_every_index_of_the_peer_answers_through_a_remap_that_we_deferred(table):
    before = lo.dataset(table).to_table(columns=["id"])["id"]
    done = lo.compact(table, defer_index_remap=True)
    assert (done.fragments_added, done.indices_remapped) == (1, 0)
    assert done.remaps_deferred == len(ratios(table)) == len(done.rows_indexed_before)
    assert done.rows_indexed_after == done.rows_indexed_before
    assert set(ratios(table).values()) == {1.0}
    assert lo.dataset(table).to_table(columns=["id"])["id"] == before
    peer_agrees(table)
    assert lo.fsck(table, deep=True).ok


def test_the_plan_says_how_each_index_follows(table):
    plan = lo.compact(table, dry_run=True, defer_index_remap=True)
    assert {item.route for item in plan.indices} == {Route.DEFER}
    lines = plan.to_dict()["indices"]
    assert {line["index"] for line in lines} == set(ratios(table))
    assert {line["rows"] for line in lines} == {lo.dataset(table).count_rows()}
    assert "follows by" in str(plan)
    assert "readers translate" in str(plan)
    assert (plan.index_bytes, plan.to_dict()["index_bytes"]) == (0, 0)


def test_what_the_moves_of_indices_write_is_estimated_before_and_measured_after(table):
    plan = lo.compact(table, dry_run=True)
    sizes = {str(segment.uuid): segment.size_bytes for segment in lo.dataset(table).indices}
    assert {line["segment"]: line["bytes"] for line in plan.to_dict()["indices"]} == sizes
    assert plan.index_bytes == sum(sizes.values()) > 0

    done = lo.compact(table)

    written = sum(segment.size_bytes for segment in lo.dataset(table).indices)
    assert done.index_bytes_written == written
    assert plan.index_bytes / 4 < written < plan.index_bytes * 4
    assert 0 < done.index_seconds <= done.seconds


@pytest.mark.parametrize("external", [False, True])
def test_generations_of_both_libraries_follow_each_other(table, monkeypatch, external):
    if external:
        monkeypatch.setattr(fragment_reuse_write, "INLINE_BYTES", 10)
    for by_peer, target in ((False, 65), (True, 90), (False, 10_000)):
        lance.dataset(str(table)).delete(f"id % 31 = {target % 31}")
        options = {"target_rows_per_fragment": target, "defer_index_remap": True}
        if by_peer:
            lance.dataset(str(table)).optimize.compact_files(**options)
        else:
            lo.compact(table, **options)
        peer_agrees(table)
        assert set(ratios(table).values()) == {1.0}
    reuse = lo.dataset(table).fragment_reuse
    assert reuse.problem is None
    assert len(reuse.generations) == 3
    assert lo.fsck(table, deep=True).ok


def test_the_peer_catches_up_with_what_we_deferred(table):
    lo.compact(table, defer_index_remap=True)
    lance.dataset(str(table)).optimize.optimize_indices(num_indices_to_merge=1)
    peer_agrees(table)
    lo.cleanup(table, older_than=None, retain_versions=1, delete_unverified=True)
    peer_agrees(table)
    assert lo.fsck(table, deep=True).ok


def test_a_remap_is_moved_at_once_when_others_are_deferred(tmp_path):
    """A BTREE beside an index that nobody here knows: the one follows, the other waits."""
    uri = with_unknown_index(tmp_path)
    left = lo.compact(uri)
    assert not left.changed
    assert "index 'strange'" in left.notes[0]
    done = lo.compact(uri, on_unknown_index="defer")
    assert (done.indices_remapped, done.remaps_deferred) == (1, 1)
    assert ratios(uri) == {"id_idx": 1.0, "strange": 1.0}
    assert lance.dataset(str(uri)).to_table(filter="id = 77")["id"].to_pylist() == [77]
    assert lo.dataset(uri).to_table(filter="id = 77")["id"].to_pylist() == [77]
    kept = [index for index in lo.dataset(uri).indices if index.name == "strange"]
    assert [kind_of(index) for index in kept] == [None]


def test_an_index_of_a_future_kind_outlives_every_commit_of_ours(tmp_path):
    uri = with_unknown_index(tmp_path)
    entry = next(index for index in lo.dataset(uri).indices if index.name == "strange")
    lo.write_dataset(pa.table({"id": range(900, 910)}), uri, mode="append")
    lo.delete(uri, "id = 3")
    lo.optimize_indices(uri)
    lo.compact(uri)
    lo.create_index(uri, "id", name="second")
    lo.drop_index(uri, "second")
    lo.cleanup(uri, older_than=None, retain_versions=1, delete_unverified=True)
    kept = next(index for index in lo.dataset(uri).indices if index.name == "strange")
    assert kept == entry
    assert (uri / entry.directory / "part.bin").read_bytes() == CONTENT


def test_nothing_is_deferred_where_rows_have_stable_ids(tmp_path):
    uri = tmp_path / "t.lance"
    for start in range(0, 200, 50):
        rows = pa.table({"id": range(start, start + 50)})
        mode = "append" if start else "create"
        lance.write_dataset(rows, str(uri), mode=mode, enable_stable_row_ids=True)
    lance.dataset(str(uri)).create_scalar_index("id", "BTREE")
    done = lo.compact(uri, defer_index_remap=True)
    assert done.fragments_added == 1
    assert done.remaps_deferred == 0
    assert "stable row ids" in done.notes[-1]
    assert lo.dataset(uri).fragment_reuse is None
    assert ratios(uri) == {"id_idx": 1.0}


def test_nothing_is_deferred_where_more_rows_are_gone_than_readers_follow(tmp_path, monkeypatch):
    uri = with_unknown_index(tmp_path)
    lo.delete(uri, "id < 30")
    monkeypatch.setattr(fragment_reuse, "MOST_DELETED", 29)
    left = lo.compact(uri, defer_index_remap=True)
    assert not left.changed
    assert "index 'strange'" in left.notes[0]
    lo.drop_index(uri, "strange")
    done = lo.compact(uri, defer_index_remap=True)
    assert (done.indices_remapped, done.remaps_deferred) == (1, 0)
    assert done.notes == ("no remap is deferred where more than 29 rows are deleted",)
    assert ratios(uri) == {"id_idx": 1.0}
    assert lo.dataset(uri).to_table(filter="id = 77")["id"].to_pylist() == [77]


@pytest.mark.parametrize("when", ["before", "after"])
def test_moves_in_a_file_leave_none_behind_when_their_write_fails(tmp_path, monkeypatch, when):
    monkeypatch.setattr(fragment_reuse_write, "INLINE_BYTES", 10)
    uri = tmp_path / "t.lance"
    small_fragments(uri)
    lo.create_index(uri, "id")
    before = sorted(path for path in uri.rglob("*") if "_indices" in path.parts or "data" in path.parts)
    store = FaultyStore(
        open_store(str(uri)), lambda call: call.path.endswith("details.binpb"), when=when, mode="error"
    )
    with pytest.raises(StorageError):
        lo.compact(store, defer_index_remap=True)
    left = sorted(path for path in uri.rglob("*") if "_indices" in path.parts or "data" in path.parts)
    assert [path for path in left if path.is_file()] == [path for path in before if path.is_file()]
    assert ratios(uri) == {"id_idx": 1.0}


def test_the_config_of_the_table_defers(tmp_path):
    uri = tmp_path / "t.lance"
    for start in range(0, 200, 50):
        lo.write_dataset(
            pa.table({"id": range(start, start + 50)}), uri, mode="append" if start else "create"
        )
    lo.create_index(uri, "id")
    lo.update_config(uri, {"lance.compaction.defer_index_remap": "true"})
    assert lo.compact(uri).remaps_deferred == 1
    assert len(lo.dataset(uri).fragment_reuse.generations) == 1


def test_what_to_do_about_unknown_indices_is_checked(tmp_path):
    lo.write_dataset(pa.table({"id": [1]}), tmp_path / "t.lance")
    with pytest.raises(InvalidArgumentError, match="drop") as caught:
        lo.compact(tmp_path / "t.lance", on_unknown_index="drop")
    assert caught.value.field == "on_unknown_index"


def test_near_duplicates_are_moved_along(tmp_path):
    """MINHASHLSH names rows in a plain column: the segment follows with the rows that are gone in place."""
    uri = tmp_path / "t.lance"
    for start in range(0, 400, 100):
        texts = [None if n % 50 == 9 else f"text {n % 90} about {n % 7}" for n in range(start, start + 100)]
        rows = pa.table({"id": range(start, start + 100), "text": texts})
        lance.write_dataset(rows, str(uri), mode="append" if start else "create")
    lance.dataset(str(uri)).create_scalar_index("text", "MINHASHLSH")
    lance.dataset(str(uri)).delete("id % 10 = 1")
    done = lo.compact(uri)
    assert (done.indices_remapped, done.fragments_added) == (1, 1)
    dataset = lo.dataset(uri)
    (segment,) = dataset.indices
    named = np.concatenate(list(kind_of(segment).addresses(dataset, segment)))
    live = named[named >> np.uint64(32) == 4]
    texts = dataset.take(np.sort(live), ["id", "text"], by="address")
    wanted = [n for n in range(400) if n % 10 != 1 and n % 50 != 9]
    assert texts["id"].to_pylist() == wanted
    assert len(named) == 392
    assert lo.fsck(uri, deep=True).ok
    assert lance.dataset(str(uri)).describe_indices()[0].num_rows_indexed == 360
    with pytest.raises(InvalidArgumentError, match="builds none"):
        lo.create_index(uri, "text", "minhashlsh", name="more")


def small_fragments(uri) -> None:
    for start in range(0, 200, 50):
        rows = pa.table({"id": range(start, start + 50)})
        lo.write_dataset(rows, uri, mode="append" if start else "create")


def with_unknown_index(tmp_path):
    """A table under a BTREE and an index of a kind that does not exist yet."""
    uri = tmp_path / "t.lance"
    for start in range(0, 200, 50):
        lo.write_dataset(
            pa.table({"id": range(start, start + 50)}), uri, mode="append" if start else "create"
        )
    lo.create_index(uri, "id")
    add_unknown_index(uri, "id")
    return uri


@pytest.mark.parametrize("first_by_peer", [False, True])
def test_graphs_are_moved_at_once_and_work_on_for_both(tmp_path, first_by_peer):
    """The peer fails on a graph whose storage lost rows to a fragment reuse index."""
    uri = tmp_path / "t.lance"
    vectors = np.random.default_rng(2).random((ROWS, 8), dtype=np.float32)
    for start in range(0, ROWS, FRAGMENT):
        rows = all_kinds(start, start + FRAGMENT, vectors)
        lance.write_dataset(rows, str(uri), mode="append" if start else "create")
    dataset = lance.dataset(str(uri))
    dataset.create_scalar_index("btree", "BTREE")
    if first_by_peer:
        dataset.delete("id % 11 = 2")
        dataset.optimize.compact_files(target_rows_per_fragment=100, defer_index_remap=True)
    lance.dataset(str(uri)).create_index("vector", "IVF_HNSW_SQ", num_partitions=1)
    lance.dataset(str(uri)).delete("id % 5 = 3")
    plan = lo.compact(uri, dry_run=True, defer_index_remap=True)
    assert {item.segment.name: item.route for item in plan.indices} == {
        "btree_idx": Route.DEFER,
        "vector_idx": Route.MOVE,
    }
    for target in (100, 10_000):
        done = lo.compact(uri, defer_index_remap=True, target_rows_per_fragment=target)
        assert (done.indices_remapped, done.remaps_deferred) == (1, 1)
        lance.dataset(str(uri)).delete(f"id % 100 = {target % 77}")
    assert set(ratios(uri).values()) == {1.0}
    live = lo.dataset(uri).to_table(columns=["id", "vector"])
    by_id = dict(zip(live["id"].to_pylist(), live["vector"].to_pylist(), strict=True))
    for wanted in list(by_id)[:: len(by_id) // 12]:
        query = {"column": "vector", "q": by_id[wanted], "k": 5, "refine_factor": 4}
        scanner = lance.dataset(str(uri)).scanner(nearest=query, columns=["id"])
        assert "ANNSubIndex" in scanner.explain_plan()
        found = scanner.to_table()["id"].to_pylist()
        assert (found[0], len(found)) == (wanted, 5)
        assert set(found) <= set(by_id)
    assert lance.dataset(str(uri)).to_table(filter="btree = 50")["id"].to_pylist() == [50]
    assert lo.fsck(uri, deep=True).ok
    lo.optimize_indices(uri)
    assert lo.dataset(uri).fragment_reuse is None
    assert lance.dataset(str(uri)).to_table(filter="btree = 50")["id"].to_pylist() == [50]
    assert lo.fsck(uri, deep=True).ok
