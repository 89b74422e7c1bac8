import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import SchemaMismatchError
from lance_ops.maintenance.ingest.conform import check_schema, conform, find_mismatches


def one(kind: pa.DataType, nullable: bool = True) -> pa.Schema:
    return pa.schema([pa.field("x", kind, nullable)])


LOSSLESS = [
    (pa.int8(), pa.int64()),
    (pa.uint8(), pa.int16()),
    (pa.uint32(), pa.uint64()),
    (pa.float16(), pa.float32()),
    (pa.float32(), pa.float64()),
    (pa.string(), pa.large_string()),
    (pa.large_string(), pa.string()),
    (pa.string_view(), pa.string()),
    (pa.binary(), pa.large_binary()),
    (pa.binary(4), pa.binary()),
    (pa.dictionary(pa.int8(), pa.string()), pa.string()),
    (pa.string(), pa.dictionary(pa.int32(), pa.string())),
    (pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.string())),
    (pa.timestamp("s"), pa.timestamp("us")),
    (pa.timestamp("us", "Etc/UTC"), pa.timestamp("us", "UTC")),
    (pa.time32("s"), pa.time64("ns")),
    (pa.duration("ms"), pa.duration("us")),
    (pa.decimal128(5, 2), pa.decimal128(9, 3)),
    (pa.list_(pa.int32()), pa.large_list(pa.int64())),
    (pa.list_(pa.int32(), 3), pa.list_(pa.int64(), 3)),
    (pa.map_(pa.string(), pa.int32()), pa.map_(pa.large_string(), pa.int64())),
    (
        pa.struct([("a", pa.int8()), ("b", pa.string())]),
        pa.struct([("b", pa.large_string()), ("a", pa.int8())]),
    ),
    (pa.null(), pa.list_(pa.int32())),
]

LOSSY = [
    (pa.int64(), pa.int32()),
    (pa.int64(), pa.float64()),
    (pa.int32(), pa.uint64()),
    (pa.uint64(), pa.int64()),
    (pa.float64(), pa.float32()),
    (pa.string(), pa.int64()),
    (pa.binary(), pa.string()),
    (pa.binary(), pa.binary(4)),
    (pa.timestamp("ns"), pa.timestamp("us")),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.decimal128(9, 2), pa.decimal128(9, 4)),
    (pa.bool_(), pa.int8()),
    (pa.list_(pa.int64()), pa.list_(pa.int32())),
    (pa.list_(pa.int32(), 3), pa.list_(pa.int32(), 4)),
    (pa.struct([("a", pa.int8())]), pa.int8()),
    (pa.date32(), pa.timestamp("us")),
]


@pytest.mark.parametrize(("source", "target"), LOSSLESS, ids=str)
def test_types_that_lose_nothing_are_accepted(source, target):
    assert find_mismatches(one(source), one(target)) == ()


@pytest.mark.parametrize(("source", "target"), LOSSY, ids=str)
def test_types_that_could_lose_something_are_mismatches(source, target):
    (mismatch,) = find_mismatches(one(source), one(target))
    assert mismatch.startswith("x")


@pytest.mark.parametrize(("source", "target"), LOSSLESS, ids=str)
def test_every_accepted_type_can_be_cast_with_nulls_and_when_sliced(source, target):
    values = {
        "struct": [{"a": 1, "b": "u"}, None, {"a": None, "b": "w"}, {"a": 4, "b": None}],
        "list": [[1, 2, 3], None, [None, 5, 6], [7, 8, 9]],
        "map": [[("k", 1)], None, [], [("l", None)]],
    }
    kind = str(source).partition("<")[0].partition("[")[0]
    if pa.types.is_null(source):
        rows = [None] * 4
    elif kind in values:
        rows = values[kind]
    elif pa.types.is_fixed_size_list(source):
        rows = values["list"]
    elif pa.types.is_floating(source):
        rows = [1.5, None, -2.0, 0.25]
    elif pa.types.is_integer(source) or kind.startswith(("time", "duration", "decimal")):
        rows = [1, None, 3, 4]
    else:
        rows = ["aaaa", None, "bbbb", "aaaa"]
    storage = pa.int64() if kind in ("duration", "timestamp") else pa.int32() if kind == "time32" else source
    array = pa.array(rows, storage).cast(source) if storage != source else pa.array(rows, source)
    for piece in (array, array[1:], array[2:3], array[:0]):
        batch = conform(pa.record_batch([piece], names=["x"]), one(target))
        assert batch.schema == one(target)
        batch.validate(full=True)
        assert [_plain(v) for v in batch.column(0).to_pylist()] == [_plain(v) for v in piece.to_pylist()]


def _plain(value):
    if isinstance(value, dict):
        return sorted(value.items())
    return value


def test_every_mismatch_is_listed_at_once():
    data = pa.schema([
        ("a", pa.string()),
        ("extra", pa.int8()),
        ("s", pa.struct([("u", pa.string()), ("w", pa.int8())])),
        ("l", pa.list_(pa.int64())),
        ("n", pa.null()),
        ("twice", pa.int8()),
        ("twice", pa.int8()),
    ])  # fmt: skip
    target = pa.schema([
        ("a", pa.int64()),
        ("gone", pa.float32()),
        ("s", pa.struct([("u", pa.int32()), ("v", pa.int8())])),
        ("l", pa.list_(pa.int32())),
        pa.field("n", pa.int8(), nullable=False),
        ("twice", pa.int8()),
    ])  # fmt: skip
    with pytest.raises(SchemaMismatchError) as caught:
        check_schema(data, target, what="the data", path="t.lance")
    assert caught.value.mismatches == (
        "twice: duplicate column name in the data",
        "a: string in the data, int64 in the dataset",
        "gone: missing, the dataset has it as float; fill_missing writes nulls",
        "s.u: string in the data, int32 in the dataset",
        "s.v: missing, the dataset has it as int8",
        "s.w: column not found in the dataset (int8 in the data)",
        "l.item: int64 in the data, int32 in the dataset",
        "n: only nulls in the data, but the dataset's column is not nullable",
        "extra: column not found in the dataset (int8 in the data)",
    )
    assert "table.cast(" in caught.value.hint
    assert "t.lance" in str(caught.value)


def test_a_missing_column_is_not_to_be_cast():
    with pytest.raises(SchemaMismatchError) as caught:
        check_schema(pa.schema([("a", pa.int8())]), pa.schema([("b", pa.int8())]), what="the data")
    assert caught.value.hint is None


def test_missing_nullable_columns_may_be_filled_with_nulls_when_asked():
    target = pa.schema(
        [("a", pa.int64()), ("l", pa.list_(pa.int8())), pa.field("n", pa.int8(), nullable=False)]
    )
    batch = pa.record_batch({"n": pa.array([1, 2], pa.int8())})
    assert len(find_mismatches(batch.schema, target)) == 2
    assert find_mismatches(batch.schema, target, fill_missing=True) == ()
    filled = conform(batch, target, fill_missing=True)
    assert filled.to_pylist() == [{"a": None, "l": None, "n": 1}, {"a": None, "l": None, "n": 2}]
    (mismatch,) = find_mismatches(pa.schema([]), target, fill_missing=True)
    assert mismatch == "n: missing, the dataset has it as int8"


def test_columns_are_put_in_the_order_of_the_dataset():
    batch = pa.record_batch({"b": ["x"], "a": [1]})
    target = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert conform(batch, target).to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    ("array", "kind", "path"),
    [
        (pa.array([1, None]), pa.field("x", pa.int64(), False), "x: 1 nulls"),
        (
            pa.array([{"a": None}, None], pa.struct([("a", pa.int8())])),
            pa.field("x", pa.struct([pa.field("a", pa.int8(), False)])),
            r"x\.a: 1 nulls",
        ),
        (
            pa.array([[1, None], None]),
            pa.field("x", pa.list_(pa.field("item", pa.int64(), False))),
            r"x\.item: 1 nulls",
        ),
    ],
)
def test_a_null_where_none_may_stand_is_an_error(array, kind, path):
    with pytest.raises(SchemaMismatchError, match=path):
        conform(pa.record_batch([array], names=["x"]), pa.schema([kind]))


def test_a_nullable_column_without_nulls_may_feed_one_that_takes_none():
    target = pa.schema([
        pa.field("x", pa.int64(), False),
        pa.field("s", pa.struct([pa.field("a", pa.int8(), False)])),
    ])  # fmt: skip
    batch = pa.record_batch(
        [pa.array([1, 2]), pa.array([{"a": 1}, None], pa.struct([("a", pa.int8())]))], names=["x", "s"]
    )
    assert conform(batch, target).schema == target


def test_rows_without_columns_are_refused_or_filled_but_never_lost():
    rows = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    with pytest.raises(SchemaMismatchError, match="3 rows"):
        conform(rows, pa.schema([]))
    assert conform(rows, one(pa.int8()), fill_missing=True).num_rows == 3


def test_a_value_beyond_the_finer_unit_is_an_error():
    batch = pa.record_batch([pa.array([2**60], pa.timestamp("s"))], names=["x"])
    with pytest.raises(SchemaMismatchError, match="x: a value does not fit"):
        conform(batch, one(pa.timestamp("ns")))


SECONDS = st.integers(-(10**9), 10**10)


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)), st.lists(st.none() | SECONDS))
def test_casts_keep_every_value(numbers, seconds):
    ints = conform(pa.record_batch([pa.array(numbers, pa.int32())], names=["x"]), one(pa.int64()))
    assert ints.column(0).to_pylist() == numbers
    stamps = pa.record_batch([pa.array(seconds, pa.timestamp("s"))], names=["x"])
    finer = conform(stamps, one(pa.timestamp("us"))).column(0).cast(pa.int64())
    assert finer.to_pylist() == [None if s is None else s * 10**6 for s in seconds]


def test_a_batch_is_looked_at_once_on_its_way_into_files(tmp_path, monkeypatch):
    def again(*_, **__):
        raise AssertionError("the batch was conformed a second time")

    monkeypatch.setattr("lance_ops.table.data_writer.conform", again)
    uri = str(tmp_path / "t.lance")
    given = pa.table({"s": pa.array([{"b": 1, "a": "x"}, None]), "n": pa.array([1, 2], pa.int8())})
    lo.append(uri, pa.table({"n": pa.array([0], pa.int64()), "s": pa.array([{"a": "y", "b": 2}])}))
    lo.append(uri, given)
    assert lo.dataset(uri).to_table().to_pydict() == {
        "n": [0, 1, 2],
        "s": [{"a": "y", "b": 2}, {"a": "x", "b": 1}, None],
    }
