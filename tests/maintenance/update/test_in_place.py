"""Updates that rewrite columns: rows stay where they are, and both readers see the same values."""

import json
import pickle

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedError
from tests.support.interop import data_files, our_dataset, peer_table

LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


class TravellingRunner:
    """Sends tasks and results through bytes, as to another machine."""

    parallelism = 1

    def map(self, function, tasks, *, on_done=None):
        done = []
        for number, task in enumerate(tasks):
            done.append(pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(task))))))
            if on_done is not None:
                on_done(number, done[-1])
        return done


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


def test_rows_stay_and_only_the_column_is_written(uri):
    our_dataset(uri, [5, 5, 5])
    before = lo.dataset(uri)
    result = lo.update(uri, {"s": "'new'"}, "x >= 3 and x < 7", rewrite="columns")
    assert (result.rewrite, result.rows_updated, result.fragments_updated) == ("columns", 4, 2)
    assert (result.fragments_added, result.fragments_removed) == (0, 0)
    assert "updated 4 rows in place in 2 fragments" in str(result)
    read = lo.dataset(uri)
    table = read.to_table(columns=["x", "s", "_rowaddr"])
    old = before.to_table(columns=["x", "s", "_rowaddr"])
    assert table["_rowaddr"].equals(old["_rowaddr"])
    wanted = [
        "new" if 3 <= x < 7 else s for x, s in zip(old["x"].to_pylist(), old["s"].to_pylist(), strict=True)
    ]
    assert table["s"].to_pylist() == wanted
    assert [len(part.files) for part in read.fragments] == [2, 2, 1]
    assert peer_table(uri).equals(read.to_table())


def test_expressions_see_the_rows_as_they_were(uri):
    lo.append(uri, pa.table({"a": [1, 2, 3], "b": [10, 20, 30], "c": ["x", "y", "z"]}))
    lo.update(uri, {"b": "a", "a": "b + _rowid"}, "c <> 'y'", rewrite="columns")
    assert lo.dataset(uri).to_table().to_pydict() == {"a": [10, 2, 32], "b": [1, 20, 3], "c": ["x", "y", "z"]}


def test_a_value_that_does_not_fit_changes_nothing(uri):
    our_dataset(uri, [5, 5])
    before = data_files(uri)
    with pytest.raises(SchemaMismatchError, match="is no int64 in the row with address 4294967296"):
        lo.update(uri, {"x": "CASE WHEN x = 5 THEN 1.5 ELSE x END"}, "x > 3", rewrite="columns")
    assert (lo.dataset(uri).version, data_files(uri)) == (2, before)


def test_auto_takes_what_writes_less_and_says_so(uri):
    wide = {f"c{number}": pa.array(range(1000), pa.int64()) for number in range(10)}
    lo.write_dataset(pa.table(wide), uri, max_rows_per_file=500)

    def planned(values, where):
        plan = lo.update(uri, values, where, rewrite="auto", dry_run=True)
        assert plan.to_dict()["reason"] in str(plan)
        return plan.rewrite

    assert planned({"c1": "0"}, "c0 < 400") == "columns"
    assert planned({"c1": "0"}, "c0 < 10") == "rows"
    lo.create_index(uri, "c1")
    assert planned({"c1": "0"}, "c0 < 400") == "rows"
    assert planned({"c2": "0"}, "c0 < 400") == "columns"
    assert lo.update(uri, {"c2": "0"}, "c0 < 400", rewrite="auto").rewrite == "columns"
    (index,) = lo.dataset(uri).indices
    assert sorted(index.fragment_ids) == [0, 1]
    assert lo.update(uri, {"c2": "0"}, "c0 = -1", rewrite="auto").rows_updated == 0


def test_blobs_stay_as_they_are(uri):
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("x", pa.int64()), blob])
    lance.write_dataset(pa.table([[1, 2], [b"a", b"b"]], schema), uri, data_storage_version="2.1")
    with pytest.raises(InvalidArgumentError, match="blobs"):
        lo.update(uri, {"b": "NULL"}, rewrite="columns")
    assert lo.update(uri, {"b": "NULL"}, rewrite="auto", dry_run=True).rewrite == "rows"
    assert lo.update(uri, {"x": "x + 1"}, rewrite="columns").rows_updated == 2
    assert lo.dataset(uri).to_table(columns=["x"])["x"].to_pylist() == [2, 3]


@pytest.mark.peer
def test_an_index_on_the_column_answers_right_before_and_after_its_refresh(uri):
    our_dataset(uri, [6, 6, 6])
    lo.create_index(uri, "s")
    lo.create_index(uri, "x")
    lo.update(uri, {"s": "'new'"}, "x in (1, 8)", rewrite="columns")

    def check(covered):
        read, peer = lo.dataset(uri), lance.dataset(uri)
        assert {index.name: len(index.fragment_ids) for index in read.indices} == covered
        for filter_, found in (("s = 'new'", [1, 8]), ("s = 'row 1'", []), ("x = 8", [8])):
            assert read.to_table(filter=filter_)["x"].to_pylist() == found
            assert peer.to_table(filter=filter_)["x"].to_pylist() == found

    check({"s_idx": 1, "x_idx": 3})
    lo.optimize_indices(uri, merge_segments=9)
    check({"s_idx": 3, "x_idx": 3})


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
def test_the_change_feed_has_the_rows(uri, stable):
    our_dataset(uri, [4, 4], enable_stable_row_ids=stable)
    before = lo.dataset(uri).version
    lo.update(uri, {"s": "'new'"}, "x in (1, 6)", rewrite="columns")
    if not stable:
        # Rows have no names there that last: nothing but the transaction tells which they were.
        with pytest.raises(UnsupportedError, match="replaced in place"):
            lo.dataset(uri).changes(since=before)
        return
    found = lo.dataset(uri).changes(since=before).read_all().to_pylist()
    new = sorted(row["x"] for row in found if row["s"] == "new")
    old = sorted(row["x"] for row in found if row["s"] != "new")
    assert new == old == [1, 6]


@pytest.mark.peer
@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["columns", "rows", "delete", "peer's update", "compact", "peer's compaction", "append"]
            ),
            st.integers(0, 29),
            st.integers(0, 12),
        ),
        min_size=2,
        max_size=6,
    ),
    st.booleans(),
    st.sampled_from(["2.0", "2.1", "2.2"]),
)
def test_with_whatever_both_do_in_between_no_row_is_lost_or_old(tmp_path_factory, steps, stable, version):
    uri = str(tmp_path_factory.mktemp("steps") / "t")
    options = {"enable_stable_row_ids": stable, "data_storage_version": version}
    lance.write_dataset(
        pa.table({"x": range(30), "s": ["-"] * 30, "n": [[1, None]] * 30}),
        uri,
        max_rows_per_file=9,
        **options,
    )
    rows = dict.fromkeys(range(30), "-")
    for number, (step, first, count) in enumerate(steps):
        where = f"x >= {first} and x < {first + count}"
        hit = [x for x in rows if first <= x < first + count]
        if step in ("columns", "rows"):
            done = lo.update(uri, {"s": f"'{number}'", "n": "n"}, where, rewrite=step)
            assert done.rows_updated == len(hit)
            rows.update(dict.fromkeys(hit, str(number)))
        elif step == "peer's update":
            lance.dataset(uri).update({"s": f"'{number}'"}, where)
            rows.update(dict.fromkeys(hit, str(number)))
        elif step == "delete":
            lo.delete(uri, where)
            rows = {x: s for x, s in rows.items() if x not in hit}
        elif step == "append":
            more = pa.table({"x": [100 * (number + 1)], "s": ["+"], "n": [[2]]})
            lance.write_dataset(more, uri, mode="append")
            rows[100 * (number + 1)] = "+"
        elif step == "compact":
            lo.compact(uri)
        else:
            lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=12)
        columns = ["x", "s", "n", *(LINEAGE if stable else [])]
        read = lo.dataset(uri).to_table(columns=columns)
        assert read.equals(lance.dataset(uri).to_table(columns=columns))
        assert dict(zip(read["x"].to_pylist(), read["s"].to_pylist(), strict=True)) == rows
    assert lo.fsck(uri, deep=True).ok


def test_rows_that_others_change_meanwhile_are_looked_for_again(uri):
    our_dataset(uri, [6])
    stale = lo.dataset(uri)
    lo.update(uri, {"s": "'theirs'"}, "x = 2")
    done = lo.update(stale, {"s": "s || '!'"}, "x < 4", rewrite="columns")
    assert done.rows_updated == 4
    read = lo.dataset(uri).to_table()
    assert dict(zip(read["x"].to_pylist(), read["s"].to_pylist(), strict=True))[2] == "theirs!"


def test_a_job_is_done_once_also_on_other_machines(uri):
    our_dataset(uri, [5, 5])
    options = {"rewrite": "columns", "job_key": "raise", "runner": TravellingRunner()}
    first = lo.update(uri, {"x": "x + 1"}, "x < 3", **options)
    again = lo.update(uri, {"x": "x + 1"}, "x < 3", **options)
    assert (again.already_committed, again.version) == (True, first.version)
    assert lo.dataset(uri).to_table()["x"].to_pylist() == [1, 2, 3, *range(3, 10)]
    noted = json.loads(lo.dataset(uri).read_transaction().properties["lance_ops.update"])
    assert noted["values"] == {"x": "x + 1"}
