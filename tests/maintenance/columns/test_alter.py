"""Columns get other names, types and nullability as the peer gives them, and no value is lost on the way."""

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from tests.support.interop import data_files, our_dataset, peer_table


@pytest.fixture
def uri(tmp_path):
    path = str(tmp_path / "t.lance")
    table = pa.table(
        {
            "a": pa.array(range(20), pa.int32()),
            "s": pa.array([{"x": i, "y": str(i)} for i in range(20)]),
            "n": pa.array([None, *range(19)], pa.int64()),
        }
    )
    lo.write_dataset(table, path, max_rows_per_file=8)
    lo.delete(path, "a in (3, 9)")
    return path


def check(uri, expected):
    assert lo.dataset(uri).to_table().equals(expected)
    lance.dataset(uri).validate()
    assert peer_table(uri).to_pylist() == expected.to_pylist()
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.peer
def test_names_and_nullability_change_no_file_and_indices_stay(uri):
    lo.create_index(uri, "a", "BTREE")
    before, files = lo.dataset(uri).to_table(), data_files(uri)
    done = lo.alter_columns(uri, {"path": "a", "name": "b", "nullable": False}, {"path": "s.x", "name": "z"})
    assert done.changes == ("a is named b", "a may not be null any more", "s.x is named z")
    assert data_files(uri) == files
    after = lo.dataset(uri)
    assert [(item.name, item.nullable) for item in after.schema] == [("b", False), ("s", True), ("n", True)]
    assert after.to_table()["b"].to_pylist() == before["a"].to_pylist()
    assert after.to_table(filter="s.z > 17")["b"].to_pylist() == [18, 19]
    assert "BTREE" in str(after.explain(filter="b = 7"))
    assert lance.dataset(uri).to_table(filter="b = 7").num_rows == 1
    check(uri, after.to_table())
    lo.alter_columns(uri, {"path": "b", "nullable": True})
    lo.append(uri, after.to_table().slice(0, 1).cast(lo.dataset(uri).schema))
    lo.compact(uri)
    assert lo.dataset(uri).count_rows("b = 0") == 2


@pytest.mark.peer
@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize(
    "data_type", [pa.int64(), pa.int8(), pa.float64(), pa.string(), pa.decimal128(12, 2)]
)
def test_values_of_another_type_are_those_of_a_cast(uri, data_type, nullable):
    lo.delete(uri, "a >= 8 and a < 16")
    before = lo.dataset(uri).to_table()
    done = lo.alter_columns(uri, {"path": "a", "data_type": data_type, "nullable": nullable})
    assert done.fragments_updated == 2
    field = pa.field("a", data_type, nullable)
    check(uri, before.set_column(0, field, before["a"].cast(data_type)))
    lance.dataset(uri).optimize.compact_files()
    lo.append(uri, lo.dataset(uri).to_table().slice(0, 3))
    lo.compact(uri)
    assert lo.dataset(uri).count_rows() == before.num_rows + 3


@pytest.mark.peer
def test_both_sides_alter_in_turn(uri):
    lo.alter_columns(uri, {"path": "a", "data_type": pa.int64(), "name": "b"})
    lance.dataset(uri).alter_columns({"path": "b", "data_type": pa.int16()}, {"path": "n", "name": "m"})
    lo.alter_columns(uri, {"path": "m", "data_type": pa.int32()}, {"path": "b", "name": "a"})
    table = lo.dataset(uri).to_table()
    assert table.schema.names == ["a", "s", "m"]
    assert table.schema.field("a").type == pa.int16()
    assert table["m"].to_pylist()[:3] == [None, 0, 1]
    check(uri, table)


def test_a_value_that_the_type_cannot_hold_is_named_and_nothing_is_left(tmp_path):
    uri = str(tmp_path / "t.lance")
    our_dataset(uri, [5, 5])
    lo.update(uri, {"x": "70000"}, where="x = 7")
    files = data_files(uri)
    with pytest.raises(SchemaMismatchError, match=r"x: 70000 is no int16 in the row with address"):
        lo.alter_columns(uri, {"path": "x", "data_type": pa.int16()})
    assert data_files(uri) == files
    lo.delete(uri, "x = 70000")
    lo.alter_columns(uri, {"path": "x", "data_type": pa.int16()})
    assert lo.dataset(uri).count_rows() == 9


@pytest.mark.parametrize(
    ("alterations", "message"),
    [
        ([], "nothing would change"),
        ([{"path": "a", "name": "a"}], "nothing would change"),
        ([{"path": "nope", "name": "b"}], "no column"),
        ([{"path": "a", "name": "n"}], "n"),
        ([{"path": "a", "name": "x.y"}], "dot"),
        ([{"path": "n", "nullable": False}], "has 1 null"),
        ([{"path": "s.x", "data_type": pa.float32()}], "nested in a column"),
        ([{"path": "a", "data_type": pa.list_(pa.int8())}], "cannot convert column"),
        ([{"path": "a", "type": "int8"}], "path, name, nullable and data_type"),
        ([{"path": "a", "name": "b"}, {"path": "a", "name": "c"}], "twice"),
        ([{"path": "a", "data_type": "int8"}], "DataType"),
    ],
)
def test_refusals_leave_the_dataset_alone(uri, alterations, message):
    version = lo.dataset(uri).version
    with pytest.raises((InvalidArgumentError, TypeError), match=message):
        lo.alter_columns(uri, *alterations)
    assert lo.dataset(uri).version == version


def test_an_index_holds_the_type_of_its_column(uri):
    lo.create_index(uri, "a", "BTREE")
    with pytest.raises(InvalidArgumentError, match="a_idx"):
        lo.alter_columns(uri, {"path": "a", "data_type": pa.int64()})
    lo.drop_index(uri, "a_idx")
    lo.alter_columns(uri, {"path": "a", "data_type": pa.int64()})
