"""The types of a dataset as Spark sees them, and back."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark_types
from pyspark.sql.types import ArrayType, MapType, NullType, StringType, StructField, StructType

from lance_ops.errors import SchemaMismatchError, UnsupportedTypeError
from lance_ops.maintenance.ingest.conform import conform, find_mismatches
from lance_ops.spark.convert import from_spark, to_spark
from lance_ops.spark.types import FIXED_SIZE_KEY, adapt_schema, arrow_schema, spark_schema
from tests.support.arrays import ALL_2_0_TYPES, random_array


def one_column(data_type: pa.DataType) -> pa.Schema:
    return pa.schema([("c", data_type)])


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (pa.int8(), "tinyint"),
        (pa.uint8(), "smallint"),
        (pa.uint16(), "int"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.large_string(), "string"),
        (pa.large_binary(), "binary"),
        (pa.binary(16), "binary"),
        (pa.uuid(), "binary"),
        (pa.dictionary(pa.int8(), pa.large_string()), "string"),
        (pa.date64(), "date"),
        (pa.timestamp("ns"), "timestamp_ntz"),
        (pa.timestamp("s", "Europe/Paris"), "timestamp"),
        (pa.duration("ns"), "interval day to second"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.decimal128(5, -2), "decimal(7,0)"),
        (pa.decimal128(2, 4), "decimal(4,4)"),
        (pa.decimal256(38, 1), "decimal(38,1)"),
        (pa.decimal256(60, 5), "string"),
        (pa.decimal128(38, -3), "string"),
        (pa.time32("s"), "string"),
        (pa.time64("ns"), "string"),
        (pa.list_(pa.time64("us")), "array<string>"),
        (pa.null(), "void"),
        (pa.list_(pa.float32(), 8), "array<float>"),
        (pa.large_list(pa.uint8()), "array<smallint>"),
        (pa.map_(pa.large_string(), pa.uint16()), "map<string,int>"),
        (pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.date64(), 2))]), "struct<a:smallint,b:array<date>>"),
    ],
)
def test_a_column_is_read_in_the_narrowest_type_that_holds_its_values(stored, shown):
    assert spark_schema(one_column(stored))["c"].dataType.simpleString() == shown


def test_every_column_that_spark_cannot_hold_is_listed():
    interval = pa.month_day_nano_interval()
    inner = pa.struct([("x", pa.list_(interval)), ("y", pa.int8())])
    schema = pa.schema([("fine", pa.int8()), ("span", interval), ("deep", inner)])
    with pytest.raises(UnsupportedTypeError, match="columns") as caught:
        spark_schema(schema)
    text = str(caught.value)
    assert "span (month_day_nano_interval): Spark has no such type" in text
    assert "deep.x.item (month_day_nano_interval)" in text
    assert "fine" not in text


@pytest.mark.parametrize("data_type", ALL_2_0_TYPES, ids=str)
@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
def test_a_batch_survives_the_way_to_spark_and_back(data_type, nulls):
    whole = pa.record_batch([random_array(data_type, 40, nulls=nulls)], ["c"])
    # A slice in the middle finds every mistake with offsets.
    for batch in (whole, whole.slice(7, 20), whole.slice(3, 0)):
        shown = to_spark(batch)
        shown.validate(full=True)
        assert shown.schema.equals(arrow_schema(spark_schema(batch.schema)))
        adapted = adapt_schema(shown.schema, batch.schema)
        back = from_spark(shown, adapted)
        back.validate(full=True)
        assert find_mismatches(adapted, batch.schema) == ()
        kept = conform(back, batch.schema).column(0)
        if "[ns]" in str(data_type) and not pa.types.is_time(data_type):
            rounded = [None if value is None else value // 1000 * 1000 for value in ticks(batch.column(0))]
            assert ticks(kept) == rounded
        else:
            # As Python values: a new dictionary may list the same words in another order.
            assert kept.type == data_type
            assert kept.to_pylist() == batch.column(0).to_pylist()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_strings_that_compare_alike(unit):
    """As Spark's cast of TIME to STRING writes them."""
    kind = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    day = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit] * 86_400
    rng = np.random.default_rng(7)
    values = sorted({0, 1, 9, day // 2, day - 1, *(int(n) for n in rng.integers(0, day, 200))})
    whole = pa.int32() if kind.bit_width == 32 else pa.int64()
    batch = pa.record_batch([pa.array(values, whole).cast(kind)], ["c"])
    shown = to_spark(batch).column(0).to_pylist()
    assert shown == sorted(shown)
    assert shown[values.index(day // 2)] == "12:00:00"
    assert not any("." in text and text.endswith(("0", ".")) for text in shown)
    assert spark_schema(batch.schema)["c"].metadata == {"comment": f"{kind} in the dataset, read as a string"}


@pytest.mark.parametrize(
    "text", ["", "7", "12", "24:00:00", "12:60", "12:00:00Z", "12:00:00.1234567", "1:00", "2024-01-01 12:00"]
)
def test_strings_that_are_no_times_are_refused_by_name(text):
    target = pa.schema([("id", pa.int64()), ("at", pa.time64("us"))])
    data = pa.record_batch({"id": pa.array([1, 2]), "at": ["12:00", text]})
    with pytest.raises(SchemaMismatchError, match=r"at: string to time64\[us\]"):
        from_spark(data, adapt_schema(data.schema, target))


def test_spark_s_own_times_are_written_without_loss_or_refused():
    data = pa.record_batch([pa.array([43_200_500_000_000, None], pa.int64()).cast(pa.time64("ns"))], ["c"])
    written = from_spark(data, adapt_schema(data.schema, one_column(pa.time32("ms"))))
    assert written.column(0).to_pylist() == [dt.time(12, 0, 0, 500_000), None]
    with pytest.raises(SchemaMismatchError, match="c: "):
        from_spark(data, adapt_schema(data.schema, one_column(pa.time32("s"))))


def ticks(array: pa.Array) -> list[int | None]:
    return array.cast(pa.int64()).to_pylist()


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_units_finer_than_microseconds_are_rounded_down_also_before_1970(values):
    batch = pa.record_batch([pa.array(values, pa.timestamp("ns"))], ["c"])
    assert ticks(to_spark(batch).column(0)) == [None if value is None else value // 1000 for value in values]


def test_vectors_are_handed_over_without_a_copy():
    flat = pa.array(np.arange(4000, dtype=np.float32))
    vectors = pa.FixedSizeListArray.from_arrays(flat, 4)
    shown = to_spark(pa.record_batch([vectors.slice(100, 300)], ["v"])).column(0)
    assert shown.values.buffers()[1].address == flat.buffers()[1].address
    assert shown.to_pylist() == vectors.slice(100, 300).to_pylist()


def test_values_that_do_not_fit_the_dataset_are_named():
    data = pa.record_batch(
        {
            "small": pa.array([1, 300], pa.int16()),
            "vector": pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32())),
            "half": pa.array([1.0, 1e30], pa.float32()),
            "fine": pa.array([1, 2], pa.int16()),
        }
    )
    target = pa.schema(
        [
            ("small", pa.uint8()),
            ("vector", pa.list_(pa.float32(), 2)),
            ("half", pa.float16()),
            ("fine", pa.uint8()),
        ]
    )
    with pytest.raises(SchemaMismatchError) as caught:
        from_spark(data, adapt_schema(data.schema, target))
    assert [line.split(":")[0] for line in caught.value.mismatches] == ["small", "vector", "half"]


def test_half_floats_are_rounded_to_the_nearest():
    data = pa.record_batch([pa.array([0.1, None, float("inf"), float("nan")], pa.float32())], ["h"])
    column = from_spark(data, one_column(pa.float16())).column(0)
    assert column.type == pa.float16()
    assert column.null_count == 1
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    assert values[0] == np.float16(0.1)
    assert np.isinf(values[2])
    assert np.isnan(values[3])


def test_only_the_type_that_spark_shows_is_adapted():
    data = pa.schema([("a", pa.int32()), ("b", pa.list_(pa.float64())), ("new", pa.int8())])
    target = pa.schema([("a", pa.uint8()), ("b", pa.list_(pa.float32(), 2))])
    assert adapt_schema(data, target).equals(data)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (spark_types.CharType(3), pa.string()),
        (spark_types.VarcharType(3), pa.string()),
        (spark_types.DayTimeIntervalType(0, 1), pa.duration("us")),
        (spark_types.DayTimeIntervalType(3, 3), pa.duration("us")),
        (spark_types.TimestampNTZType(), pa.timestamp("us")),
        (spark_types.TimestampType(), pa.timestamp("us", "UTC")),
        (
            spark_types.MapType(spark_types.StringType(), spark_types.LongType()),
            pa.map_(pa.string(), pa.int64()),
        ),
    ],
)
def test_spark_types_become_arrow_types(kind, expected):
    found = arrow_schema(StructType([StructField("c", kind)])).field(0).type
    assert found == expected


def test_every_spark_type_without_a_counterpart_is_listed():
    schema = StructType(
        [
            StructField("months", spark_types.YearMonthIntervalType()),
            StructField("deep", StructType([StructField("any", spark_types.VariantType())])),
        ]
    )
    with pytest.raises(UnsupportedTypeError) as caught:
        arrow_schema(schema)
    assert "months (interval year to month)" in str(caught.value)
    assert "deep.any (variant)" in str(caught.value)


def test_vectors_keep_their_length_in_the_metadata():
    shown = spark_schema(one_column(pa.list_(pa.float32(), 8)))
    assert shown["c"].metadata == {FIXED_SIZE_KEY: 8}
    assert arrow_schema(shown).field("c").type == pa.list_(pa.field("element", pa.float32()))
    assert arrow_schema(shown, stored=True).field("c").type == pa.list_(pa.float32(), 8)


@pytest.mark.spark
def test_sparks_jvm_takes_and_gives_back_every_type(spark):
    # Spark's own Arrow writer counts the items of array<void> wrong.
    fine = [data_type for data_type in ALL_2_0_TYPES if data_type != pa.list_(pa.null())]
    columns = {str(number): random_array(data_type, 30) for number, data_type in enumerate(fine)}
    # Beyond what storage can hold today.
    columns["map"] = pa.array([[("a", 1)], None] * 15, pa.map_(pa.string(), pa.uint8()))
    batch = pa.record_batch(columns)
    shown = to_spark(batch)

    def give(batches):
        for _ in batches:
            yield shown

    def look(batches):
        for found in batches:
            expected = shown.schema
            same = found.schema.equals(expected)
            yield pa.record_batch({"same": [same], "schema": [f"{found.schema}\n--\n{expected}"]})

    df = spark.range(0, 1, 1, 1).mapInArrow(give, spark_schema(batch.schema))
    (report,) = df.mapInArrow(look, "same boolean, schema string").collect()
    assert report["same"], report["schema"]
    back = df.toArrow().combine_chunks().to_batches()[0]
    assert to_spark(back, shown.schema).equals(shown)


@pytest.mark.spark
def test_values_arrive_in_spark_as_they_are(spark):
    batch = pa.record_batch(
        {
            "u64": pa.array([2**64 - 1, None], pa.uint64()),
            "half": pa.array([np.float16(1.5), None], pa.float16()),
            "day": pa.array([dt.date(1969, 12, 31), None], pa.date64()),
            "at": pa.array([-1, None], pa.timestamp("ns")),
            "zoned": pa.array([0, None], pa.timestamp("s", "America/New_York")),
            "vector": pa.array([[1, 2], None], pa.list_(pa.uint8(), 2)),
            "word": pa.array(["x", None]).dictionary_encode(),
        }
    )
    shown = to_spark(batch)

    def give(batches):
        for _ in batches:
            yield shown

    first, second = spark.range(0, 1, 1, 1).mapInArrow(give, spark_schema(batch.schema)).collect()
    assert first.u64 == Decimal(2**64 - 1)
    assert first.half == 1.5
    assert first.day == dt.date(1969, 12, 31)
    assert first.at == dt.datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - it has no zone
    assert first.zoned.timestamp() == 0
    assert first.vector == [1, 2]
    assert first.word == "x"
    assert not any(value is not None for value in second)


def test_columns_without_a_type_hold_nulls_whatever_spark_says():
    nothing = NullType()
    schema = StructType(
        [
            StructField("a", ArrayType(nothing, containsNull=False), nullable=False),
            StructField("m", MapType(StringType(), nothing, valueContainsNull=False)),
            StructField("n", nothing, nullable=False),
        ]
    )
    found = arrow_schema(schema, stored=True)
    assert found.field("a").type.value_field.nullable
    assert found.field("m").type.item_field.nullable
    assert found.field("n").nullable
    with pytest.raises(UnsupportedTypeError, match=r"bad \(map<void,void>\)"):
        arrow_schema(StructType([StructField("bad", MapType(nothing, nothing))]))


def test_a_type_that_spark_cannot_read_back_makes_no_column():
    """A column of TIME would come back as strings."""
    schema = StructType.fromJson(
        {"type": "struct", "fields": [{"name": "at", "type": "time(6)", "nullable": True, "metadata": {}}]}
    )
    with pytest.raises(UnsupportedTypeError, match=r"at \(time\(6\)\)"):
        arrow_schema(schema, stored=True)
    # Datasets of other writers have such columns, which rows may still be appended to.
    assert arrow_schema(schema).field("at").type == pa.time64("ns")
