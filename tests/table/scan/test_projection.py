"""What a scan returns."""

import pyarrow as pa
import pytest

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.table.scan.projection import build_projection, rows_without_columns

INNER = pa.struct([pa.field("c", pa.int8(), nullable=False)])
SCHEMA = Schema.from_arrow(
    pa.schema(
        [
            pa.field("i", pa.int32(), nullable=False, metadata={"unit": "m"}),
            pa.field("s", pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", INNER)])),
            pa.field("t", pa.struct([pa.field("a", pa.int32(), nullable=False)]), nullable=False),
            pa.field("l", pa.list_(INNER)),
        ],
        metadata={"k": "v"},
    )
)


def fields(*columns, **more):
    return list(build_projection(SCHEMA, columns or None, **more).arrow_schema)


def test_all_columns_come_as_they_are():
    projection = build_projection(SCHEMA, None)
    assert projection.arrow_schema.equals(SCHEMA.to_arrow(), check_metadata=True)
    assert projection.schema == SCHEMA


@pytest.mark.parametrize("name", ["a`b", "`a`", ""])
def test_all_columns_come_whatever_their_names(name):
    schema = Schema.from_arrow(pa.schema([pa.field(name, pa.int8()), pa.field("b", pa.int8())]))
    projection = build_projection(schema, None, with_row_id=True)
    assert projection.arrow_schema.names == [name, "b", "_rowid"]
    assert projection.schema == schema


def test_a_nested_path_is_null_where_any_struct_on_the_way_is():
    assert fields("s.a", "t.a", "s.b.c") == [
        pa.field("s.a", pa.int32()),
        pa.field("t.a", pa.int32(), nullable=False),
        pa.field("s.b.c", pa.int8()),
    ]


def test_only_what_is_needed_is_read():
    projection = build_projection(SCHEMA, ["s.b.c", "i", "_rowid"])
    assert [SCHEMA.path(node.id) for node in projection.schema.walk()] == ["s", "s.b", "s.b.c", "i"]


def test_row_columns_are_added_once_and_stay_where_they_were_asked_for():
    names = [field.name for field in fields("_rowaddr", "i", with_row_id=True, with_row_address=True)]
    assert names == ["_rowaddr", "i", "_rowid"]
    assert fields("_rowoffset") == [pa.field("_rowoffset", pa.uint64())]


def test_a_column_of_the_dataset_hides_the_row_column_of_its_name():
    schema = Schema.from_arrow(pa.schema([("_rowid", pa.string())]))
    assert list(build_projection(schema, ["_rowid"]).arrow_schema) == [pa.field("_rowid", pa.string())]


@pytest.mark.parametrize("columns", [["nope"], ["s.nope"], ["i", "i"], ["l.item"], ["l.item.c"], [""]])
def test_columns_that_are_not_there_are_refused(columns):
    with pytest.raises(InvalidArgumentError):
        build_projection(SCHEMA, columns)


def test_a_table_without_columns_keeps_rows_and_metadata():
    table = rows_without_columns(5, SCHEMA.to_arrow())
    assert (table.num_rows, table.num_columns, table.schema.metadata) == (5, 0, {b"k": b"v"})
    assert table.slice(1, 3).num_rows == 3
