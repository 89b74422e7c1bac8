"""Change feed: what it tells is the difference of two versions, after any history of both libraries."""

import random
from collections import Counter
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnsupportedError, VersionNotFoundError


def rows(*keys, value=0):
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([value] * len(keys), pa.int64())})


def told(dataset, since, until=None, **options):
    """Rows by kind of change, each as a tuple of its values and the version of the commit."""
    table = dataset.changes(since, until, **options).read_all()
    found = {"insert": [], "delete": [], "update_preimage": [], "update_postimage": []}
    for row in table.to_pylist():
        kind = row.pop("_change_type")
        found[kind].append(tuple(row.values()))
    return found


@pytest.fixture(params=[True, False], ids=["stable ids", "addresses"])
def stable(request):
    return request.param


@pytest.fixture
def uri(tmp_path, stable):
    path = str(tmp_path / "t.lance")
    lo.write_dataset(rows(*range(10)), path, max_rows_per_file=4, enable_stable_row_ids=stable)
    return path


def test_appends_and_deletes_are_told_in_either_kind_of_table(uri, stable):
    lo.append(uri, rows(20, 21))
    lo.delete(uri, "k in (3, 20)")
    found = told(lo.dataset(uri), 1)
    assert found["insert"] == [(21, 0, 2 if stable else None)]
    assert found["delete"] == [(3, 0, None)]
    assert told(lo.dataset(uri), 2)["delete"] == [(3, 0, 3), (20, 0, 3)]
    assert told(lo.dataset(uri), 3) == told(lo.dataset(uri), 1, 1)
    assert sum(map(len, told(lo.dataset(uri), 3).values())) == 0


def test_updated_rows_come_as_they_were_and_as_they_are(uri, stable):
    lo.update(uri, {"v": "v + 5"}, where="k in (1, 8)")
    lo.update(uri, {"v": "v + 5"}, where="k = 8")
    found = told(lo.dataset(uri), 1)
    if stable:
        assert sorted(found["update_preimage"]) == [(1, 0, 2), (8, 0, 3)]
        assert sorted(found["update_postimage"]) == [(1, 5, 2), (8, 10, 3)]
        assert not found["insert"]
        assert not found["delete"]
    else:
        assert sorted(found["insert"]) == [(1, 5, None), (8, 10, None)]
        assert sorted(found["delete"]) == [(1, 0, None), (8, 0, None)]


def test_columns_are_chosen_renamed_added_and_cast(uri, stable):
    lo.alter_columns(uri, {"path": "v", "name": "w"})
    lo.add_columns(uri, {"twice": "k * 2"})
    lo.delete(uri, "k = 4")
    lo.append(uri, pa.table({"k": [30], "w": [7], "twice": [60]}))
    found = told(lo.dataset(uri), 1, columns=["twice", "w"])
    assert found["insert"] == [(60, 7, 5 if stable else None)]
    assert found["delete"] == [(None, 0, None)]


def test_who_asks_for_new_values_alone_reads_no_old_ones(uri, stable):
    lo.update(uri, {"v": "v + 5"}, where="k in (1, 8)")
    lo.delete(uri, "k = 3")
    old, dataset = lo.dataset(uri, 1), lo.dataset(uri)
    every = told(dataset, 1)
    for kinds in (["insert", "update_postimage"], {"delete"}, ("update_preimage",), []):
        found = told(dataset, 1, change_types=kinds)
        assert found == {kind: rows if kind in kinds else [] for kind, rows in every.items()}
    gone = [file.path for fragment in old.fragments for file in fragment.files]
    for path in gone:
        Path(uri, "data", path).unlink()
    new = told(dataset, 1, change_types=["insert", "update_postimage"])
    assert sorted(key for rows in new.values() for key, *_ in rows) == [1, 8]


@pytest.mark.parametrize("kinds", ["insert", ["insert", "upsert"]])
def test_kinds_of_changes_that_there_are_not_are_refused(uri, kinds):
    with pytest.raises(InvalidArgumentError, match="update_postimage"):
        lo.dataset(uri).changes(1, change_types=kinds)


def test_rows_of_many_fragments_come_in_order_and_in_bounded_batches(tmp_path, stable):
    uri = str(tmp_path / "t.lance")
    table = pa.table({"k": range(90_000), "v": [0] * 90_000})
    lo.write_dataset(table, uri, max_rows_per_file=9_000, enable_stable_row_ids=stable)
    before = lo.dataset(uri)
    # Every second row twice, the later half first: where rows lie is no longer the order of their ids.
    for half in ("k >= 45000", "k < 45000"):
        lo.update(uri, {"v": "k + 1"}, where=f"k % 2 = 1 and {half}")
    batches = list(lo.dataset(uri).changes(before.version, with_row_id=True))
    assert max(batch.num_rows for batch in batches) <= 65_536
    # Rows of small fragments are not told in batches as small.
    assert len(batches) < 20
    found = pa.Table.from_batches(batches)
    sides = [("update_preimage", "update_postimage"), ("delete", "insert")][not stable]
    was, became = (found.filter(pc.field("_change_type") == kind) for kind in sides)
    assert became["v"].to_pylist() == [key + 1 for key in became["k"].to_pylist()]
    assert set(was["v"].to_pylist()) == {0}
    assert sorted(became["k"].to_pylist()) == list(range(1, 90_000, 2))
    if stable:
        assert was.select(["k", "_rowid"]) == became.select(["k", "_rowid"])
    else:
        assert sorted(was["k"].to_pylist()) == sorted(became["k"].to_pylist())


def test_refusals(uri, stable):
    dataset = lo.dataset(uri)
    lo.append(uri, rows(50))
    with pytest.raises(InvalidArgumentError, match="not before"):
        lo.dataset(uri).changes(2, 1)
    with pytest.raises(VersionNotFoundError):
        dataset.changes(7)
    with pytest.raises(InvalidArgumentError):
        dataset.changes(1, columns=["nope"])
    with pytest.raises(InvalidArgumentError, match="side"):
        lo.create_branch(uri, "side").changes(("main", 1))


def test_rows_that_a_compaction_moved_are_followed_by_their_ids_only(uri, stable):
    lo.delete(uri, "k = 2")
    lo.compact(uri)
    lo.append(uri, rows(60))
    if stable:
        assert told(lo.dataset(uri), 1)["delete"] == [(2, 0, None)]
        assert told(lo.dataset(uri), 1)["insert"] == [(60, 0, lo.dataset(uri).version)]
        return
    with pytest.raises(UnsupportedError, match="moved rows"):
        lo.dataset(uri).changes(1)
    lo.cleanup(uri, retain_versions=1, older_than=timedelta(0))


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(6))
def test_the_older_version_and_its_changes_are_the_newer_one(uri, stable, seed):
    rng = random.Random(seed)
    if seed % 3 == 2:
        # A line of versions that begins on another one, whose files it shares.
        lo.update(uri, {"v": "v + 5"}, where="k % 2 = 0")
        uri = lo.create_branch(uri, "line").uri
    steps = {
        "append": lambda: lo.append(uri, rows(*(rng.randrange(100, 200) for _ in range(5)), value=1)),
        "delete": lambda: lo.delete(uri, f"k % 7 = {rng.randrange(7)}"),
        "peer delete": lambda: lance.dataset(uri).delete(f"k % 11 = {rng.randrange(11)}"),
        "update": lambda: lo.update(uri, {"v": "v + 1"}, where=f"k % 3 = {rng.randrange(3)}"),
        "peer update": lambda: lance.dataset(uri).update(
            {"v": "v + 10"}, where=f"k % 5 = {rng.randrange(5)}"
        ),
        "upsert": lambda: lo.merge_insert(
            uri,
            rows(*rng.sample(range(200), 4), value=3),
            on=["k"],
            when_matched="update_all",
            when_not_matched="insert_all",
        ),
        "restore": lambda: lo.restore(uri, rng.randrange(1, lo.dataset(uri).version + 1)),
        "partial upsert": lambda: lo.merge_insert(
            uri,
            rows(*rng.sample(range(200), 9), value=4),
            on=["k"],
            when_matched="update_if",
            condition="target.v < source.v",
            when_not_matched_by_source=f"k % 9 = {rng.randrange(9)}",
        ),
        "peer upsert": lambda: (
            lance.dataset(uri)
            .merge_insert("k")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(rows(*rng.sample(range(200), 4), value=6))
        ),
        "overwrite": lambda: lo.write_dataset(rows(*range(300, 306)), uri, mode="overwrite"),
    }
    if stable:
        steps["compact"] = lambda: lo.compact(uri, materialize_deletions_threshold=0.0)
        steps["peer compact"] = lambda: lance.dataset(uri).optimize.compact_files()
    for _ in range(10):
        steps[rng.choice(sorted(steps))]()
    newest = lo.dataset(uri)
    versions = [lo.dataset(uri, info.version) for info in newest.versions()]
    for old, new in [tuple(sorted(rng.sample(range(len(versions)), 2))) for _ in range(8)]:
        before, after = versions[old], versions[new]
        found = told(after, before.version)
        state = Counter(map(tuple, zip(*before.to_table().to_pydict().values(), strict=True)))
        for kind in ("delete", "update_preimage"):
            state.subtract(Counter(row[:2] for row in found[kind]))
        assert min(state.values(), default=0) >= 0
        for kind in ("update_postimage", "insert"):
            state.update(Counter(row[:2] for row in found[kind]))
        assert +state == Counter(map(tuple, zip(*after.to_table().to_pydict().values(), strict=True)))
        if stable:
            ids = {row[2] for row in told(after, before.version, with_row_id=True)["delete"]}
            assert ids.isdisjoint(after.to_table(["k"], with_row_id=True)["_rowid"].to_pylist())


@pytest.mark.parametrize("columns", [{"a": "a + 100"}, {"a": "a + 100", "b": "b + 100"}])
def test_columns_replaced_in_place_are_told_by_the_versions_of_their_rows_or_not_at_all(tmp_path, columns):
    for stable in (False, True):
        uri = str(tmp_path / str(stable))
        rows = pa.table({"a": range(4), "b": range(4)})
        lo.write_dataset(rows, uri, max_rows_per_file=2, enable_stable_row_ids=stable)
        lo.replace_columns(uri, columns, fragments=[1])
        if stable:
            found = lo.dataset(uri).changes(since=1).read_all()
            kinds = ["update_preimage"] * 2 + ["update_postimage"] * 2
            assert found["_change_type"].to_pylist() == kinds
            assert found["a"].to_pylist() == [2, 3, 102, 103]
        elif len(columns) == 1:
            with pytest.raises(UnsupportedError, match="replaced in place"):
                lo.dataset(uri).changes(since=1).read_all()
        else:
            # Nothing is left of the fragment: as with any rows of which no more is known.
            found = lo.dataset(uri).changes(since=1).read_all()
            assert found["a"].to_pylist() == [2, 3, 102, 103]
            assert found["_change_type"].to_pylist() == ["delete"] * 2 + ["insert"] * 2
