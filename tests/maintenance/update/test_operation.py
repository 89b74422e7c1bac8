"""Rows get other values: as the peer has them where it does not cut or overflow, by both readers."""

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import CommitConflictError, InvalidArgumentError, PredicateError, SchemaMismatchError
from lance_ops.index.search.pruner import IndexPruner
from tests.support.interop import data_files, our_dataset, peer_table, rows, xs

LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
PLAIN = pa.schema(
    [("id", pa.int64()), ("x", pa.int32()), ("f", pa.float32()), ("s", pa.string()), ("b", pa.bool_())]
)


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


def numbers(count: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    nulls = rng.random((4, count)) < 0.2
    columns = [
        pa.array(range(count), pa.int64()),
        pa.array(rng.integers(-50, 50, count), pa.int32(), mask=nulls[0]),
        pa.array(rng.integers(-8, 8, count) / 4, pa.float32(), mask=nulls[1]),
        pa.array([f"n{value}" for value in rng.integers(0, 9, count)], pa.string(), mask=nulls[2]),
        pa.array(rng.random(count) < 0.5, pa.bool_(), mask=nulls[3]),
    ]
    return pa.table(columns, PLAIN)


def by_id(table: pa.Table) -> list[dict]:
    return table.sort_by("id").to_pylist()


def test_rows_get_new_values_and_the_others_stay(uri):
    our_dataset(uri, [5, 5, 5])
    result = lo.update(uri, {"x": "x + 100", "s": "upper(s)"}, "x >= 3 and x < 11")
    assert (result.rows_updated, result.fragments_updated, result.fragments_removed) == (8, 2, 1)
    assert (result.version, result.fragments_added, result.columns) == (4, 1, ("x", "s"))
    assert xs(uri) == [0, 1, 2, 11, 12, 13, 14, *range(103, 111)]
    changed = lo.dataset(uri).to_table(filter="x = 105").to_pylist()
    assert changed == [{"x": 105, "s": "ROW 5", "f": 1.25}]


def test_no_matching_row_means_no_commit_and_says_so(uri):
    our_dataset(uri, [5])
    before = data_files(uri)
    result = lo.update(uri, {"x": "1"}, "x > 100", job_key="k")
    assert not result.changed
    assert "no rows match, nothing was changed" in str(result)
    assert data_files(uri) == before


def test_without_a_condition_every_row_is_updated(uri):
    our_dataset(uri, [3, 2])
    result = lo.update(uri, {"f": "NULL"})
    assert (result.rows_updated, result.fragments_removed) == (5, 2)
    assert lo.dataset(uri).to_table()["f"].null_count == 5


def test_expressions_see_the_rows_as_they_were(uri):
    lo.append(uri, pa.table({"a": [1, 2], "b": [10, 20]}))
    lo.update(uri, {"a": "b", "b": "a"})
    assert lo.dataset(uri).to_table().to_pydict() == {"a": [10, 20], "b": [1, 2]}


def test_a_dry_run_tells_what_would_change_and_changes_nothing(uri):
    our_dataset(uri, [5, 5])
    before = data_files(uri)
    plan = lo.update(uri, {"x": "x + 1"}, "x in (1, 7)", dry_run=True)
    assert (plan.rows_matched, plan.to_dict()["values"]) == (2, {"x": "x + 1"})
    assert "2 rows of 10" in str(plan)
    assert (lo.dataset(uri).version, data_files(uri)) == (2, before)


def test_a_job_is_done_once(uri):
    our_dataset(uri, [5])
    first = lo.update(uri, {"x": "x + 1"}, "x < 3", job_key="raise")
    again = lo.update(uri, {"x": "x + 1"}, "x < 3", job_key="raise")
    assert (again.already_committed, again.version) == (True, first.version)
    assert sorted(xs(uri)) == [1, 2, 3, 3, 4]


BAD = [
    ({"nope": "1"}, "column 'nope' not found", InvalidArgumentError),
    ({"st.a": "1"}, "only whole columns", InvalidArgumentError),
    ({}, "no columns were assigned", InvalidArgumentError),
    ({"x": ""}, "is empty", InvalidArgumentError),
    ({"x": "nope + 1"}, "nope", PredicateError),
    ({"x": "upper(s) ="}, "upper", PredicateError),
    ({"st": "x"}, "has type int32", PredicateError),
    ({"x": "1.5"}, "x: 1.5 is no int32 in the row with address 0", SchemaMismatchError),
    ({"x": "id + 3000000000"}, "x: 3000000000 is no int32 in the row with address 0", SchemaMismatchError),
    ({"x": "s"}, "x: c is no int32 in the row with address 3", SchemaMismatchError),
    ({"id": "x"}, "id: null in the row with address 5 in a non-nullable column", SchemaMismatchError),
    ({"d": "t"}, "2020-01-01 00:00:01.*in the row with address 3", SchemaMismatchError),
    ({"x": "10 / (id - 4)"}, "division by zero", PredicateError),
    ({"id": "9223372036854775807 - (4 - id)"}, "overflow", PredicateError),
    ({"id": "-(id - 9223372036854775807 - 1)"}, "overflow", PredicateError),
    ({"id": "CASE WHEN id > 9 THEN 0 ELSE id * 9223372036854775807 END"}, "overflow", PredicateError),
]


@pytest.mark.parametrize(("values", "message", "error"), BAD, ids=lambda item: str(item)[:30])
def test_what_does_not_fit_is_an_error_that_names_column_and_row(uri, values, message, error):
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("x", pa.int32()),
            ("s", pa.string()),
            ("d", pa.date32()),
            ("t", pa.timestamp("s")),
            ("st", pa.struct([("a", pa.int32())])),
        ]
    )
    midnight = 18262 * 86400
    data = {
        "id": [0, 1, 2, 3, 4, 5],
        "x": [1, 2, 3, 4, 5, None],
        "s": ["7", "8", "9", "c", "1", "1"],
        "d": [1] * 6,
        "t": [midnight, midnight, midnight, midnight + 1, midnight, midnight],
        "st": [{"a": 1}] * 6,
    }
    lo.append(uri, pa.table(data, schema))
    before = data_files(uri)
    with pytest.raises(error, match=message):
        lo.update(uri, values, "id <> 0 or id = 0", runner=lo.LocalRunner(2))
    assert (lo.dataset(uri).version, data_files(uri)) == (1, before)


def test_lists_and_structs_are_written_and_checked_to_their_leaves(uri):
    item = pa.struct([("n", pa.int16()), ("at", pa.timestamp("ms"))])
    schema = pa.schema([("id", pa.int64()), ("one", item), ("many", pa.large_list(item))])
    lo.append(uri, pa.Table.from_pylist([{"id": number} for number in range(3)], schema=schema))
    at = "CAST('2024-01-15 13:00:00' AS TIMESTAMP)"
    one = f"named_struct('at', {at}, 'n', id)"
    lo.update(uri, {"one": one, "many": f"[{one}, named_struct('at', {at}, 'n', 7)]"}, "id > 0")
    written = by_id(lo.dataset(uri).to_table())
    assert written == by_id(lance.dataset(uri).to_table())
    assert [row["one"] and row["one"]["n"] for row in written] == [None, 1, 2]
    assert [item["n"] for item in written[2]["many"]] == [2, 7]
    lo.update(uri, {"one": "NULL"}, "id = 1")
    assert by_id(lo.dataset(uri).to_table())[1]["one"] is None
    for value in (
        f"named_struct('at', {at}, 'n', id * 40000)",
        "named_struct('at', CAST('2024-01-15 13:00:00.0001' AS TIMESTAMP), 'n', 1)",
    ):
        for column, sql in (("one", value), ("many", f"[{value}]")):
            with pytest.raises(SchemaMismatchError, match=r"is no (struct|large_list)") as caught:
                lo.update(uri, {column: sql})
            assert f"{column}: " in str(caught.value)
    for value in ("named_struct('n', 1)", "named_struct('n', 1, 'at', NULL, 'x', 1)", "[1]"):
        with pytest.raises(PredicateError, match="but the expression"):
            lo.update(uri, {"one": value})


def test_sums_overflow_only_in_rows_that_they_are_computed_for(uri):
    most = (1 << 63) - 1
    lo.append(uri, pa.table({"x": pa.array([1, most, None], pa.int64())}))
    lo.update(uri, {"x": f"CASE WHEN x < {most} THEN x + 1 ELSE -x END"})
    assert lo.dataset(uri).to_table()["x"].to_pylist() == [2, -most, None]
    # A filter wraps, as the peer's does.
    assert lo.dataset(uri).count_rows(f"x - {most} > 0") == 1


EXPRESSIONS = [
    {"x": "x + 1"},
    {"x": "id", "s": "'q'"},
    {"x": "NULL"},
    {"f": "x / 4"},
    {"f": "f * 2.0", "b": "x > 3"},
    {"s": "upper(s)"},
    {"s": "x"},
    {"x": "'7'"},
    {"id": "id + 1000"},
]
CONDITIONS = [None, "x > 0", "s = 'n1' or f is null", "b", "id % 3 = 1", "x in (1, 2, 3) and not b"]


@pytest.mark.peer
@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(EXPRESSIONS), st.sampled_from(CONDITIONS)), min_size=1, max_size=4
    ),
    stable=st.booleans(),
    seed=st.integers(0, 5),
)
def test_updates_by_both_in_turn_are_those_of_the_peer_alone(tmp_path_factory, steps, stable, seed):
    folder = tmp_path_factory.mktemp("turns")
    alone, both = str(folder / "alone"), str(folder / "both")
    for uri in (alone, both):
        lance.write_dataset(numbers(40, seed), uri, max_rows_per_file=15, enable_stable_row_ids=stable)
    for number, (values, where) in enumerate(steps):
        expected = lance.dataset(alone).update(values, where)["num_rows_updated"]
        if number % 2:
            found = lance.dataset(both).update(values, where)["num_rows_updated"]
        else:
            found = lo.update(both, values, where).rows_updated
        assert found == expected
        if lo.dataset(both).version < lance.dataset(alone).version:
            # The peer makes a version of nothing, too; row versions have to go on from the same number.
            assert not found
            lance.dataset(both).update(values, where)
        assert lo.dataset(both).version == lance.dataset(alone).version
        columns = [*PLAIN.names, *(LINEAGE if stable else ["_rowaddr"])]
        wanted = lance.dataset(alone).to_table(columns)
        assert lance.dataset(both).to_table(columns).equals(wanted)
        assert lo.dataset(both).to_table(columns).equals(wanted)
    assert lo.fsck(both, deep=True).ok


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_indices_answer_right_after_an_update_by_both(uri, stable, version):
    options = {"enable_stable_row_ids": stable, "data_storage_version": version}
    words = pa.array([f"word{number % 7} common" for number in range(600)])
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(600 * 4, dtype=np.float32) % 97), 4)
    data = numbers(600).append_column("text", words).append_column("v", vectors)
    lo.write_dataset(data, uri, max_rows_per_file=200, **options)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("x", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    dataset.create_scalar_index("text", "INVERTED")
    dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    lo.update(uri, {"x": "x + 1000", "s": "'new'", "text": "'fresh words'"}, "id % 5 = 2")
    for probe in ("x > 900", "x = 3", "s = 'new'", "s = 'n2'"):
        expected = lo.dataset(uri).to_table(["id"], probe, pruners=())["id"].to_pylist()
        assert lo.dataset(uri).to_table(["id"], probe, pruners=[IndexPruner()])["id"].to_pylist() == expected
        assert sorted(peer_table(uri, columns=["id"], filter=probe)["id"].to_pylist()) == sorted(expected)
    for word, count in (("fresh", 120), ("common", 480)):
        for side in (lo, lance):
            found = side.dataset(uri).to_table(["id"], full_text_query=word, limit=1000)
            assert len(set(found["id"].to_pylist())) == count
    query = {"column": "v", "q": [0.0, 1.0, 2.0, 3.0], "k": 600, "nprobes": 2}
    for side in (lo, lance):
        found = side.dataset(uri).to_table(["id"], nearest=query)["id"].to_pylist()
        assert sorted(found) == list(range(600))


def test_a_row_that_was_deleted_meanwhile_is_not_brought_back(uri):
    our_dataset(uri, [10, 10])
    other = Once(lambda: lo.delete(uri, "x in (3, 4, 15)"))
    result = lo.update(uri, {"x": "x + 100"}, "x < 5", progress=other)
    assert result.conflicts
    assert sorted(xs(uri)) == [*range(5, 15), *range(16, 20), 100, 101, 102]


def test_an_update_and_a_delete_of_other_rows_of_a_fragment_merge(uri):
    our_dataset(uri, [10])
    result = lo.update(
        uri, {"x": "x + 100"}, "x < 5", progress=Once(lambda: lo.delete(uri, "x > 7")), max_replans=0
    )
    assert (result.rows_updated, sorted(xs(uri))) == (5, [5, 6, 7, *range(100, 105)])


def test_rows_that_others_append_meanwhile_stay_as_they_are(uri):
    our_dataset(uri, [10])
    other = Once(lambda: lo.append(uri, rows(0, 3)))
    lo.update(uri, {"x": "x + 100"}, "x < 5", progress=other, max_replans=0)
    assert sorted(xs(uri)) == [0, 1, 2, *range(5, 10), *range(100, 105)]


def test_rows_that_are_named_by_their_addresses_are_not_looked_for_again(uri):
    our_dataset(uri, [10, 10])
    other = Once(lambda: lo.delete(uri, "x < 3"))
    with pytest.raises(CommitConflictError, match="may have moved"):
        lo.update(uri, {"x": "0"}, "_rowaddr < 5", progress=other)


class Once:
    """Lets another writer act when the rows of an update are written, once."""

    def __init__(self, act):
        self.act = act

    def __call__(self, event):
        if event.message == "committing" and self.act is not None:
            act, self.act = self.act, None
            act()


@pytest.mark.parametrize(
    ("kind", "fits", "does_not"),
    [
        (pa.timestamp("us"), "2024-01-01 00:00:00.123456000", "2024-01-01 00:00:00.1234567"),
        (pa.timestamp("us"), "9000-01-01 00:00:00", "1960-01-01 00:00:00.123456789"),
        (pa.timestamp("s", "Europe/Berlin"), "2024-07-01 00:00:00", "2024-07-01 00:00:00.5"),
        (pa.timestamp("ns"), "2024-01-01 00:00:00.1234567890", "2024-01-01 00:00:00.1234567891"),
        (pa.date32(), "2024-01-01 00:00:00", "2024-01-01 12:00:00"),
        (pa.date64(), "20240101", "2024-01-01T00:00:00.1"),
        (pa.time32("s"), "12:00:01.000", "12:00:01.5"),
        (pa.time64("us"), "12:00:01.123456", "12:00:01.1234567"),
    ],
    ids=str,
)
def test_digits_of_a_time_that_its_column_cannot_hold_are_refused(uri, kind, fits, does_not):
    lo.write_dataset(pa.table({"t": pa.array([None], kind)}), uri)
    with pytest.raises(PredicateError, match="digits of its time would be cut off"):
        lo.update(uri, {"t": f"'{does_not}'"})
    assert lo.dataset(uri).to_table()["t"].null_count == 1
    lo.update(uri, {"t": f"'{fits}'"})
    assert lo.dataset(uri).to_table()["t"].null_count == 0
