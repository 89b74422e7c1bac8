"""Incoming data in the shape of a dataset."""

import pyarrow as pa
import pytest

from lance_ops.errors import SchemaMismatchError
from lance_ops.file.schema.model import Schema
from lance_ops.table.conform import conform

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


def filled_part(incoming):
    """The fields of the dataset that data of this schema fill, in the order of the dataset."""
    paths = [
        path
        for path in ("i", "nn", "s.a", "s.b", "l.item.x", "l.item.y")
        if _holds(incoming, path.split("."))
    ]
    wanted = Schema.from_arrow(SCHEMA)
    return wanted.project_ids({wanted.field(path).id for path in paths})


def _holds(incoming, path):
    if path[0] not in incoming.names:
        return False
    kind = incoming.field(path[0]).type
    for name in path[1:]:
        kind = kind.value_type if name == "item" else kind
        if name != "item" and kind.get_field_index(name) < 0:
            return False
    return True


@pytest.mark.parametrize("incoming", FITS.values(), ids=FITS)
def test_data_that_fit_are_brought_into_the_shape_of_the_dataset(incoming):
    table = pa.Table.from_pylist([ROW], schema=incoming)
    part = filled_part(incoming)
    batch = conform(table, part)
    batch.validate(full=True)
    assert batch.schema.equals(part.to_arrow(), check_metadata=True)
    for name in part.names:
        for key, value in ROW[name].items() if name == "s" else ():
            if table.schema.field(name).type.get_field_index(key) >= 0:
                assert batch.column(name)[0].as_py()[key] == value


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
