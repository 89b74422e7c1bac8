import pickle

import pyarrow as pa
import pytest

from lance_ops.errors import FormatError, InvalidArgumentError, UnsupportedTypeError
from lance_ops.file.schema import field as fields
from lance_ops.file.schema.model import Field, Schema
from lance_ops.pb import file_pb2
from tests.support.arrays import ALL_2_0_TYPES

NESTED = pa.schema(
    [
        pa.field("a", pa.int32(), nullable=False),
        pa.field(
            "b",
            pa.struct(
                [("c", pa.list_(pa.struct([("d", pa.string()), ("e", pa.int8())]))), ("f", pa.bool_())]
            ),
        ),
        pa.field("g", pa.map_(pa.string(), pa.float32())),
        pa.field("h", pa.list_(pa.float32(), 768)),
    ],
    metadata={"origin": "test"},
)


@pytest.mark.parametrize("data_type", [*ALL_2_0_TYPES, pa.map_(pa.string(), pa.list_(pa.int8()))], ids=str)
def test_arrow_types_survive_the_trip(data_type: pa.DataType) -> None:
    schema = pa.schema([pa.field("x", data_type, metadata={"k": "v"})], metadata={"s": "t"})
    ours = Schema.from_arrow(schema)
    assert ours.to_arrow().equals(schema, check_metadata=True)
    again = Schema.from_protos(ours.to_protos(), ours.metadata)
    assert again == ours
    assert pickle.loads(pickle.dumps(again)) == ours


def test_ids_are_depth_first_from_the_first_id() -> None:
    schema = Schema.from_arrow(NESTED, first_id=5)
    found = [(node.name, node.id, node.parent_id) for node in schema.walk()]
    assert found == [
        ("a", 5, -1),
        ("b", 6, -1),
        ("c", 7, 6),
        ("item", 8, 7),
        ("d", 9, 8),
        ("e", 10, 8),
        ("f", 11, 6),
        ("g", 12, -1),
        ("entries", 13, 12),
        ("key", 14, 13),
        ("value", 15, 13),
        ("h", 16, -1),
    ]
    assert schema.max_field_id == 16
    assert Schema(()).max_field_id == -1


def test_fields_are_found_by_path_and_id() -> None:
    schema = Schema.from_arrow(NESTED)
    assert schema.field("b.c.item.d").logical_type == "string"
    assert schema.path(schema.field("b.c.item.d").id) == "b.c.item.d"
    assert [node.name for node in schema.ancestry("b.f")] == ["b", "f"]
    assert schema.by_id(6).name == "f"
    assert schema.by_id(99) is None
    assert schema.names == ("a", "b", "g", "h")
    for path in ("x", "b.x", "a.b", ""):
        with pytest.raises(InvalidArgumentError):
            schema.field(path)
    with pytest.raises(InvalidArgumentError, match="99"):
        schema.path(99)


def test_projection_by_name_keeps_the_order_of_the_names_and_merges_paths() -> None:
    schema = Schema.from_arrow(NESTED)
    projected = schema.project(["h", "b.c.item.e", "b.f"])
    assert projected.names == ("h", "b")
    assert str(projected.to_arrow().field("b").type) == "struct<c: list<item: struct<e: int8>>, f: bool>"
    assert projected.metadata == schema.metadata
    assert schema.project(["b", "b.f"]).field("b") == schema.field("b")
    assert schema.project([]).fields == ()


def test_projection_by_id_keeps_parents() -> None:
    schema = Schema.from_arrow(NESTED)
    assert str(schema.project_ids([5]).to_arrow().field("b").type) == "struct<c: list<item: struct<e: int8>>>"
    assert schema.project_ids([1]).field("b") == schema.field("b")
    assert schema.project_ids([1, 6]).field("b").child("c") is None
    assert schema.project_ids([0, 11]).names == ("a", "h")
    assert schema.project_ids([]).fields == ()


def test_unknown_parts_of_a_message_survive() -> None:
    original = file_pb2.Field(name="a", id=3, parent_id=-1, logical_type="int32", nullable=True)
    original.unenforced_primary_key = True
    original.storage_class = "blob"
    original.type = file_pb2.Field.LEAF
    data = original.SerializeToString() + bytes.fromhex("fa3e03616263803f05")
    proto = file_pb2.Field.FromString(data)
    (again,) = Schema.from_protos([proto]).to_protos()
    assert again == proto
    assert b"abc" in again.SerializeToString()


def test_the_numbering_of_legacy_files_is_read() -> None:
    protos = [
        file_pb2.Field(name="a", id=1, parent_id=0, logical_type="int32"),
        file_pb2.Field(name="s", id=2, parent_id=0, logical_type="struct"),
        file_pb2.Field(name="x", id=3, parent_id=2, logical_type="bool"),
    ]
    schema = Schema.from_protos(protos)
    assert [(node.name, node.parent_id) for node in schema.walk()] == [("a", -1), ("s", -1), ("x", 2)]


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([(0, -1), (0, -1)], "have the same id 0"),
        ([(0, -1), (1, 7)], "parent 7"),
        ([(0, -1), (1, 2), (2, 1)], "cycle"),
        ([(1, 1)], "cycle"),
        ([(n, n - 1) for n in range(2000)], "nested deeper"),
    ],
)
def test_broken_trees_are_errors(parents: list[tuple[int, int]], message: str) -> None:
    protos = [
        file_pb2.Field(name=f"f{field_id}", id=field_id, parent_id=parent, logical_type="struct")
        for field_id, parent in parents
    ]
    with pytest.raises(FormatError, match=message):
        Schema.from_protos(protos)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), "two columns have the same name 'a'"),
        (pa.schema([("s", pa.struct([("x", pa.int8()), ("x", pa.int8())]))]), "'s.x'"),
        (pa.schema([("a.b", pa.int8())]), "dot"),
    ],
)
def test_ambiguous_names_are_refused(schema: pa.Schema, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Schema.from_arrow(schema)


def test_types_without_a_name_are_refused_with_their_path() -> None:
    schema = pa.schema([("a", pa.struct([("b", pa.list_(pa.month_day_nano_interval()))]))])
    with pytest.raises(UnsupportedTypeError, match=r"a\.b\.item"):
        Schema.from_arrow(schema)


def test_primary_keys_are_marked() -> None:
    fields = [
        pa.field("a", pa.int8(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field(
            "b", pa.int8(), nullable=False, metadata={"lance-schema:unenforced-primary-key:position": "2"}
        ),
        pa.field("c", pa.int8(), metadata={"lance-schema:unenforced-primary-key": "no"}),
    ]
    protos = Schema.from_arrow(pa.schema(fields)).to_protos()
    marks = [(proto.unenforced_primary_key, proto.unenforced_primary_key_position) for proto in protos]
    assert marks == [(True, 0), (True, 2), (False, 0)]


@pytest.mark.parametrize(
    "field",
    [
        Field(0, -1, "l", "list"),
        Field(0, -1, "m", "map", children=(Field(1, 0, "e", "int8"),)),
        Field(0, -1, "i", "int8", children=(Field(1, 0, "e", "int8"),)),
        Field(0, -1, "n", "null", nullable=False),
        Field(0, -1, "f", "fixed_size_list:struct:x", children=(Field(1, 0, "e", "struct"),)),
    ],
)
def test_fields_that_contradict_themselves_are_errors(field: Field) -> None:
    with pytest.raises(UnsupportedTypeError):
        _ = field.arrow_type


def test_the_fields_of_a_wide_table_are_built_once() -> None:
    wide = Schema.from_arrow(pa.schema([(f"wide {number}", pa.int64()) for number in range(6_000)]))
    wide.to_arrow()
    before = fields._plain_arrow.cache_info().misses
    for _ in range(3):
        wide.to_arrow()
        Schema.from_protos(wide.to_protos()).to_arrow()
    assert fields._plain_arrow.cache_info().misses == before


@pytest.mark.parametrize("place", ["schema", "column", "struct", "item"])
@pytest.mark.parametrize("key", [b"\xfe", b"ok\xc3", b"\xed\xa0\x80"])
def test_a_metadata_key_that_is_no_text_is_refused_by_name(place, key):
    marked = pa.field("a", pa.int8(), metadata={key: b"x"})
    schema = {
        "schema": pa.schema([pa.field("a", pa.int8())], metadata={key: b"x"}),
        "column": pa.schema([marked]),
        "struct": pa.schema([pa.field("s", pa.struct([marked]))]),
        "item": pa.schema([pa.field("l", pa.list_(marked))]),
    }[place]
    with pytest.raises(InvalidArgumentError, match="not valid UTF-8"):
        Schema.from_arrow(schema)
