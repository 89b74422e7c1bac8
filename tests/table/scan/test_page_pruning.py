"""Statistics of 0.1 files: what they say about special values, and that no scan is changed by them."""

import datetime as dt
import math

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_ops.file.container.page_bounds import PageBounds
from lance_ops.file.reader import FileReader
from lance_ops.filter import parse_filter
from lance_ops.table.dataset import Dataset
from lance_ops.table.scan.fragment_reader import FragmentReader
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.page_pruning import plan_row_ranges

GROUP = 4


def bounds(starts, low, high, kind=None):
    return PageBounds(np.array(starts, dtype=np.int64), pa.array(low, kind), pa.array(high, kind))


SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("f", pa.float64()), ("s", pa.string())])
KNOWN = {
    ("x",): bounds([0, 10, 20, 30], [0, 5, None], [4, 9, 3]),
    ("y",): bounds([0, 10, 20, 30], [7, 7, 7], [7, 7, 8]),
    ("f",): bounds([0, 10, 20, 30], [0.0, -0.0, -math.inf], [1.0, 0.0, math.inf]),
    ("s",): bounds([0, 10, 20, 30], ["a", None, "m"], ["c", "b", None]),
}


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("x = 4", [(0, 10)]),
        ("x > 4", [(10, 20)]),
        ("4 < x", [(10, 20)]),
        ("x >= 5 OR x < 0", [(10, 30)]),
        ("x < 0", [(20, 30)]),
        ("x <= 5", [(0, 30)]),
        ("x BETWEEN 5 AND 6", [(10, 20)]),
        ("x IN (1, 2)", [(0, 10), (20, 30)]),
        ("x IN (1, NULL)", [(0, 10), (20, 30)]),
        ("x = 1 AND y = 8", [(20, 30)]),
        ("(x = 1 AND y = 8) OR s = 'b'", [(0, 30)]),
        ("x = 1 OR f > 3", [(0, 30)]),
        ("x = 1 OR x + 1 = 3", [(0, 30)]),
        ("x <> 4", [(0, 30)]),
        ("x IS NULL", [(0, 30)]),
        ("NOT (x > 4)", [(0, 10), (20, 30)]),
        # NaN is above all numbers, and below them with its sign bit; bounds leave it out.
        ("f > 1", [(0, 30)]),
        ("f < 0", [(0, 30)]),
        ("f = 2", [(20, 30)]),
        ("f = -0.0", [(0, 30)]),
        ("f IN (5, cast('nan' as double))", [(0, 30)]),
        ("s = 'b'", [(0, 20)]),
        ("s >= 'd'", [(20, 30)]),
        ("s = 'z' AND x = 1", [(20, 30)]),
        ("s < 'a'", [(10, 20)]),
        ("s LIKE 'a%'", [(0, 30)]),
    ],
)
def test_pages_that_cannot_match_are_left_out(predicate, expected):
    assert plan_row_ranges(parse_filter(predicate, SCHEMA), KNOWN, 0, 30) == expected


def test_stretches_stay_inside_of_the_range_that_was_asked_for():
    expression = parse_filter("x > 4", SCHEMA)
    assert plan_row_ranges(expression, KNOWN, 5, 15) == [(10, 15)]
    assert plan_row_ranges(expression, KNOWN, 0, 7) == []
    assert plan_row_ranges(expression, KNOWN, 0, 0) == []
    assert plan_row_ranges(expression, {}, 3, 9) == [(3, 9)]


def test_files_with_different_pages_narrow_a_scan_together():
    known = {("x",): KNOWN["x",], ("y",): bounds([0, 15, 30], [1, 2], [1, 2])}
    assert plan_row_ranges(parse_filter("x > 4 AND y = 1", SCHEMA), known, 0, 30) == [(10, 15)]
    assert plan_row_ranges(parse_filter("x > 4 OR y = 1", SCHEMA), known, 0, 30) == [(0, 30)]


def legacy(uri, columns, **options):
    lance.write_dataset(
        pa.table(columns), uri, data_storage_version="legacy", max_rows_per_group=GROUP, **options
    )
    return Dataset.open(uri)


def page_bounds_of(dataset, name):
    file = dataset.fragments[0].files[0]
    reader = FileReader.open(dataset.store, f"data/{file.path}")
    field = dataset.lance_schema.field(name)
    return reader.page_bounds([field.id]).get(field.id)


@pytest.mark.peer
def test_special_values_as_the_peer_writes_them(tmp_path):
    long = "é" * 40
    dataset = legacy(
        str(tmp_path / "special"),
        {
            "some_null": pa.array([1, None, 3, 4, 5, 6, 7, 8], pa.int32()),
            "all_null": pa.array([None] * 4 + [1, 1, 1, 1], pa.int16()),
            "float": pa.array([math.nan] * 4 + [-0.0, 0.0, math.nan, -0.0]),
            "infinite": pa.array([math.inf, -math.inf, 0.0, 1.0] + [math.inf] * 4),
            "text": pa.array([long, "b", "c", "d"] + ["\x7f" * 70] * 4),
            "empty": pa.array(["", "b", "c", "d"] + ["x"] * 4),
            "bytes": pa.array([b"a", b"b", b"\xff" * 64, b"c"] + [b"\xff" * 65] * 4),
            "day": pa.array([dt.date(2020, 1, day) for day in range(1, 9)]),
            "list": pa.array([[1]] * 8),
        },
    )

    def found(name):
        known = page_bounds_of(dataset, name)
        return (
            None if known is None else list(zip(known.low.to_pylist(), known.high.to_pylist(), strict=True))
        )

    assert found("some_null") == [(None, None), (5, 8)]
    assert found("all_null") == [(None, None), (1, 1)]
    assert found("float") == [(-math.inf, math.inf), (0.0, 0.0)]
    float_bounds = page_bounds_of(dataset, "float")
    assert math.copysign(1, float_bounds.low[1].as_py()) == -1
    assert math.copysign(1, float_bounds.high[1].as_py()) == 1
    assert found("infinite") == [(-math.inf, math.inf), (math.inf, math.inf)]
    # The greatest prefix of 64 bytes, its last character raised by one.
    assert found("text")[0] == ("b", "é" * 31 + "ê")
    assert found("text")[1][0] == "\x7f" * 64
    assert found("empty") == [(None, "d"), ("x", "x")]
    assert found("bytes")[0] == (b"a", b"\xff" * 64)
    assert found("bytes")[1] == (b"\xff" * 64, None)
    assert found("day")[1] == (dt.date(2020, 1, 5), dt.date(2020, 1, 8))
    assert found("list") is None


PREDICATES = [
    "i = 3", "i > 90", "i < -90", "i >= 0 AND i <= 3", "i = 0", "i IS NULL", "i IN (1, 50, -7)", "i <> 2",
    "f > 50", "f = 0", "f < -50", "f = cast('nan' as double)", "f >= cast('inf' as double)", "f IS NULL",
    "s = 'a'", "s > 'y'", "s < 'b'", "s IS NULL", "s IN ('b', 'zz')", "s = ''", "b", "NOT b", "b = true",
    "st.n > 80", "st.n = 0 OR i > 80", "st.t = 'x' AND i > 0", "t > timestamp '2020-03-01 00:00:00'",
    "z = x'ff'", "i > 10 AND f < 10 AND s > 'c'",
]  # fmt: skip

NUMBERS = st.one_of(st.none(), st.integers(-100, 100))
FLOATS = st.one_of(
    st.none(), st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf]), st.floats(-99, 99)
)
TEXTS = st.one_of(
    st.none(), st.text("abxyz\x7fé", max_size=3), st.sampled_from(["a" * 70, "z" * 64, "\x7f" * 65])
)
STRUCTS = st.one_of(st.none(), st.tuples(NUMBERS, TEXTS))
ROW = st.tuples(NUMBERS, FLOATS, TEXTS, st.one_of(st.none(), st.booleans()), STRUCTS)


@pytest.mark.peer
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=25), ordered=st.booleans())
def test_no_answer_changes(tmp_path_factory, rows, ordered):
    if ordered:
        rows = sorted(rows, key=lambda row: (row[0] is None, row[0] or 0))
    numbers, floats, texts, flags, structs = zip(*rows, strict=True)
    members = [None if row is None else {"n": row[0], "t": row[1]} for row in structs]
    uri = str(tmp_path_factory.mktemp("pruned") / "t")
    dataset = legacy(
        uri,
        {
            "i": pa.array(numbers, pa.int32()),
            "f": pa.array(floats, pa.float64()),
            "s": pa.array(texts, pa.string()),
            "b": pa.array(flags, pa.bool_()),
            "st": pa.array(members, pa.struct([("n", pa.int64()), ("t", pa.large_string())])),
            "t": pa.array(
                [dt.datetime(2020, 1, 1) + dt.timedelta(days=number or 0) for number in numbers],  # noqa: DTZ001 - naive
                pa.timestamp("us"),
            ),
            "z": pa.array([None if text is None else text.encode() for text in texts], pa.binary()),
        },
        max_rows_per_file=11,
    )
    everything = dataset.to_table(with_row_id=True)
    for predicate in PREDICATES:
        pruned = dataset.to_table(filter=predicate, with_row_id=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FragmentReader, "page_bounds", lambda *_: {})
            whole = dataset.to_table(filter=predicate, with_row_id=True)
        assert pruned["_rowid"].to_pylist() == whole["_rowid"].to_pylist(), predicate
        assert dataset.count_rows(predicate) == len(whole)
    assert everything.num_rows == len(rows)


@pytest.mark.peer
def test_only_pages_that_can_match_are_read(tmp_path, monkeypatch):
    dataset = legacy(str(tmp_path / "t"), {"i": list(range(100)), "s": [f"{row:03}" for row in range(100)]})
    lance.dataset(dataset.uri).delete("i = 41")
    dataset = dataset.latest()
    read = []
    fetch = FragmentRows.fetch
    monkeypatch.setattr(
        FragmentRows, "fetch", lambda *args: read.append((int(args[2][0]), int(args[2][-1]))) or fetch(*args)
    )
    assert dataset.to_table(filter="i in (9, 42)")["s"].to_pylist() == ["009", "042"]
    assert set(read) == {(8, 11), (9, 9), (40, 43), (42, 42)}
    read.clear()
    assert dataset.count_rows("s > '097' AND i < 1000") == 2
    assert read == [(96, 99)]
    read.clear()
    assert dataset.to_table(filter="i > 1000").num_rows == 0
    assert read == []
