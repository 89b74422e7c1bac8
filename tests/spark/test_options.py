"""Options of the data source, as Spark hands them over."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from lance_ops.errors import InvalidArgumentError
from lance_ops.spark.options import ReadOptions, TableWrite, read_options, write_options
from lance_ops.spark.streaming.options import sink_options, source_names, source_options


def test_options_are_read_whatever_their_case():
    given = {
        "PATH": "/data/x.lance",
        "Version": "7",
        "columns": "a, b.c",
        "FILTER": "a > 1 OR b.c IS NULL",
        "pushDown": "TRUE",
        "partition_bytes": "1000",
        "storage.aws_endpoint": "http://127.0.0.1:1",
    }
    assert read_options(given) == ReadOptions(
        "/data/x.lance",
        7,
        ("a", "b.c"),
        "a > 1 OR b.c IS NULL",
        True,
        1000,
        {"aws_endpoint": "http://127.0.0.1:1"},
    )


def test_names_with_commas_come_as_a_json_list():
    assert read_options({"path": "x", "columns": '["a,b", "c"]'}).columns == ("a,b", "c")


@pytest.mark.parametrize(
    ("given", "version"),
    [
        ({}, None),
        ({"version": "3"}, 3),
        ({"tag": "v1"}, "v1"),
        ({"branch": "b"}, ("b", None)),
        ({"branch": "b", "version": "2"}, ("b", 2)),
    ],
)
def test_a_version_is_named_in_several_ways(given, version):
    assert read_options({"path": "x", **given}).version == version


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "URI of the dataset is missing"),
        ({"path": "x", "vesrion": "1"}, r"unknown option: vesrion; hint: .*version"),
        ({"path": "x", "version": "one"}, "field: version"),
        ({"path": "x", "version": "0"}, "at least 1"),
        ({"path": "x", "version": "1", "tag": "t"}, "tag excludes version and branch"),
        ({"path": "x", "columns": "a,,b"}, "a name is empty"),
        ({"path": "x", "columns": "[1]"}, "must be a list of names"),
        ({"path": "x", "columns": "[oops"}, "field: columns"),
        ({"path": "x", "pushdown": "yes"}, "true or false"),
        ({"path": "x", "job_key": "k"}, "unknown option: job_key"),
    ],
)
def test_options_that_make_no_sense_are_refused(given, message):
    with pytest.raises(InvalidArgumentError, match=message):
        read_options(given)


def test_options_of_a_write_are_those_of_write_dataset():
    uri, options, table = write_options(
        {
            "path": "x",
            "job_key": "load 7",
            "max_rows_per_file": "10",
            "fill_missing": "true",
            "property.run": "1",
            "storage.fsync": "false",
        }
    )
    assert uri == "x"
    assert options == {
        "job_key": "load 7",
        "max_rows_per_file": 10,
        "fill_missing": True,
        "properties": {"run": "1"},
        "storage_options": {"fsync": "false"},
    }
    assert table == TableWrite()
    with pytest.raises(InvalidArgumentError, match="unknown option: version"):
        write_options({"path": "x", "version": "1"})


def test_what_spark_adds_for_a_table_is_understood():
    made = {
        "owner": "me",
        "provider": "lance",
        "location": "file:/a b",
        "external": "true",
        "option.path": "x",
    }
    assert read_options({**made, "max_rows_per_file": "2"}).uri == "/a b"
    named = {"path": "file:///a", "table.name": "t", "table.schema": "{}", "table.version": "7"}
    found = read_options({**named, "job_key": "k"})
    assert (found.uri, found.version, found.declared) == ("file:///a", 7, "{}")
    assert read_options({**named, "table.version": "gold"}).version == "gold"
    moment = read_options({"path": "x", "table.microseconds": "1000000"}).asof
    assert moment == datetime.fromtimestamp(1, UTC)
    assert read_options({"path": "x", "timestampAsOf": "1970-01-01T00:00:01Z"}).asof == moment
    with pytest.raises(InvalidArgumentError, match="either a version or a timestamp"):
        read_options({"path": "x", "timestampAsOf": "1970-01-01T00:00:00Z", "version": "1"})


def test_a_timestamp_without_a_zone_is_one_of_the_session_or_refused():
    given = {"path": "x", "timestampAsOf": "2024-01-01 05:30:00"}
    for zone in ("Asia/Kolkata", "UTC"):
        found = read_options({**given, "table.zone": zone}).asof
        assert found == datetime(2024, 1, 1, 5, 30, tzinfo=ZoneInfo(zone))
    for unknown in ({}, {"table.zone": "+05:30 or so"}, {"timestampAsOf": "soon"}):
        with pytest.raises(InvalidArgumentError, match="timestampAsOf"):
            read_options({**given, **unknown})


def test_a_stream_starts_at_a_timestamp_with_a_zone():
    given = {"path": "x", "startingTimestamp": "2024-01-01 05:30:00"}
    with pytest.raises(InvalidArgumentError, match="startingTimestamp"):
        source_options(given)
    found = source_options({**given, "table.zone": "Asia/Kolkata"}).starting_timestamp
    assert found == datetime(2024, 1, 1, tzinfo=UTC)


def test_spark_resolves_the_version_of_a_named_table_and_hands_the_option_on():
    named = {"path": "x", "table.name": "t", "table.version": "7", "versionAsOf": "7"}
    assert read_options({**named, "VERSIONASOF": "7"}).version == 7
    moment = {
        "path": "x",
        "table.name": "t",
        "table.microseconds": "1000000",
        "timestampAsOf": "1970-01-01 01:00",
    }
    assert read_options(moment).asof == datetime.fromtimestamp(1, UTC)


def test_an_option_of_two_names_has_one_value():
    both = {"path": "x", "max_rows_per_file": "5", "maxRecordsPerFile": "5"}
    assert write_options(both)[1]["max_rows_per_file"] == 5
    with pytest.raises(InvalidArgumentError, match="its alias"):
        write_options({**both, "maxRecordsPerFile": "6"})
    with pytest.raises(InvalidArgumentError, match="its alias"):
        sink_options({"path": "x", "mergeKeys": "a", "on": "b"})
    assert sink_options({"path": "x", "mergeKeys": "a", "on": "a"}).merge_keys == ("a",)


def test_what_spark_adds_for_a_write_is_understood():
    uri, options, table = write_options(
        {"uri": "s3://b/t", "path": "x", "table.name": "t", "table.new": "true", "filter": "a = 1"}
    )
    assert (uri, options, table) == ("s3://b/t", {"storage_options": {}}, TableWrite(is_new=True))
    given = {"path": "x", "maxRecordsPerFile": "5", "replaceWhere": "a = 1", "compression": "zstd"}
    assert write_options(given)[1] == {"storage_options": {}, "max_rows_per_file": 5, "predicate": "a = 1"}
    with pytest.raises(InvalidArgumentError, match="cannot add columns"):
        write_options({"path": "x", "mergeSchema": "true"})


def test_a_hint_at_options_names_those_of_the_door():
    given = {"path": "x", "startingVersoin": "1"}
    with pytest.raises(InvalidArgumentError, match=r"unknown option: .*startingVersion") as source:
        source_options(given)
    assert "full_text_query" not in str(source.value)
    with pytest.raises(InvalidArgumentError, match=r"there are .*mergeKeys") as sink:
        sink_options(given)
    assert "startingVersion," not in str(sink.value)
    # Spark asks for the columns of a stream as for those of a load.
    with pytest.raises(InvalidArgumentError, match=r"full_text_query.*readStream has .*startingVersion"):
        read_options(given, source_names())
    assert {"branch", "startingVersion", "maxRowsPerTrigger", "path"} <= set(source_names())
