"""Single rows by place, address and id."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.storage import open_store
from lance_ops.table.manifest.row_ids import encode_row_ids
from tests.support.snapshots import put_snapshot, write_snapshot

SIZES = (5, 1, 12)
DELETED = {0: [1, 4], 1: [0], 2: [0, 5, 6]}
IDS = {0: [17, 3, 900, 2, 1], 1: [40], 2: list(range(100, 112))}


def build(path, *, stable):
    store = open_store(path)
    starts = np.cumsum((0, *SIZES))
    tables = [pa.table({"k": range(a, b)}) for a, b in pairwise(starts)]
    found = write_snapshot(store, tables, deleted=DELETED)
    if not stable:
        return found
    fragments = [
        item.replace(row_ids=encode_row_ids(np.array(IDS[item.id], np.uint64))) for item in found.fragments
    ]
    return put_snapshot(
        store, *fragments, schema=found.lance_schema, version=2, reader_flags=3, writer_flags=3
    )


@pytest.fixture(scope="module", params=[False, True], ids=["addresses as ids", "stable ids"])
def dataset(request, tmp_path_factory):
    return build(tmp_path_factory.mktemp("take"), stable=request.param)


@given(picks=st.lists(st.integers(0, 11), max_size=20), by=st.sampled_from(["offset", "address", "id"]))
def test_rows_come_in_the_order_asked_for_as_often_as_asked_for(dataset, picks, by):
    everything = dataset.to_table(["k", "_rowoffset", "_rowaddr", "_rowid"])
    column = {"offset": "_rowoffset", "address": "_rowaddr", "id": "_rowid"}[by]
    expected = everything.take(pa.array(picks, pa.int64()))
    found = dataset.take(expected[column].to_numpy(), everything.column_names, by=by)
    found.validate(full=True)
    assert found.to_pylist() == expected.to_pylist()
    # As with the peer: a scan calls offsets nullable, single rows do not.
    assert found.schema == everything.schema.set(1, pa.field("_rowoffset", pa.uint64(), nullable=False))
    assert dataset.take(expected[column].to_pylist(), [], by=by).num_rows == len(picks)


@pytest.mark.parametrize(
    ("by", "row"),
    [
        ("offset", 12),
        ("offset", -1),
        ("address", 1),
        ("address", 5),
        ("address", 1 << 32),
        ("address", 9 << 32),
    ],
)
def test_rows_that_are_not_there_are_named(dataset, by, row):
    with pytest.raises(InvalidArgumentError, match=str(row) if row >= 0 else "negative"):
        dataset.take([0, row], by=by)


def test_ids_of_deleted_rows_are_not_there(tmp_path):
    found = build(tmp_path, stable=True)
    assert found.take([900, 17], ["k"], by="id")["k"].to_pylist() == [2, 0]
    for gone in (3, 40, 100, 7):
        with pytest.raises(InvalidArgumentError, match=f"id {gone}"):
            found.take([900, gone], by="id")


@pytest.mark.parametrize("rows", [[0.5], ["a"], [-3]])
def test_what_is_no_row_number_is_refused(dataset, rows):
    with pytest.raises(InvalidArgumentError):
        dataset.take(rows)


def test_other_keys_are_refused(dataset):
    with pytest.raises(InvalidArgumentError, match="offset"):
        dataset.take([0], by="place")


@pytest.mark.peer
@pytest.mark.parametrize(
    "columns",
    [
        ["_rowid", "_rowid"],
        ["a", "a"],
        ["a", "_rowid", "a", "_rowaddr", "_rowid"],
        ["_rowoffset", "b", "_rowoffset"],
        ["s.y", "s.x"],
        ["b", "s.z.r", "a", "s.x"],
        ["s", "s.x"],
        ["s.z"],
        [],
    ],
    ids=str,
)
def test_columns_have_the_shape_of_the_peers(tmp_path, columns):
    lance = pytest.importorskip("lance")
    structs = [{"x": 1, "y": 2, "z": {"q": 1, "r": 2}}, None, {"x": None, "y": 3, "z": None}]
    table = pa.table({"a": range(3), "s": structs, "b": ["p", "q", None]})
    peer = lance.write_dataset(table, str(tmp_path), data_storage_version="2.1")
    theirs, ours = peer.take([2, 0, 1, 0], columns=columns), lo.dataset(tmp_path).take([2, 0, 1, 0], columns)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.equals(theirs)
    assert lo.dataset(tmp_path).take([], columns).schema == theirs.schema


def test_rows_of_fragments_that_are_not_in_the_order_of_their_ids(tmp_path):
    store = open_store(tmp_path)
    found = write_snapshot(store, [pa.table({"k": range(start, start + 9)}) for start in (0, 9, 18)])
    dataset = put_snapshot(store, *reversed(found.fragments), schema=found.lance_schema, version=2)
    everything = dataset.to_table(["k", "_rowoffset", "_rowaddr"])
    picks = pa.array([0, 10, 20, 26, 3])
    for by, column in (("offset", "_rowoffset"), ("address", "_rowaddr")):
        rows = everything[column].take(picks).to_numpy()
        assert dataset.take(rows, ["k"], by=by)["k"].to_pylist() == everything["k"].take(picks).to_pylist()


@pytest.mark.parametrize("row", [27, 1 << 40, (1 << 63) + 3])
def test_places_behind_the_last_row_are_named_though_others_are_there(tmp_path, row):
    found = write_snapshot(
        open_store(tmp_path), [pa.table({"k": range(start, start + 9)}) for start in (0, 9, 18)]
    )
    with pytest.raises(InvalidArgumentError, match=str(row)):
        found.take(np.array([0, 10, row], np.uint64), ["k"])
