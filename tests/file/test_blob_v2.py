"""Descriptors of blobs of 2.2, sound and damaged ones, and the files beside data files."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptFileError, FileMissingError, UnsupportedError
from lance_ops.file.io.fetch import Request, SideRequest, run
from lance_ops.file.io.side_files import data_file_of, side_folder, side_name
from lance_ops.file.schema.blob_fields import DESCRIPTOR
from lance_ops.file.v2_1.blob.read_v2 import DEDICATED, EXTERNAL, INLINE, PACKED, read_blobs_v2
from tests.fixtures.write_blobs import VALUES

FIXTURES = Path(__file__).parents[1] / "fixtures"
_LOGICAL = pa.struct(
    [("data", pa.large_binary()), ("uri", pa.string()), ("position", pa.uint64()), ("size", pa.uint64())]
)
_MINIMAL = pa.struct([("data", pa.large_binary()), ("uri", pa.string())])


def _serve(requests: list[Request]) -> list[pa.Buffer]:
    def body(request: Request) -> bytes:
        name = request.name if isinstance(request, SideRequest) else "own"
        return f"{name}@{request[0]}".encode().ljust(request[1], b".")[: request[1]]

    return [pa.py_buffer(body(request)) for request in requests]


def _read(*rows: tuple | None, data_type: pa.DataType = _LOGICAL, bases: dict | None = None) -> list:
    names = [member.name for member in DESCRIPTOR]
    values = [None if row is None else dict(zip(names, row, strict=True)) for row in rows]
    descriptors = pa.array(values, DESCRIPTOR)
    return run(read_blobs_v2(descriptors, data_type, 1000, bases or {}), _serve).to_pylist()


def test_each_kind_lies_where_its_descriptor_says() -> None:
    found = _read(
        (INLINE, 7, 6, 0, ""),
        None,
        (INLINE, 0, 0, 0, ""),
        (PACKED, 9, 40, 1, ""),
        (DEDICATED, 0, 40, 2, ""),
        (EXTERNAL, 0, 0, 0, "s3://b/k"),
        (EXTERNAL, 5, 6, 0, "s3://b/k"),
        (EXTERNAL, 5, 6, 3, "k"),
        bases={3: "s3://c/p/"},
    )

    assert [None if row is None else row["data"] for row in found] == [
        b"own@7.",
        None,
        b"",
        f"{side_name(1)}@9".encode().ljust(40, b"."),
        f"{side_name(2)}@0".encode().ljust(40, b"."),
        None,
        None,
        None,
    ]
    outside = [(row["uri"], row["position"], row["size"]) for row in found[-3:]]
    assert outside == [("s3://b/k", None, None), ("s3://b/k", 5, 6), ("s3://c/p/k", 5, 6)]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ((INLINE, 999, 2, 0, ""), CorruptFileError),
        ((INLINE, 2**63, 2, 0, ""), CorruptFileError),
        ((INLINE, 0, 2**64 - 1, 0, ""), CorruptFileError),
        ((PACKED, 0, 5, 0, ""), CorruptFileError),
        ((DEDICATED, 0, 2**62, 1, ""), UnsupportedError),
        ((4, 0, 2, 9, "../k"), CorruptFileError),
        ((5, 0, 0, 0, ""), UnsupportedError),
        ((255, 0, 0, 0, ""), UnsupportedError),
        ((EXTERNAL, 0, 0, 9, "k"), CorruptFileError),
        ((EXTERNAL, 0, 0, 3, "../k"), CorruptFileError),
        ((EXTERNAL, 0, 0, 3, "/k"), CorruptFileError),
    ],
)
def test_descriptors_that_cannot_be_are_errors(row: tuple, error: type[Exception]) -> None:
    with pytest.raises(error):
        _read(row, bases={3: "s3://c/p"})


def test_a_part_of_an_object_needs_a_column_that_can_say_so() -> None:
    with pytest.raises(UnsupportedError, match="part of an object"):
        _read((EXTERNAL, 5, 6, 0, "s3://b/k"), data_type=_MINIMAL)
    assert _read((EXTERNAL, 0, 0, 0, "s3://b/k"), data_type=_MINIMAL) == [{"data": None, "uri": "s3://b/k"}]


def test_names_of_side_files() -> None:
    assert side_name(1) == "1" + "0" * 31 + ".blob"
    assert side_name(2) == "01" + "0" * 30 + ".blob"
    assert side_folder("data/x.lance") == "data/x"
    assert data_file_of(f"data/x/{side_name(5)}") == "data/x.lance"
    for other in ("data/x/1.blob", f"data/x/{side_name(1)}x", side_name(1), "data/x.lance"):
        assert data_file_of(other) is None


def test_nulls_of_releases_that_list_the_parts_as_a_layer() -> None:
    found = lo.dataset(FIXTURES / "blobs-4.0.0").to_table()["b"].to_pylist()
    assert [None if row is None else row["data"] for row in found] == VALUES
    taken = lo.dataset(FIXTURES / "blobs-4.0.0").take([1, 3])["b"].to_pylist()
    assert [None if row is None else row["data"] for row in taken] == [None, VALUES[3]]


def test_a_side_file_that_is_gone_is_named(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    rows = pa.table([lance.blob_array([b"m" * 70_000])], schema=pa.schema([lance.blob_field("b")]))
    lo.write_dataset(rows, uri, data_storage_version="2.2")
    (side,) = (uri / "data").rglob("*.blob")
    side.write_bytes(b"short")
    with pytest.raises(CorruptFileError):
        lo.dataset(uri).to_table()
    side.unlink()
    with pytest.raises(FileMissingError, match="blob"):
        lo.dataset(uri).to_table()
