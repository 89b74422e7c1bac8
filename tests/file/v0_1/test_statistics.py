"""Statistics of 0.1 files that are incomplete, go beyond what is known, or are damaged."""

import struct
from collections.abc import Callable

import lance
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptFileError
from lance_ops.file.container.page_bounds import PageBounds
from lance_ops.file.reader import FileReader
from lance_ops.pb import file_pb2
from lance_ops.storage import open_store

pytestmark = pytest.mark.peer

Statistics = file_pb2.Metadata.StatisticsMetadata


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Columns 0 and 1 in two batches: 1, 2, 3 and 4, 5; a, b, c and d, e."""
    uri = str(tmp_path_factory.mktemp("legacy") / "statistics")
    table = pa.table({"number": [1, 2, 3, 4, 5], "letter": list("abcde")})
    lance.write_dataset(table, uri, data_storage_version="legacy", max_rows_per_group=3)
    store = open_store(uri)
    (file,) = store.list("data")
    return store.read(file.path).to_pybytes()


def edited(data: bytes, edit: Callable[[file_pb2.Metadata], object]) -> FileReader:
    """The file with other metadata."""
    position = struct.unpack("<q", data[-16:-8])[0]
    length = struct.unpack("<I", data[position : position + 4])[0]
    metadata = file_pb2.Metadata.FromString(data[position + 4 : position + 4 + length])
    edit(metadata)
    encoded = metadata.SerializeToString()
    store = open_store("memory://legacy-statistics")
    store.put("edited.lance", data[:position] + struct.pack("<I", len(encoded)) + encoded + data[-16:])
    return FileReader.open(store, "edited.lance")


def field(statistics: Statistics, name: str, number: int = 0) -> file_pb2.Field:
    return [found for found in statistics.schema if found.name == name][number]


def values(bounds: PageBounds) -> tuple[list[int], list[object], list[object]]:
    return bounds.starts.tolist(), bounds.low.to_pylist(), bounds.high.to_pylist()


def test_bounds_of_every_page(good: bytes) -> None:
    bounds = edited(good, lambda _: None).page_bounds([0, 1, 9])
    assert bounds.keys() == {0, 1}
    assert values(bounds[0]) == ([0, 3, 5], [1, 4], [3, 5])
    assert values(bounds[1]) == ([0, 3, 5], ["a", "d"], ["c", "e"])


def test_only_what_is_asked_for_is_read(good: bytes) -> None:
    assert edited(good, lambda _: None).page_bounds([1]).keys() == {1}
    assert edited(good, lambda _: None).page_bounds([]) == {}


def test_a_file_without_statistics_has_no_bounds(good: bytes) -> None:
    assert edited(good, lambda metadata: metadata.ClearField("statistics")).page_bounds([0, 1]) == {}


def test_a_file_with_empty_statistics_has_no_bounds(good: bytes) -> None:
    def empty(metadata: file_pb2.Metadata) -> None:
        del metadata.statistics.schema[:]
        del metadata.statistics.fields[:]

    assert edited(good, empty).page_bounds([0, 1]) == {}


@pytest.mark.parametrize("kind", ["null_count", "min_value", "max_value"])
def test_a_missing_kind_leaves_that_field_unknown(good: bytes, kind: str) -> None:
    def drop(metadata: file_pb2.Metadata) -> None:
        metadata.statistics.schema.remove(field(metadata.statistics, kind))

    bounds = edited(good, drop).page_bounds([0, 1])
    assert bounds.keys() == {1}
    assert values(bounds[1])[1] == ["a", "d"]


def test_unknown_fields_and_kinds_are_passed_over(good: bytes) -> None:
    def rename(metadata: file_pb2.Metadata) -> None:
        field(metadata.statistics, "0").name = "bloom filter of 0"
        metadata.statistics.schema.add(
            name="distinct_count",
            id=900,
            parent_id=field(metadata.statistics, "1").id,
            logical_type="exotic:7",
        )

    assert edited(good, rename).page_bounds([0, 1]).keys() == {1}


@pytest.mark.parametrize("kind", ["int8", "fixed_size_list:int32:2", "bool"])
def test_bounds_of_two_types_bound_nothing(good: bytes, kind: str) -> None:
    def retype(metadata: file_pb2.Metadata) -> None:
        field(metadata.statistics, "max_value").logical_type = kind

    assert edited(good, retype).page_bounds([0]) == {}


@pytest.mark.parametrize(
    "edit",
    [
        lambda statistics: setattr(statistics, "page_table_position", 1 << 40),
        lambda statistics: statistics.fields.append(2**31 - 1),
        lambda statistics: statistics.fields.__delitem__(slice(1, None)),
        lambda statistics: setattr(field(statistics, "min_value"), "id", field(statistics, "1").id),
        lambda statistics: setattr(field(statistics, "max_value"), "parent_id", 77),
        # The bytes of numbers are not the offsets of strings.
        lambda statistics: setattr(field(statistics, "max_value"), "logical_type", "string"),
    ],
)
def test_damaged_statistics_are_an_error(good: bytes, edit: Callable[[Statistics], object]) -> None:
    reader = edited(good, lambda metadata: edit(metadata.statistics))
    with pytest.raises(CorruptFileError, match="statistics"):
        reader.page_bounds([0, 1])
    assert reader.read_table().num_rows == 5
