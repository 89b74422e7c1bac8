"""Columns of every kind of type, written and read the way users of the peer do."""

import decimal
import uuid

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.arrow import bfloat16_array

COLUMNS = {
    "halves": pa.array(np.array([1, 2.5, np.nan], "float16")),
    "bfloats": bfloat16_array([1.5, None, 3.25]),
    "decimals": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-7.25")], pa.decimal128(10, 2)),
    "wide decimals": pa.array([decimal.Decimal(10) ** 40, None, decimal.Decimal(1)], pa.decimal256(50, 2)),
    "times": pa.array([1, None, 86_399_000_000], pa.time64("us")),
    "durations": pa.array([1, None, -5], pa.duration("ms")),
    "large text": pa.array(["a", None, "ö" * 100], pa.large_string()),
    "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "uuids": pa.array([uuid.UUID(int=n).bytes for n in range(3)], pa.uuid()),
    "json": pa.array(['{"b": [1, 2.5], "a": null}', None, '"text"'], pa.json_()),
    "tensors": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype="float32").reshape(3, 2, 2)),
    "lists": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "lists of lists": pa.array([[["a"], None, []], None, []], pa.list_(pa.list_(pa.string()))),
    "lists of structs": pa.array(
        [[{"a": 1}, {"a": None}], None, []], pa.list_(pa.struct([("a", pa.int8())]))
    ),
    "structs": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 3, "b": "z"}]),
    "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
    "nulls": pa.nulls(3),
}


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_round_trip(tmp_path, version, kind):
    table = pa.table({"id": range(3), "x": COLUMNS[kind]})
    dataset = lance.write_dataset(table, tmp_path, data_storage_version=version)
    assert dataset.to_table().num_rows == 3
    assert dataset.to_table(filter="id = 99").num_rows == 0
    assert dataset.take([2, 0], columns=["x"]).num_rows == 2
    assert dataset.take([]).num_rows == 0
    assert dataset.to_table(filter="x IS NULL", columns=["id"]).num_columns == 1
    dataset.delete("id = 1")
    assert dataset.to_table(columns=["x"]).num_rows == 2
    dataset.delete("true")
    assert dataset.to_table().schema == dataset.schema


def test_json(tmp_path):
    documents = ['{"a": {"n": 5, "t": ["x", "y"]}, "b": true}', '{"a": {"n": 7.5}}', "[]", None]
    table = pa.table({"id": range(4), "j": pa.array(documents, pa.json_())})
    dataset = lance.write_dataset(table, tmp_path)
    for condition in (
        "json_extract(j, '$.a.n') = '5'",
        "json_exists(j, '$.a.t')",
        "json_get_bool(j, 'b')",
        "json_get_float(json_get(j, 'a'), 'n') > 6",
        "json_array_contains(j, '$.a.t', 'y')",
        "json_array_length(j, '$.a.t') = 2",
        "json_get_string(j, 'missing') IS NULL",
    ):
        dataset.to_table(filter=condition)
        dataset.count_rows(condition)


def test_refusals_are_typed_in_both(tmp_path):
    dataset = lance.write_dataset(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path)
    for condition in ("missing = 1", "a = ", "a = 1 AND", "nosuch(a)", "a LIKE 3 +"):
        with pytest.raises((ValueError, OSError)):
            dataset.to_table(filter=condition)
    with pytest.raises((ValueError, OSError)):
        dataset.to_table(columns=["missing"])


def test_schema_evolution(tmp_path):
    dataset = lance.write_dataset(pa.table({"a": range(20), "b": [f"b{n}" for n in range(20)]}), tmp_path)
    dataset.add_columns({"c": "a * 2"})
    dataset.alter_columns({"path": "b", "name": "text"})
    dataset.to_table(filter="c > 10 AND text <> 'b7'")
    dataset.drop_columns(["a"])
    dataset.to_table()
    dataset.alter_columns({"path": "c", "data_type": pa.int32()})
    dataset.to_table(filter="c = 4")
    for number in range(1, dataset.version + 1):
        dataset.checkout_version(number).to_table()
    dataset.checkout_version(1).restore()
    lance.dataset(tmp_path).to_table()
