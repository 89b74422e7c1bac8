"""Merges by a key: as the peer does them, by both readers; what others add meanwhile; indices afterwards."""

from datetime import timedelta
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import CommitConflictError, InvalidArgumentError, PredicateError, SchemaMismatchError
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.maintenance.merge_insert import source as staging
from lance_ops.pb import transaction_pb2
from tests.support.interop import data_files, peer_table

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string()), ("x", pa.int32()), ("f", pa.float32())])
UPSERT: Any = {"when_matched": "update_all", "when_not_matched": "insert_all"}


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


def table(*rows: tuple, names: tuple[str, ...] = ("id", "k", "x", "f")) -> pa.Table:
    columns = [
        pa.array([row[number] for row in rows], SCHEMA.field(name).type) for number, name in enumerate(names)
    ]
    return pa.table(columns, names=list(names))


START = table(
    (1, "a", 10, 0.5),
    (2, "b", 20, None),
    (3, None, 30, 1.5),
    (None, "d", 40, 2.5),
    (5, "e", None, 3.5),
    (2, "f", 60, 4.5),
)


def content(found: pa.Table) -> list[tuple]:
    rows = [tuple(row.values()) for row in found.to_pylist()]
    return sorted(rows, key=lambda row: [(value is None, str(value)) for value in row])


def by_peer(uri: str, data: pa.Table, on: list[str], clauses: dict) -> tuple[int, int, int]:
    merge = lance.dataset(uri).merge_insert(on)
    match clauses.get("when_matched"):
        case "update_all":
            merge.when_matched_update_all()
        case "update_if":
            merge.when_matched_update_all(clauses["condition"])
        case "delete":
            merge.when_matched_delete()
        case "fail":
            merge.when_matched_fail()
    if clauses.get("when_not_matched"):
        merge.when_not_matched_insert_all()
    gone = clauses.get("when_not_matched_by_source")
    if gone is not None:
        merge.when_not_matched_by_source_delete(None if gone == "delete" else gone)
    done = merge.execute(data)
    return done["num_inserted_rows"], done["num_updated_rows"], done["num_deleted_rows"]


def by_us(uri: str, data: Any, on: Any, clauses: dict, **options: Any) -> tuple[int, int, int]:
    done = lo.merge_insert(uri, data, on, **clauses, **options)
    return done.rows_inserted, done.rows_updated, done.rows_deleted


def test_rows_are_updated_and_added_by_their_key(uri):
    lo.append(uri, START, max_rows_per_file=4)
    result = lo.merge_insert(uri, table((2, "n", 1, None), (7, "m", 2, 0.0)), "id", **UPSERT)
    assert (result.rows_inserted, result.rows_updated, result.rows_deleted) == (1, 2, 0)
    assert (result.version, result.fragments_added, result.fragments_updated) == (2, 1, 2)
    assert lo.dataset(uri).to_table(filter="id in (2, 7)")["k"].to_pylist() == ["n", "n", "m"]
    assert "inserted 1 row, updated 2, deleted 0" in str(result)


MATCHED = [
    {},
    {"when_matched": "update_all"},
    {"when_matched": "update_if", "condition": "source.x > target.x or target.f is null"},
    {"when_matched": "delete"},
]
UNMATCHED = [{}, {"when_not_matched": "insert_all"}]
BY_SOURCE = [{}, {"when_not_matched_by_source": "delete"}, {"when_not_matched_by_source": "x >= 30"}]
# The peer fails on deletes of both kinds without inserts ("a logical plan pruning bug").
CLAUSES = [
    {**a, **b, **c}
    for a in MATCHED
    for b in UNMATCHED
    for c in BY_SOURCE
    if (a or b or c) and not (a.get("when_matched") == "delete" and c and not b)
]
CELLS = st.tuples(
    st.one_of(st.none(), st.integers(0, 9)),
    st.one_of(st.none(), st.sampled_from("abc")),
    st.one_of(st.none(), st.integers(0, 60)),
    st.one_of(st.none(), st.sampled_from([0.5, -0.0, 2.5])),
)
KEYS = st.sampled_from([["id"], ["id", "k"], ["k", "id"]])


@st.composite
def steps(draw):
    on, clauses = draw(KEYS), draw(st.sampled_from(CLAUSES))
    rows = draw(st.lists(CELLS, max_size=8, unique_by=lambda row: (row[0], row[1])))
    if on == ["id"]:
        known: set[int] = set()
        rows = [row for row in rows if row[0] is None or not (row[0] in known or known.add(row[0]))]
    names = ["id", "k", "x", "f"]
    partial = draw(st.booleans()) and clauses.get("condition") is None
    # A source of the keys alone has nothing to update by; the peer says so.
    kept = [name for name in names if name in on or not partial or name == "x"]
    return table(*rows).select(kept), on, clauses


@pytest.mark.peer
@settings(max_examples=30, deadline=None)
@given(
    start=st.lists(CELLS, min_size=1, max_size=12),
    turns=st.lists(steps(), min_size=1, max_size=3),
    stable=st.booleans(),
)
def test_merges_by_both_in_turn_are_those_of_the_peer_alone(tmp_path_factory, start, turns, stable):
    folder = tmp_path_factory.mktemp("turns")
    alone, both = str(folder / "alone"), str(folder / "both")
    for uri in (alone, both):
        lance.write_dataset(table(*start), uri, max_rows_per_file=5, enable_stable_row_ids=stable)
    for number, (data, on, clauses) in enumerate(turns):
        expected = by_peer(alone, data, on, clauses)
        found = (by_peer if number % 2 else by_us)(both, data, on, clauses)
        assert found == expected, (data.to_pylist(), on, clauses)
        if lo.dataset(both).version < lance.dataset(alone).version:
            # The peer makes a version of nothing, too; row versions have to go on from the same number.
            assert found == (0, 0, 0)
            by_peer(both, data, on, clauses)
        columns = SCHEMA.names
        if stable:
            columns = [*columns, "_row_created_at_version", "_row_last_updated_at_version"]
        wanted = content(lance.dataset(alone).to_table(columns))
        assert content(peer_table(both, columns=columns)) == wanted
        assert content(lo.dataset(both).to_table(columns)) == wanted
        ids = lo.dataset(both).to_table(["_rowid"])["_rowid"].to_pylist()
        assert len(set(ids)) == len(ids)
        old = "_row_created_at_version < 2"
        if stable:
            kept = [
                content(lance.dataset(one).to_table(["id", "_rowid"], filter=old)) for one in (alone, both)
            ]
            assert kept[0] == kept[1]
    assert lo.fsck(both, deep=True).ok


TYPES = [
    pa.int8(),
    pa.uint64(),
    pa.float64(),
    pa.bool_(),
    pa.large_string(),
    pa.binary(),
    pa.binary(3),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.decimal128(12, 2),
    pa.dictionary(pa.int8(), pa.string()),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_columns_of_these_types_are_keys(uri, kind):
    words = pa.array([b"abc", b"abd", b"abe", b"abf"])
    numbers = pa.array([0, 1, 2, 3], pa.int32())
    if pa.types.is_boolean(kind):
        keys = pa.array([True, None, False, True])
    elif pa.types.is_dictionary(kind):
        keys = words.cast(pa.string()).dictionary_encode().cast(kind)
    elif pa.types.is_temporal(kind):
        keys = numbers.cast(pa.int64() if kind.bit_width == 64 else pa.int32()).cast(kind)
    else:
        keys = (words if "binary" in str(kind) or "string" in str(kind) else numbers).cast(kind)
    data = pa.table({"key": keys, "x": [1, 2, 3, 4]})
    lo.append(uri, data.slice(0, 3))
    merged = lo.merge_insert(
        uri, data.slice(2).set_column(1, "x", pa.array([7, 8])), ["key"], **UPSERT, on_duplicates="first"
    )
    updated = 2 if pa.types.is_boolean(kind) else 1
    assert (merged.rows_updated, merged.rows_inserted) == (updated, 2 - updated)
    assert lo.dataset(uri).count_rows("x >= 7") == 2


def test_several_rows_of_a_key_are_an_error_that_names_them_or_the_first_wins(uri):
    lo.append(uri, START)
    doubled = table((9, "p", 1, None), (1, "q", 2, None), (1, "r", 3, None), (9, "s", 4, None))
    before = data_files(uri)
    with pytest.raises(InvalidArgumentError, match=r"rows 1, 2 of the source have the same key \(id = 1\)"):
        lo.merge_insert(uri, doubled, "id", **UPSERT)
    assert (lo.dataset(uri).version, data_files(uri)) == (1, before)
    # Nothing becomes of rows with a new key, so that two of them say nothing.
    lo.merge_insert(uri, doubled.slice(2), "id", when_matched="update_all")
    assert by_us(uri, doubled, "id", UPSERT, on_duplicates="first") == (1, 1, 0)
    assert lo.dataset(uri).to_table(filter="id in (1, 9)")["k"].to_pylist() == ["q", "p"]


def test_a_merge_without_clauses_is_an_upsert(uri):
    lo.append(uri, START)
    lo.append(other := f"{uri}.copy", START)
    source = table((1, "q", 1, None), (9, "p", 1, None))
    merged, told = lo.merge_insert(uri, source, "id"), lo.merge_insert(other, source, "id", **UPSERT)
    assert (merged.rows_updated, merged.rows_inserted) == (told.rows_updated, told.rows_inserted) == (1, 1)
    assert lo.dataset(uri).to_table() == lo.dataset(other).to_table()
    source = table((1, "r", 1, None), (8, "s", 1, None))
    some = lo.merge_insert(uri, source, "id", condition="target.k <> 'q'")
    assert (some.rows_updated, some.rows_inserted) == (0, 1)


BAD: list[tuple[dict, str, type[Exception]]] = [
    ({"on": "nope"}, "no column 'nope'", InvalidArgumentError),
    ({"on": ["id", "id"]}, "duplicate column in the key", InvalidArgumentError),
    (
        {"on": "k", "data": table((1,), names=("id",))},
        "source has no key column 'k'",
        InvalidArgumentError,
    ),
    ({"on": None}, "no key columns were given", InvalidArgumentError),
    ({"when_matched": "do_nothing", "when_not_matched": None}, "no clause changes", InvalidArgumentError),
    ({"when_matched": "upsert"}, "cannot be 'upsert'", InvalidArgumentError),
    ({"when_matched": "update_if"}, "requires a condition", InvalidArgumentError),
    (
        {"when_matched": "fail"},
        r"row 0 of the source has an existing key \(id = 1\)",
        InvalidArgumentError,
    ),
    ({"when_matched": "update_if", "condition": "x > 1"}, "x", PredicateError),
    ({"when_matched": "update_if", "condition": "source.nope > 1"}, "nope", PredicateError),
    ({"when_not_matched_by_source": "nope > 1"}, "nope", PredicateError),
    (
        {"data": table((1, 2), names=("id", "x")).append_column("zz", pa.array([1]))},
        "zz",
        SchemaMismatchError,
    ),
    ({"data": pa.table({"id": [1], "x": ["a"]})}, "x: string in the data, int32", SchemaMismatchError),
]


@pytest.mark.parametrize(("changes", "message", "error"), BAD, ids=lambda item: str(item)[:40])
def test_what_cannot_be_merged_is_refused_and_nothing_changes(uri, changes, message, error):
    lo.append(uri, START)
    before = data_files(uri)
    arguments = {"data": table((1, "n", 1, None)), "on": "id", **UPSERT, **changes}
    with pytest.raises(error, match=message):
        lo.merge_insert(uri, **arguments)
    assert (lo.dataset(uri).version, data_files(uri)) == (1, before)


def test_a_merge_of_nothing_commits_nothing_and_says_so(uri):
    lo.append(uri, START)
    result = lo.merge_insert(uri, table((77, "n", 1, None)), "id", when_matched="update_all", job_key="k")
    assert not result.changed
    assert "nothing was changed" in str(result)
    assert lo.dataset(uri).version == 1


def test_a_dry_run_joins_and_writes_nothing(uri):
    lo.append(uri, START, max_rows_per_file=2)
    before = data_files(uri)
    data = table((1, "n", 1, None), (8, "m", 2, None))
    plan = lo.merge_insert(uri, data, "id", **UPSERT, when_not_matched_by_source="x = 60", dry_run=True)
    assert (plan.rows_inserted, plan.rows_updated, plan.rows_deleted) == (1, 1, 1)
    assert plan.to_dict()["fragments"][0]["rows_matched"] == 1
    assert "inserts 1, updates 1, deletes 1" in str(plan)
    assert (lo.dataset(uri).version, data_files(uri)) == (1, before)


def test_a_job_is_merged_once_also_when_its_data_can_be_read_once_only(uri):
    lo.append(uri, START)
    data = table((1, "n", 1, None), (8, "m", 2, None))
    first = lo.merge_insert(uri, data.to_reader(), "id", **UPSERT, job_key="day 1")
    lo.merge_insert(uri, table((8, "later", 3, None)), "id", **UPSERT)
    again = lo.merge_insert(uri, iter(()), "id", **UPSERT, job_key="day 1")
    assert (again.already_committed, again.version) == (True, first.version)
    assert lo.dataset(uri).to_table(filter="id = 8")["k"].to_pylist() == ["later"]


def test_any_kind_of_source_is_merged(uri, tmp_path):
    data = table((1, "n", 1, None), (8, "m", 2, None))
    path = str(tmp_path / "changed.parquet")
    pq.write_table(data, path)
    lance.write_dataset(data, str(tmp_path / "other.lance"))
    sources = [data, data.to_reader(), data.to_batches(), path, [path], data.to_pandas(types_mapper=pd_types)]
    for number, source in enumerate([*sources, lance.dataset(str(tmp_path / "other.lance"))]):
        target = f"{uri}{number}"
        lo.append(target, START)
        assert by_us(target, source, "id", UPSERT) == (1, 1, 0)


def pd_types(kind: pa.DataType) -> Any:
    import pandas as pd

    return {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}.get(kind)


def test_a_large_source_is_put_on_disk_and_removed_again(uri, tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "IN_MEMORY", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    lo.append(uri, START)
    rows = [(number, f"k{number}", number, None) for number in range(4, 1000)]
    batches = table(*rows).to_batches(max_chunksize=50)
    assert by_us(uri, iter(batches), "id", UPSERT) == (995, 1, 0)
    assert lo.dataset(uri).count_rows("k = 'k999' and x = 999") == 1
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_index_on_the_key_finds_the_partners(uri):
    start = pa.table({"id": pa.array(range(5000)), "x": pa.array([0] * 5000)})
    lo.append(uri, start, max_rows_per_file=1000)
    lo.create_index(uri, "id", "BTREE")
    lo.append(uri, pa.table({"id": pa.array(range(5000, 5100)), "x": pa.array([0] * 100)}))
    lo.delete(uri, "id = 17")
    data = pa.table({"id": [16, 17, 18, 5050, 9999], "x": [1] * 5})
    assert lo.merge_insert(uri, data, "id", **UPSERT, dry_run=True).uses_index
    assert not lo.merge_insert(uri, data, "id", **UPSERT, use_index=False, dry_run=True).uses_index
    assert by_us(uri, data, "id", UPSERT) == (2, 3, 0)
    found = peer_table(uri, columns=["id"], filter="x = 1")["id"].to_pylist()
    assert sorted(found) == [16, 17, 18, 5050, 9999]


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
def test_indices_answer_right_after_a_merge_by_both(uri, stable):
    count = 400
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(count * 4, dtype=np.float32) % 97), 4)
    data = pa.table(
        {
            "id": pa.array(range(count)),
            "k": pa.array([f"n{number % 5}" for number in range(count)]),
            "text": pa.array([f"word{number % 7} common" for number in range(count)]),
            "v": vectors,
        }
    )
    lo.write_dataset(data, uri, max_rows_per_file=150, enable_stable_row_ids=stable)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("k", "BITMAP")
    dataset.create_scalar_index("text", "INVERTED")
    dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    changed = data.slice(100, 50).set_column(1, "k", pa.array(["new"] * 50))
    changed = changed.set_column(2, "text", pa.array(["fresh"] * 50))
    new = data.slice(0, 10).set_column(0, "id", pa.array(range(1000, 1010)))
    lo.merge_insert(uri, pa.concat_tables([changed, new]), "id", **UPSERT)
    for probe in ("id >= 95 and id < 105", "k = 'new'", "k = 'n2'", "id > 990"):
        expected = sorted(lo.dataset(uri).to_table(["id"], probe, pruners=())["id"].to_pylist())
        ours = lo.dataset(uri).to_table(["id"], probe, pruners=[IndexPruner()])["id"].to_pylist()
        assert sorted(ours) == expected
        assert sorted(peer_table(uri, columns=["id"], filter=probe)["id"].to_pylist()) == expected
    for word, number in (("fresh", 50), ("common", 360)):
        for side in (lo, lance):
            assert side.dataset(uri).to_table(["id"], full_text_query=word, limit=900).num_rows == number
    query = {"column": "v", "q": [0.0, 1.0, 2.0, 3.0], "k": 900, "nprobes": 2}
    for side in (lo, lance):
        assert side.dataset(uri).to_table(["id"], nearest=query).num_rows == 410


class Once:
    """Lets another writer act when a merge is about to commit, once."""

    def __init__(self, act):
        self.act = act

    def __call__(self, event):
        if event.message == "committing" and self.act is not None:
            act, self.act = self.act, None
            act()


@pytest.mark.parametrize("peer", [False, True])
def test_two_upserts_of_the_same_new_keys_give_one_row_for_each(uri, peer):
    lo.append(uri, START)
    data = table((8, "m", 2, None), (9, "n", 3, None))
    act = (lambda: by_peer(uri, data, ["id"], UPSERT)) if peer else (lambda: by_us(uri, data, "id", UPSERT))
    result = lo.merge_insert(uri, data, "id", **UPSERT, progress=Once(act))
    assert (result.rows_inserted, result.rows_updated) == (0, 2)
    assert result.conflicts
    assert lo.dataset(uri).count_rows("id in (8, 9)") == 2


def test_rows_that_others_append_meanwhile_are_updated_too(uri):
    lo.append(uri, START)
    data = table((8, "m", 2, None))
    other = Once(lambda: lo.append(uri, table((8, "theirs", 1, None))))
    assert by_us(uri, data, "id", UPSERT, progress=other) == (0, 1, 0)
    assert lo.dataset(uri).to_table(filter="id = 8")["k"].to_pylist() == ["m"]


KEYED = pa.schema(
    [
        pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}),
        pa.field("x", pa.int32()),
    ]
)
PAIRED = pa.schema(
    [
        pa.field("x", pa.int32()),
        pa.field("b", pa.string(), False, {"lance-schema:unenforced-primary-key:position": "2"}),
        pa.field("a", pa.int32(), False, {"lance-schema:unenforced-primary-key:position": "1"}),
    ]
)
NAMED = pa.schema([pa.field("id", pa.string(), False, KEYED.field("id").metadata), pa.field("x", pa.int32())])


@pytest.mark.peer
@pytest.mark.parametrize(
    ("schema", "row"),
    [
        (KEYED, lambda number: {"id": number - 5, "x": 1}),
        (NAMED, lambda number: {"id": f"key {number}", "x": 1}),
        (PAIRED, lambda number: {"a": number % 7 - 3, "b": f"key {number}", "x": 1}),
    ],
    ids=["numbers", "texts", "pairs"],
)
def test_keys_of_inserted_rows_are_told_as_the_peer_tells_them(tmp_path, schema, row):
    start = pa.Table.from_pylist([row(number) for number in range(4)], schema)
    more = pa.Table.from_pylist([row(number) for number in range(2, 40)], schema)
    key = sorted(field.name for field in schema if field.metadata)
    filters = []
    for who in (by_peer, by_us):
        uri = str(tmp_path / who.__name__)
        lance.write_dataset(start, uri)
        who(uri, more, key, UPSERT)
        message = transaction_pb2.Transaction.FromString(lo.dataset(uri).manifest.transaction)
        assert message.update.HasField("inserted_rows")
        filters.append(message.update.inserted_rows.SerializeToString(deterministic=True))
    assert filters[0] == filters[1]


def test_merges_on_a_primary_key_that_add_other_keys_do_not_plan_again(uri):
    lo.append(uri, pa.table({"id": [1, 2], "x": [1, 2]}, KEYED))
    other = Once(lambda: lo.merge_insert(uri, pa.table({"id": [7], "x": [7]}, KEYED), **UPSERT))
    result = lo.merge_insert(
        uri, pa.table({"id": [8], "x": [8]}, KEYED), **UPSERT, progress=other, max_replans=0
    )
    assert len(result.conflicts) == 1
    assert sorted(lo.dataset(uri).to_table()["id"].to_pylist()) == [1, 2, 7, 8]


DISTINCT = table((1, "a", 10, 0.5), (2, "b", 20, None), (3, None, 30, 1.5), (5, "e", None, 3.5))


def add_by_peer(uri, rows):
    lance.write_dataset(rows, uri, mode="append")


def change_by_peer(uri, rows):
    lance.dataset(uri).update({"x": "77"}, f"id = {rows['id'][0]}")


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(
    ("name", "act", "more"),
    [
        ("an append of other keys", lambda uri: lo.append(uri, table((50, "p", 1, None))), [50]),
        ("the peer's", lambda uri: add_by_peer(uri, table((50, "p", 1, None), (None, "q", 1, None))), [50]),
        ("an upsert", lambda uri: by_us(uri, table((50, "p", 1, None)), "id", UPSERT), [50]),
        ("an update of other rows", lambda uri: lo.update(uri, {"x": "77"}, "id = 1"), []),
        ("the peer's", lambda uri: change_by_peer(uri, table((1, "", 0, None))), []),
        ("a compaction", lambda uri: lo.compact(uri), []),
        ("and an append", lambda uri: (lo.append(uri, table((50, "p", 1, None))), lo.compact(uri)), [50]),
    ],
)
def test_what_others_do_to_other_keys_is_no_reason_to_join_again(tmp_path, name, act, more, stable):
    uri = str(tmp_path / "t")
    lo.write_dataset(DISTINCT, uri, max_rows_per_file=2, enable_stable_row_ids=stable)
    data = table((2, "mine", 20, None), (60, "mine", 60, None), (None, "mine", 0, None))
    result = lo.merge_insert(uri, data, "id", **UPSERT, progress=Once(lambda: act(uri)), max_replans=0)
    assert result.rebased_over
    for side in (lo, lance):
        found = side.dataset(uri).to_table()
        keys = [key for key in found["id"].to_pylist() if key is not None]
        assert sorted(keys) == [1, 2, 3, 5, *more, 60]
        mine = found.filter(pc.equal(found["k"], "mine"))
        assert sorted(mine["x"].to_pylist()) == [0, 20, 60]
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.parametrize(
    "act",
    [
        lambda uri: lo.append(uri, table((60, "theirs", 1, None))),
        lambda uri: lo.update(uri, {"id": "60"}, "id = 1"),
        lambda uri: lance.dataset(uri).update({"id": "60"}, "id = 1"),
        lambda uri: (lo.append(uri, table((60, "theirs", 1, None))), lo.compact(uri)),
        lambda uri: (
            lo.append(uri, table((60, "theirs", 1, None))),
            lo.compact(uri),
            lo.cleanup(uri, older_than=timedelta(0), retain_versions=1, delete_unverified=True),
        ),
    ],
)
def test_a_key_that_another_row_got_meanwhile_is_that_of_one_row(uri, act):
    lo.write_dataset(DISTINCT, uri, max_rows_per_file=2)
    data = table((2, "mine", 20, None), (60, "mine", 60, None))
    with pytest.raises(CommitConflictError) as failed:
        lo.merge_insert(uri, data, "id", **UPSERT, progress=Once(lambda: act(uri)), max_replans=0)
    assert failed.value.retryable
    found = lo.merge_insert(uri, data, "id", **UPSERT)
    assert (found.rows_inserted, found.rows_updated) == (0, 2)
    assert lo.dataset(uri).to_table(filter="id = 60")["k"].to_pylist() == ["mine"]


def test_indices_on_columns_of_the_key_leave_the_rows_that_both_allow(uri):
    start = pa.table({"a": [n // 50 for n in range(5000)], "b": [f"b{n % 50}" for n in range(5000)]})
    lo.append(uri, start.append_column("x", pa.array([0] * 5000)), max_rows_per_file=1000)
    data = pa.table({"a": [3, 3, 200], "b": ["b7", "new", "b1"], "x": [1, 2, 3]})
    plain = lo.merge_insert(uri, data, ["a", "b"], **UPSERT, dry_run=True)
    assert plain.found_by == "a scan of the key"
    for column in ("a", "b"):
        lo.create_index(uri, column, "BTREE")
        plan = lo.merge_insert(uri, data, ["a", "b"], **UPSERT, dry_run=True)
        assert "BTREE index a_idx" in str(plan)
        assert (plan.rows_inserted, plan.rows_updated) == (2, 1)
        assert plan.to_dict()["found_by"] == plan.found_by
    assert by_us(uri, data, ["a", "b"], UPSERT) == (2, 1, 0)
    assert lo.dataset(uri).to_table(filter="x > 0").sort_by("x").to_pylist() == data.to_pylist()
