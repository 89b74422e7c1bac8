"""BTREEs in tables with stable row ids: of ids (version 0, for every release) or of addresses (version 1).

Rows keep their ids when they are updated or compacted, so an index of ids has to be asked where they are now.
"""

from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.index.coverage import coverage
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.table.manifest.row_ids import encode_row_ids, find_row_ids
from lance_ops.table.transaction.operations import CreateIndex
from tests.support.table_actions import commit

pytestmark = pytest.mark.peer

FILTERS = ("x = 4444", "x < 30", "x >= 9970", "x IS NULL", "x = 20001", "x >= 12000")


def rows(start: int, stop: int) -> pa.Table:
    ids = np.arange(start, stop)
    return pa.table({"id": ids, "x": pa.array(ids * 7 % 10_001, mask=ids % 50 == 0)})


@pytest.fixture(params=["ours", "peer"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two fragments under an index, which holds ids if it is ours and addresses if it is the peer's."""
    path = tmp_path / "t.lance"
    lo.write_dataset(rows(0, 5000), path, enable_stable_row_ids=True, data_storage_version="2.0")
    lo.append(path, rows(5000, 10_000))
    if request.param == "ours":
        lo.create_index(path, "x")
    else:
        lance.dataset(str(path)).create_scalar_index("x", "BTREE")
    return path


def versions(path: Path) -> set[int | None]:
    return {segment.index_version for segment in lo.dataset(path).indices}


def check(path: Path) -> None:
    """Ours with the index, ours without, and the peer's agree; and both use it."""
    dataset, by_peer = lo.dataset(path), lance.dataset(str(path))
    for sql in FILTERS:
        wanted = sorted(dataset.scanner(["id"], sql, pruners=()).to_table()["id"].to_pylist())
        assert sorted(dataset.scanner(["id"], sql).to_table()["id"].to_pylist()) == wanted, sql
        assert sorted(by_peer.to_table(columns=["id"], filter=sql)["id"].to_pylist()) == wanted, sql
    pruning = IndexPruner().prune(dataset, dataset.parse_filter("x = 4444"))
    (item,) = coverage(dataset)
    assert pruning is not None
    assert pruning.covered_fragment_ids == item.covered
    assert "ScalarIndexQuery" in by_peer.scanner(filter="x = 4444").explain_plan()


@pytest.mark.parametrize("tender", ["ours", "peer"])
def test_it_is_right_through_deletes_updates_appends_upkeep_and_compaction(path: Path, tender: str) -> None:
    built = versions(path)
    check(path)
    lo.delete(path, "id % 9 = 4")
    lance.dataset(str(path)).update({"x": "20001"}, where="id % 100 = 7")
    lance.dataset(str(path)).update({"id": "id"}, where="id % 100 = 8")
    check(path)
    lo.append(path, rows(10_000, 10_200))
    check(path)
    if tender == "ours":
        assert lo.optimize_indices(path).coverage_after == 1.0
        assert versions(path) == built
    else:
        lance.dataset(str(path)).optimize.optimize_indices()
    check(path)
    lo.delete(path, "id % 9 = 5")
    if tender == "ours":
        lo.compact(path)
    else:
        lance.dataset(str(path)).optimize.compact_files()
    check(path)
    lo.append(path, rows(10_200, 10_300))
    lo.optimize_indices(path, merge_segments=0)
    assert len(lo.dataset(path).indices) == 2
    assert len(versions(path)) == 1
    check(path)
    lo.compact(path)
    check(path)
    lance.dataset(str(path)).optimize.optimize_indices()
    check(path)


def test_ids_are_what_every_release_understands(path: Path) -> None:
    lo.create_index(path, "x", replace=True)
    assert versions(path) == {0}
    check(path)
    assert lo.compact(path).indices_remapped == 0
    check(path)


def test_segments_of_both_sorts_become_one(path: Path) -> None:
    """The peer refuses all filters on a column whose index mixes them."""
    lo.create_index(path, "x", replace=True)
    dataset = lo.dataset(path)
    (ids,) = dataset.indices
    lance.dataset(str(path)).create_scalar_index("x", "BTREE", name="other")
    (addresses,) = (index for index in lo.dataset(path).indices if index.name == "other")
    assert addresses.index_version == 1
    first, second = sorted(ids.fragment_ids or ())
    dataset = lo.dataset(path)
    mixed = (
        replace(ids, uuid=ids.uuid, fragment_ids=frozenset([first])),
        replace(addresses, name=ids.name, fragment_ids=frozenset([second])),
    )
    commit(dataset, CreateIndex((), (ids, addresses)))
    commit(lo.dataset(path), CreateIndex(mixed))
    with pytest.raises(Exception, match="mixes"):
        lance.dataset(str(path)).to_table(filter="x = 4444")
    result = lo.optimize_indices(path)
    assert (result.segments_added, result.segments_removed) == (1, 2)
    check(path)


def test_addresses_under_a_version_that_says_ids_are_damage_and_stop_no_upkeep(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows(0, 5000), uri, enable_stable_row_ids=True)
    lo.append(uri, rows(5000, 10_000))
    lance.dataset(uri).create_scalar_index("x", "BTREE")
    lo.create_index(uri, "id")
    dataset = lo.dataset(uri)
    segment = next(item for item in dataset.indices if item.name == "x_idx")
    commit(dataset, CreateIndex((replace(segment, index_version=0),), (segment,)))
    lo.append(uri, rows(10_000, 10_100))
    done = lo.optimize_indices(uri, merge_segments=1)
    assert "row id" in done.skipped[0]
    assert {item.name: item.ratio for item in coverage(lo.dataset(uri))}["id_idx"] == 1.0
    with pytest.warns(UnreadableIndexWarning, match="row id"):
        found = lo.dataset(uri).to_table(filter="x >= 9970")["id"].to_pylist()
    assert found == lo.dataset(uri).scanner(["id"], "x >= 9970", pruners=()).to_table()["id"].to_pylist()


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(5, 900),
        np.concatenate([np.arange(40, 60), np.arange(0, 30), [1000, 70, 71]]),
        np.array([9, 3, 7, 1, 100_000_000_000]),
        np.delete(np.arange(2000), [4, 5, 900]),
        np.flatnonzero(np.random.default_rng(3).random(3000) < 0.5),
        np.zeros(0, np.int64),
    ],
)
def test_ids_are_found_in_sequences_of_every_form(ids: np.ndarray) -> None:
    ids = ids.astype(np.uint64)
    wanted = (
        np.random.default_rng(4)
        .permutation(np.concatenate([ids, ids[:3], [2**40 + 1, 8, 31]]))
        .astype(np.uint64)
    )
    places = {int(value): place for place, value in enumerate(ids)}
    found = find_row_ids(encode_row_ids(ids), wanted, rows=len(ids))
    assert found.tolist() == [places.get(int(value), -1) for value in wanted]


@pytest.mark.peer
@pytest.mark.parametrize("kind", ["btree", "bitmap", "label_list"])
def test_rows_that_an_update_moved_do_not_stay_in_an_older_segment(tmp_path: Path, kind: str) -> None:
    """Release 14.0.2 believes each of several segments of row ids, also what rows held before an update."""
    uri = str(tmp_path / "t.lance")
    as_list = kind == "label_list"
    values = [[n % 3] if as_list else n % 3 for n in range(30)]
    lo.write_dataset(pa.table({"id": range(30), "x": values}), uri, enable_stable_row_ids=True)
    lo.create_index(uri, "x", kind)
    lo.append(uri, pa.table({"id": range(30, 40), "x": values[:10]}))
    lo.optimize_indices(uri, merge_segments=0)
    # Nothing has moved yet, so there may be two.
    assert len(lo.dataset(uri).indices) == 2
    lance.dataset(uri).update({"x": "[7]" if as_list else "7"}, where="id = 1")
    done = lo.optimize_indices(uri, merge_segments=0)
    assert done.coverage_after == 1.0
    assert len(lo.dataset(uri).indices) == 1
    for sql, count in {
        "array_has(x, 1)" if as_list else "x = 1": 12,
        "array_has(x, 7)" if as_list else "x = 7": 1,
    }.items():
        assert lance.dataset(uri).count_rows(filter=sql) == count
        assert lo.dataset(uri).count_rows(sql) == count
