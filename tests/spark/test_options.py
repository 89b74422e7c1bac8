"""Options of the data source, as Spark hands them over."""

import pytest

from lance_ops.errors import InvalidArgumentError
from lance_ops.spark.options import ReadOptions, read_options, write_options


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
        ({}, "where is the dataset"),
        ({"path": "x", "vesrion": "1"}, r"unknown option: vesrion; hint: .*version"),
        ({"path": "x", "version": "one"}, "field: version"),
        ({"path": "x", "version": "0"}, "at least 1"),
        ({"path": "x", "version": "1", "tag": "t"}, "tag names version and branch"),
        ({"path": "x", "columns": "a,,b"}, "a name is missing"),
        ({"path": "x", "columns": "[1]"}, "not a list of names"),
        ({"path": "x", "columns": "[oops"}, "field: columns"),
        ({"path": "x", "pushdown": "yes"}, "true or false"),
        ({"path": "x", "job_key": "k"}, "unknown option: job_key"),
    ],
)
def test_options_that_make_no_sense_are_refused(given, message):
    with pytest.raises(InvalidArgumentError, match=message):
        read_options(given)


def test_options_of_a_write_are_those_of_write_dataset():
    uri, options = write_options(
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
    with pytest.raises(InvalidArgumentError, match="unknown option: version"):
        write_options({"path": "x", "version": "1"})
