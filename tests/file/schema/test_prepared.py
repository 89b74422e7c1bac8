import pyarrow as pa
import pytest

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import schema_of_arrow

BASE = pa.schema(
    [pa.field("a", pa.int8()), pa.field("s", pa.struct([pa.field("m", pa.list_(pa.int8()))]))], {"k": "1"}
)


def test_equal_schemas_are_worked_out_once():
    again = pa.schema(list(BASE), {"k": "1"})
    assert schema_of_arrow(again) is schema_of_arrow(BASE)


@pytest.mark.parametrize(
    "other",
    [
        BASE.with_metadata({"k": "2"}),
        BASE.remove_metadata(),
        BASE.set(0, BASE.field(0).with_nullable(False)),
        BASE.set(0, BASE.field(0).with_metadata({"k": "v"})),
        BASE.set(0, BASE.field(0).with_name("b")),
        BASE.set(1, pa.field("s", pa.struct([pa.field("m", pa.list_(pa.int8()), metadata={"k": "v"})]))),
        BASE.set(
            1,
            pa.field("s", pa.struct([pa.field("m", pa.list_(pa.field("item", pa.int8(), nullable=False)))])),
        ),
        BASE.set(1, pa.field("s", pa.struct([pa.field("m", pa.list_(pa.field("element", pa.int8())))]))),
    ],
)
def test_schemas_that_differ_in_anything_are_not_taken_for_each_other(other):
    schema_of_arrow(BASE)
    assert schema_of_arrow(other) == Schema.from_arrow(other)
    assert schema_of_arrow(other).to_arrow().equals(other, check_metadata=True)


def test_a_schema_that_is_refused_is_refused_again():
    for _ in range(2):
        with pytest.raises(InvalidArgumentError):
            schema_of_arrow(pa.schema([("a", pa.int8()), ("a", pa.int8())]))
