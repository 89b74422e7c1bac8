"""Values that the command line prints, with and without pandas."""

import base64
import math
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pytest

from lance_ops.answers.json_values import plain_rows

FAR = 10**15
DAY = 86_400 * 10**9

CASES = [
    (pa.timestamp("ns"), 1001, "1970-01-01T00:00:00.000001001"),
    (pa.timestamp("ns"), -1, "1969-12-31T23:59:59.999999999"),
    (pa.timestamp("ns", "UTC"), 1, "1970-01-01T00:00:00.000000001+00:00"),
    (pa.timestamp("ns", "Asia/Kolkata"), 1, "1970-01-01T05:30:00.000000001+05:30"),
    (pa.timestamp("us"), 1, "1970-01-01T00:00:00.000001"),
    (pa.timestamp("us", "UTC"), 1, "1970-01-01T00:00:00.000001+00:00"),
    (pa.timestamp("s"), FAR, f"{FAR} s after 1970-01-01"),
    (pa.date32(), 10**8, f"{10**8} d after 1970-01-01"),
    (pa.date32(), 1, "1970-01-02"),
    (pa.duration("ns"), 1001, "1001 ns"),
    (pa.time64("ns"), 1, "00:00:00.000000001"),
    (pa.time32("s"), 1, "00:00:01"),
]


@pytest.mark.parametrize(("data_type", "number", "expected"), CASES, ids=lambda value: str(value))
def test_times_keep_nanoseconds_and_far_years_at_any_depth(data_type, number, expected):
    integers = pa.int32() if data_type.bit_width == 32 else pa.int64()
    values = pa.array([number, None], integers).view(data_type)
    assert plain_rows(pa.table({"v": values})) == [{"v": expected}, {"v": None}]
    struct = pa.StructArray.from_arrays([values], ["s"])
    lists = pa.ListArray.from_arrays([0, 2], struct)
    maps = pa.MapArray.from_arrays([0, 1], pa.array(["k"]), values[:1])
    rows = plain_rows(pa.table({"l": lists, "m": maps}))
    assert rows == [{"l": [{"s": expected}, {"s": None}], "m": [["k", expected]]}]


def test_other_values_are_those_of_json():
    table = pa.table(
        {
            "number": [1],
            "nan": [math.nan],
            "bytes": [b"x"],
            "decimal": [Decimal("1.50")],
            "category": pa.array(["a"]).dictionary_encode(),
            "vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
            "document": pa.array(['{"a": 1}'], pa.json_(pa.string())),
            "nothing": pa.nulls(1),
        }
    )
    assert plain_rows(table) == [
        {
            "number": 1,
            "nan": "nan",
            "bytes": base64.b64encode(b"x").decode(),
            "decimal": "1.50",
            "category": "a",
            "vector": [1.0, 2.0],
            "document": '{"a": 1}',
            "nothing": None,
        }
    ]
    assert plain_rows(table.slice(1)) == []


def test_nanoseconds_are_printed_without_pandas():
    code = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import pyarrow as pa
from lance_ops.answers.json_values import plain_rows
print(plain_rows(pa.table({"t": pa.array([1], pa.timestamp("ns"))})))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[{'t': '1970-01-01T00:00:00.000000001'}]"
