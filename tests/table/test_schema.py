"""Incoming data against the schema of a dataset."""

import lance
import pyarrow as pa
import pytest

from lance_ops.errors import SchemaMismatchError
from lance_ops.file.schema import Schema
from lance_ops.table.schema import check_compatible, conform

ITEM = pa.struct([("x", pa.int32()), ("y", pa.int32())])
SCHEMA = pa.schema(
    [
        pa.field("i", pa.int32()),
        pa.field("nn", pa.int64(), nullable=False),
        pa.field("s", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])),
        pa.field("l", pa.list_(ITEM)),
    ],
    metadata={"k": "v"},
)
ROW = {"i": 1, "nn": 2, "s": {"a": 1, "b": "x"}, "l": [{"x": 1, "y": 2}]}
INT, NN, S, L = SCHEMA


def with_field(name, kind, **more):
    return SCHEMA.set(SCHEMA.get_field_index(name), pa.field(name, kind, **more))


FITS = {
    "the same": SCHEMA,
    "other order": pa.schema([L, S, NN, INT]),
    "nullable column missing": pa.schema([NN, S, L]),
    "nullable for required": with_field("nn", pa.int64()),
    "required for nullable": with_field("i", pa.int32(), nullable=False),
    "members in another order": with_field("s", pa.struct([("b", pa.string()), ("a", pa.int32())])),
    "member missing": with_field("s", pa.struct([("a", pa.int32())])),
    "members of items in another order": with_field(
        "l", pa.list_(pa.struct([("y", pa.int32()), ("x", pa.int32())]))
    ),
    "member of items missing": with_field("l", pa.list_(pa.struct([("y", pa.int32())]))),
    "other metadata": SCHEMA.with_metadata({"x": "y"}),
}
DOES_NOT_FIT = {
    "required column missing": (pa.schema([INT, S, L]), ["nn: missing, and it is required (int64)"]),
    "extra column": (SCHEMA.append(pa.field("e", pa.int8())), ["e: not in the dataset (int8)"]),
    "other type": (with_field("i", pa.int64()), ["i: expected int32, found int64"]),
    "extra member": (
        with_field("s", pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.bool_())])),
        ["s.c: not in the dataset (bool)"],
    ),
    "member of another type": (
        with_field("s", pa.struct([("a", pa.int32()), ("b", pa.large_string())])),
        ["s.b: expected string, found large_string"],
    ),
    "large list": (
        with_field("l", pa.large_list(ITEM)),
        [f"l: expected {pa.list_(ITEM)}, found {pa.large_list(ITEM)}"],
    ),
    "item of another name": (
        with_field("l", pa.list_(pa.field("element", ITEM))),
        [f"l.element: not in the dataset ({ITEM})"],
    ),
}


@pytest.mark.parametrize("incoming", FITS.values(), ids=FITS)
def test_data_that_fit_are_brought_into_the_shape_of_the_dataset(incoming):
    table = pa.Table.from_pylist([ROW], schema=incoming)
    part = check_compatible(Schema.from_arrow(SCHEMA), incoming)
    assert [name for name in SCHEMA.names if name in incoming.names] == list(part.names)
    batch = conform(table, part)
    batch.validate(full=True)
    assert batch.schema.equals(part.to_arrow(), check_metadata=True)
    for name in part.names:
        for key, value in ROW[name].items() if name == "s" else ():
            if table.schema.field(name).type.get_field_index(key) >= 0:
                assert batch.column(name)[0].as_py()[key] == value


@pytest.mark.parametrize(("incoming", "mismatches"), DOES_NOT_FIT.values(), ids=DOES_NOT_FIT)
def test_data_that_do_not_fit_are_refused(incoming, mismatches):
    with pytest.raises(SchemaMismatchError) as caught:
        check_compatible(Schema.from_arrow(SCHEMA), incoming, path="uri")
    assert list(caught.value.mismatches) == mismatches


def test_every_mismatch_is_listed():
    incoming = pa.schema([("e", pa.int8()), ("i", pa.string()), ("s", pa.struct([("b", pa.int8())]))])
    with pytest.raises(SchemaMismatchError) as caught:
        check_compatible(Schema.from_arrow(SCHEMA), incoming)
    assert list(caught.value.mismatches) == [
        "i: expected int32, found string",
        "nn: missing, and it is required (int64)",
        "s.b: expected string, found int8",
        "e: not in the dataset (int8)",
    ]
    assert all(line in str(caught.value) for line in caught.value.mismatches)


def test_types_that_no_dataset_has_are_a_mismatch_too():
    union = pa.dense_union([pa.field("a", pa.int8())])
    with pytest.raises(SchemaMismatchError):
        check_compatible(Schema.from_arrow(SCHEMA), pa.schema([("i", union)]))


def test_nulls_in_required_columns_are_counted_at_any_depth():
    inner = pa.struct([pa.field("a", pa.int8(), nullable=False)])
    schema = Schema.from_arrow(
        pa.schema(
            [
                pa.field("n", pa.int8(), nullable=False),
                pa.field("s", inner),
                pa.field("l", pa.list_(pa.field("item", pa.int8(), nullable=False))),
            ]
        )
    )
    batch = pa.record_batch(
        {
            "n": pa.array([None, 1, None], pa.int8()),
            "s": pa.array([{"a": None}, None, {"a": 1}], pa.struct([("a", pa.int8())])),
            "l": pa.array([[1, None], None, []], pa.list_(pa.int8())),
        }
    )
    with pytest.raises(SchemaMismatchError) as caught:
        conform(batch, schema)
    assert list(caught.value.mismatches) == [
        "n: 2 nulls in a required column",
        "s.a: 1 nulls in a required column",
        "l.item: 1 nulls in a required column",
    ]


def test_rows_without_columns_keep_their_number():
    assert conform(pa.record_batch({"x": [1, 2, 3]}), Schema(())).num_rows == 3


@pytest.mark.peer
@pytest.mark.parametrize(
    ("incoming", "fits"),
    [(schema, True) for schema in FITS.values()] + [(schema, False) for schema, _ in DOES_NOT_FIT.values()],
    ids=[*FITS, *DOES_NOT_FIT],
)
def test_the_peer_decides_the_same(tmp_path, incoming, fits):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.Table.from_pylist([ROW], schema=SCHEMA), uri, data_storage_version="2.0")
    row = {**ROW, "e": None}
    try:
        lance.write_dataset(pa.Table.from_pylist([row], schema=incoming), uri, mode="append")
        accepted = True
    except OSError:
        accepted = False
    assert accepted == fits
