"""Putting columns together from parts."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import CorruptFileError
from lance_ops.table.assemble import as_it_is, assemble, forbidden_nulls, null_column
from tests.support.arrays import ALL_2_0_TYPES, random_array

DEEP = pa.struct(
    [
        ("a", pa.int32()),
        ("b", pa.list_(pa.struct([("x", pa.int8()), ("y", pa.string())]))),
        ("c", pa.map_(pa.string(), pa.int32())),
        ("d", pa.list_(pa.struct([("x", pa.int8())]), 2)),
        ("e", pa.large_list(pa.int16())),
    ]
)
ROWS = [
    {"a": 1, "b": [{"x": 1, "y": "p"}], "c": [("k", 1)], "d": [{"x": 1}, None], "e": [1]},
    None,
    {"a": None, "b": None, "c": None, "d": None, "e": None},
    {"a": 4, "b": [], "c": [], "d": [None, None], "e": []},
    {"a": 5, "b": [None, {"x": 2, "y": None}], "c": [("z", None)], "d": [{"x": None}] * 2, "e": [None]},
]
WIDER = pa.struct(
    [
        ("new", pa.int64()),
        ("d", pa.list_(pa.struct([("w", pa.string()), ("x", pa.int8())]), 2)),
        ("b", pa.list_(pa.struct([("y", pa.string()), ("z", pa.bool_()), ("x", pa.int8())]))),
        ("a", pa.int32()),
    ]
)


def widen(row):
    if row is None:
        return None

    def items(name, members):
        values = row[name]
        return values and [item and {m: item.get(m) for m in members} for item in values]

    return {"new": None, "d": items("d", "wx"), "b": items("b", "yzx"), "a": row["a"]}


@given(st.integers(0, 5), st.integers(0, 5))
def test_missing_and_reordered_members_at_any_depth_also_of_slices(start, length):
    array = pa.array(ROWS, DEEP).slice(start, length)
    found = assemble(WIDER, [array], len(array))
    found.validate(full=True)
    assert found.type == WIDER
    assert found.to_pylist() == [widen(row) for row in ROWS[start : start + length]]


@given(st.integers(0, 5), st.lists(st.integers(0, 2), min_size=5, max_size=5))
def test_members_from_several_parts_make_the_struct_again(start, owners):
    array = pa.array(ROWS, DEEP).slice(start)
    parts = []
    for owner in range(3):
        mine = [number for number in range(5) if owners[number] == owner]
        members = [array.field(number) for number in mine]
        if members:
            fields = [DEEP.field(number) for number in mine]
            parts.append(pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null()))
    assert assemble(DEEP, parts, len(array)).equals(array)


@pytest.mark.parametrize("kind", ALL_2_0_TYPES, ids=str)
def test_nothing_found_is_null_and_the_right_type_passes_untouched(kind):
    nulls = null_column(kind, 3)
    assert (nulls.type, nulls.null_count) == (kind, 3)
    assert assemble(kind, [], 3).equals(nulls)
    array = random_array(kind, 5)
    assert assemble(kind, [array], 5) is array


def test_the_same_values_twice_are_a_damaged_fragment():
    with pytest.raises(CorruptFileError):
        assemble(pa.int8(), [pa.array([1], pa.int8())] * 2, 1)


def test_a_struct_of_no_members_keeps_its_rows():
    empty = pa.struct([])
    part = pa.array([{"a": 1}, None], pa.struct([("a", pa.int8())]))
    assert assemble(empty, [part], 2).to_pylist() in ([{}, None], [{}, {}])


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.string(), pa.null(), pa.dictionary(pa.int8(), pa.string()), pa.binary(3)]
)
def test_flat_columns_that_fit_are_taken_as_they_are(kind):
    batch = pa.record_batch([pa.nulls(3, kind)], schema=pa.schema([pa.field("x", kind)]))
    assert as_it_is(batch, batch.schema) is batch
    target = pa.schema([pa.field("x", kind, metadata={"k": "v"})], metadata={"m": "n"})
    assert as_it_is(batch, target).schema.equals(target, check_metadata=True)


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct({"a": pa.int8()}),
        pa.list_(pa.int8()),
        pa.list_(pa.int8(), 2),
        pa.map_(pa.int8(), pa.int8()),
        pa.uuid(),
    ],
)
def test_nulls_below_columns_are_looked_for(kind):
    batch = pa.record_batch([pa.nulls(3, kind)], schema=pa.schema([pa.field("x", kind)]))
    assert as_it_is(batch, batch.schema) is None


def test_columns_that_do_not_fit_are_not_taken():
    batch = pa.record_batch({"x": [1, None], "y": ["a", "b"]})
    required = pa.schema([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.string())])
    wrong = [required, batch.schema.remove(0), pa.schema([batch.schema.field(1), batch.schema.field(0)])]
    for target in [*wrong, pa.schema([("x", pa.int32()), ("y", pa.string())]), pa.schema([])]:
        assert as_it_is(batch, target) is None
    hidden = pa.RecordBatch.from_arrays(batch.columns, schema=required)
    assert as_it_is(hidden, required) is None
    assert as_it_is(hidden.slice(0, 1), required) is not None


def test_nulls_in_required_fields_are_found_at_any_depth():
    members = pa.StructArray.from_arrays(
        [pa.array([None, 1], pa.int8())], fields=[pa.field("a", pa.int8(), nullable=False)]
    )
    lists = pa.LargeListArray.from_arrays(pa.array([0, 1, 2], pa.int64()), members)
    pairs = pa.FixedSizeListArray.from_arrays(lists, 2)
    structs = pa.StructArray.from_arrays([pairs], names=["p"])
    cases = {"x.a": members, "x.item.a": lists, "x.item.item.a": pairs, "x.p.item.item.a": structs}
    for path, array in cases.items():
        assert list(forbidden_nulls(pa.field("x", array.type), array)) == [(path, 1)]
