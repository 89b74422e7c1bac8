"""Index builds beside compactions and updates: none is lost that need not be, and searches stay right."""

from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CommitConflictError
from lance_ops.index.search.pruner import IndexPruner

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "BTREE": ("id", {}),
    "BITMAP": ("c", {}),
    "INVERTED": ("text", {}),
    "IVF_FLAT": ("v", {"parameters": {"num_partitions": 2}}),
}


class Once:
    """Lets another writer act when an operation is about to commit, once."""

    def __init__(self, act):
        self.act = act

    def __call__(self, event):
        if event.message == "committing" and self.act is not None:
            act, self.act = self.act, None
            act()


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def uri(request, tmp_path):
    uri = str(tmp_path / "t.lance")
    rows = 600
    table = pa.table(
        {
            "id": pa.array(range(rows)),
            "c": [f"c{n % 7}" for n in range(rows)],
            "text": [f"word{n % 5} common" for n in range(rows)],
            "v": pa.array([[float(n % 13), 1.0] for n in range(rows)], pa.list_(pa.float32(), 2)),
        }
    )
    lo.write_dataset(table, uri, max_rows_per_file=100, enable_stable_row_ids=request.param)
    lo.delete(uri, "id % 5 = 0 and id < 200")
    return uri


def compact_some(uri):
    """Rewrites the first two of six fragments."""
    done = lo.compact(uri, target_rows_per_fragment=100, materialize_deletions_threshold=0.1)
    assert done.fragments_removed == 2


def check(uri, name):
    ds, peer = lo.dataset(uri), lance.dataset(uri)
    for probe in ("id = 151", "id between 90 and 210", "c = 'c3'", "id = 401"):
        expected = sorted(ds.to_table(["id"], probe, pruners=())["id"].to_pylist())
        assert sorted(ds.to_table(["id"], probe, pruners=[IndexPruner()])["id"].to_pylist()) == expected
        assert sorted(peer.to_table(columns=["id"], filter=probe)["id"].to_pylist()) == expected
    if name == "INVERTED":
        expected = sorted(n for n in ds.to_table(["id"])["id"].to_pylist() if n % 5 == 1)
        for side in (ds, peer):
            found = side.to_table(["id"], full_text_query="word1", limit=1000)
            assert sorted(found["id"].to_pylist()) == expected
    if name == "IVF_FLAT":
        query = {"column": "v", "q": [3.0, 1.0], "k": 30, "nprobes": 2}
        for side in (ds, peer):
            found = side.to_table(["id", "v"], nearest=query)
            assert found.num_rows == 30
            assert {row[0] for row in found["v"].to_pylist()} == {3.0}
            assert len(set(found["id"].to_pylist())) == 30
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.peer
@pytest.mark.parametrize("name", KINDS)
def test_an_index_is_committed_beside_a_compaction_of_some_of_its_fragments(uri, name):
    column, more = KINDS[name]
    act = Once(lambda: compact_some(uri))
    done = lo.create_index(uri, column, name, **more, progress=act, max_replans=0)
    assert done.rebased_over
    ds = lo.dataset(uri)
    covered = set().union(*(index.fragment_ids for index in ds.indices))
    every = {fragment.id for fragment in ds.fragments}
    assert covered <= every
    assert (covered == every) == ds.uses_stable_row_ids
    check(uri, name)
    lo.optimize_indices(uri)
    assert set().union(*(index.fragment_ids for index in lo.dataset(uri).indices)) == every
    check(uri, name)
    lo.compact(uri)
    check(uri, name)


@pytest.mark.peer
def test_a_compaction_of_stable_ids_is_committed_beside_an_index_build(uri):
    def build():
        lo.create_index(uri, "id", "BTREE")

    stable = lo.dataset(uri).uses_stable_row_ids
    done = lo.compact(uri, progress=Once(build))
    assert bool(done.lost_to) is not stable
    ds = lo.dataset(uri)
    assert set().union(*(index.fragment_ids for index in ds.indices)) == {item.id for item in ds.fragments}
    check(uri, "BTREE")


def test_an_index_of_which_little_is_left_is_built_again(uri):
    if lo.dataset(uri).uses_stable_row_ids:
        return
    act = Once(lambda: lo.compact(uri))
    with pytest.raises(CommitConflictError, match="most of the coverage of index") as failed:
        lo.create_index(uri, "id", "BTREE", progress=act, max_replans=0)
    assert failed.value.retryable
    done = lo.create_index(
        uri, "id", "BTREE", progress=Once(lambda: lo.update(uri, {"c": "'x'"}, "id = 300"))
    )
    assert not done.lost_to
    check(uri, "BTREE")


def test_a_column_of_nulls_comes_beside_whatever_others_do(uri):
    def others():
        lo.append(uri, lo.dataset(uri).to_table(filter="id < 3"))
        lo.delete(uri, "id = 301")
        compact_some(uri)

    schema = pa.schema([("new", pa.int32())])
    before = lo.dataset(uri).count_rows()
    done = lo.add_columns(uri, schema, progress=Once(others), max_replans=0)
    assert len(done.rebased_over) >= 3
    for side in (lo.dataset(uri), lance.dataset(uri)):
        found = side.to_table()
        assert found.num_rows == before + 2 - 1
        assert found["new"].null_count == found.num_rows
    assert lo.fsck(uri, deep=True).ok
