import pyarrow as pa
import pytest

from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.schema.logical_types import decode_logical_type, encode_logical_type

NAMES = {
    pa.null(): "null",
    pa.bool_(): "bool",
    pa.int32(): "int32",
    pa.uint64(): "uint64",
    pa.float16(): "halffloat",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "large_string",
    pa.large_binary(): "large_binary",
    pa.date32(): "date32:day",
    pa.date64(): "date64:ms",
    pa.time32("ms"): "time32:ms",
    pa.time64("ns"): "time64:ns",
    pa.timestamp("us"): "timestamp:us:-",
    pa.timestamp("us", "UTC"): "timestamp:us:UTC",
    pa.timestamp("ns", "+05:30"): "timestamp:ns:+05:30",
    pa.duration("s"): "duration:s",
    pa.decimal128(10, 2): "decimal:128:10:2",
    pa.decimal128(38, -3): "decimal:128:38:-3",
    pa.decimal256(60, 5): "decimal:256:60:5",
    pa.binary(16): "fixed_size_binary:16",
    pa.dictionary(pa.int32(), pa.string()): "dict:string:int32:false",
    pa.dictionary(pa.int8(), pa.timestamp("us", "+05:30")): "dict:timestamp:us:+05:30:int8:false",
    pa.list_(pa.float32(), 768): "fixed_size_list:float:768",
    pa.list_(pa.timestamp("us", "+05:30"), 2): "fixed_size_list:timestamp:us:+05:30:2",
    pa.list_(pa.list_(pa.int8(), 2), 3): "fixed_size_list:fixed_size_list:int8:2:3",
}


@pytest.mark.parametrize(("data_type", "name"), NAMES.items(), ids=NAMES.values())
def test_leaf_types_have_a_name_and_are_read_from_it(data_type: pa.DataType, name: str) -> None:
    assert encode_logical_type(data_type) == name
    assert decode_logical_type(name) == data_type


@pytest.mark.parametrize(
    ("data_type", "name"),
    [
        (pa.list_(pa.int8()), "list"),
        (pa.list_(pa.struct([])), "list.struct"),
        (pa.large_list(pa.int8()), "large_list"),
        (pa.large_list(pa.struct([])), "large_list.struct"),
        (pa.struct([]), "struct"),
        (pa.map_(pa.string(), pa.int8()), "map"),
        (pa.string_view(), "string"),
        (pa.binary_view(), "binary"),
        (pa.uuid(), "fixed_size_binary:16"),
        (pa.list_(pa.struct([]), 2), "fixed_size_list:struct:2"),
    ],
)
def test_other_types_only_have_a_name(data_type: pa.DataType, name: str) -> None:
    assert encode_logical_type(data_type) == name


@pytest.mark.parametrize(
    "data_type",
    [
        pa.month_day_nano_interval(),
        pa.list_view(pa.int8()),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.decimal32(5, 2),
        pa.list_(pa.list_(pa.int8()), 2),
        pa.list_(pa.dictionary(pa.int8(), pa.string()), 2),
        pa.dictionary(pa.int8(), pa.list_(pa.int8())),
        pa.list_(pa.int8(), 0),
        pa.map_(pa.string(), pa.int8(), keys_sorted=True),
    ],
    ids=str,
)
def test_types_that_the_format_does_not_have_are_refused(data_type: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError):
        encode_logical_type(data_type)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "int33",
        "quaternion:4",
        "decimal:64:5:2",
        "decimal:128:5",
        "decimal:128:99:2",
        "timestamp:us",
        "timestamp:fortnight:UTC",
        "fixed_size_binary:-1",
        "fixed_size_binary:x",
        "fixed_size_list:float:0",
        "fixed_size_list:float:99999999999",
        "fixed_size_list:list:2",
        "dict:string",
        "dict:string:float:false",
        "fixed_size_list:" * 3000,
        "fixed_size_list:" * 30 + "int8" + ":1" * 30,
    ],
)
def test_unknown_names_are_typed_errors(name: str) -> None:
    with pytest.raises(UnsupportedTypeError, match="unknown logical type"):
        decode_logical_type(name)
