"""Full-zip pages of ours, read back by us and by the peer."""

from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.pages.ravel import ravel
from lance_ops.encoding.values.array_values import from_arrow
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.reader import FileReader
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.file.v2_1.full_zip.write import can_full_zip, encode_full_zip
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.storage import open_store
from tests.support.page_file import write_page_file

_TEXTS = ["hello", "", "wide " * 40, "x"]
_PACKED = {"packed": "true"}


def _structs(names: dict[str, pa.Array], null: list[bool] | None = None) -> pa.Array:
    mask = None if null is None else pa.array(null)
    return pa.StructArray.from_arrays(list(names.values()), names=list(names), mask=mask)


_COLUMNS = {
    "int32": (pa.array([1, 2, 3, 4], pa.int32()), ()),
    "int32 with nulls": (pa.array([1, None, 3, None], pa.int32()), ()),
    "bool with nulls": (pa.array([True, False, None, True]), ()),
    "decimal": (pa.array([1, 2, None], pa.decimal128(20, 2)), ()),
    "vectors": (pa.array([[1.5] * 40, [2.5] * 40], pa.list_(pa.float32(), 40)), ()),
    "vectors with nulls": (pa.array([[1.5] * 40, None, [2.5] * 40], pa.list_(pa.float32(), 40)), ()),
    "null items": (pa.array([[1, None, 3], None, [None] * 3, [4, 5, 6]], pa.list_(pa.int16(), 3)), ()),
    "nested null items": (
        pa.array(
            [[[1, None], None, [5, 6]], [[3, 4], [5, 6], [7, 8]], None],
            pa.list_(pa.list_(pa.int32(), 2), 3),
        ),
        (),
    ),
    "bools that fill bytes": (pa.array([[True, False] * 4, [True] * 8], pa.list_(pa.bool_(), 8)), ()),
    "strings": (pa.array(_TEXTS), ()),
    "strings with nulls": (pa.array([None, *_TEXTS, None]), ()),
    "large strings with nulls": (pa.array([None, *_TEXTS, None], pa.large_string()), ()),
    "binary": (pa.array([text.encode() for text in _TEXTS]), ()),
    "lists of strings": (pa.array([_TEXTS, [], None, ["a", None, "b"], ["c"]]), (0,)),
    "lists without nulls": (pa.array([_TEXTS, ["c"]]), (0,)),
    "lists of numbers": (pa.array([[1, 2], [], None, [3, None, 4], [5]], pa.list_(pa.int32())), (0,)),
    "lists of lists": (pa.array([[["a"], None, []], None, [], [["b", None], ["c"]]]), (0, 0)),
    "lists of vectors": (
        pa.array([[[1.0] * 4, None], [], None, [[2.0] * 4]], pa.list_(pa.list_(pa.float64(), 4))),
        (0,),
    ),
    "packed strings": (
        _structs({"i": pa.array([1, 2, 3, 4], pa.int32()), "s": pa.array(_TEXTS), "t": pa.array(_TEXTS)}),
        (),
    ),
    "packed strings with nulls": (
        _structs(
            {"s": pa.array(_TEXTS, pa.large_string()), "i": pa.array([1, 2, 3, 4], pa.int8())},
            [False, True, False, True],
        ),
        (),
    ),
    "packed vectors": (
        _structs({"v": pa.array([[1, 2]] * 3, pa.list_(pa.int16(), 2)), "i": pa.array([1, 2, 3])}),
        (),
    ),
}
_LONG_TEXTS = [" ".join(str(n * m) for m in range(2000)) for n in range(40)]
_COLUMNS |= {
    "long strings": (pa.array(_LONG_TEXTS), ()),
    "very long strings with nulls": (pa.array([None, *(text * 4 for text in _LONG_TEXTS), "", None]), ()),
    "packed long strings": (_structs({"s": pa.array(_LONG_TEXTS), "t": pa.array(_LONG_TEXTS)}), ()),
}
_ONLY_2_2 = {"packed long strings", "packed strings", "packed strings with nulls", "packed vectors"}


def _encode(array: pa.Array, path: tuple[int, ...], version: str) -> EncodedPage:
    raveled = ravel(array, path)
    values = from_arrow(raveled.values)
    assert can_full_zip(values)
    return encode_full_zip(raveled, values, raveled.values.type, FieldOptions(), version)


@pytest.mark.peer
@pytest.mark.parametrize(
    ("name", "version"),
    [
        (name, version)
        for name in _COLUMNS
        for version in ("2.1", "2.2")
        if version == "2.2" or name not in _ONLY_2_2
    ],
)
def test_pages_are_read_by_us_and_by_the_peer(name: str, version: str, tmp_path: Path) -> None:
    array, path = _COLUMNS[name]
    metadata = _PACKED if pa.types.is_struct(array.type) else None
    field = pa.field("x", array.type, metadata=metadata)
    write_page_file(tmp_path / "x.lance", field, _encode(array, path, version), version)
    expected = array.to_pylist()

    reader = FileReader.open(open_store(str(tmp_path)), "x.lance")
    assert reader.read_table()["x"].to_pylist() == expected
    assert reader.take([0, len(array) - 1])["x"].to_pylist() == [
        expected[0],
        expected[-1],
    ]
    assert reader.read_table(start=1, stop=len(array))["x"].to_pylist() == expected[1:]

    peer = lance.file.LanceFileReader(str(tmp_path / "x.lance"))
    found = peer.read_all().to_table()["x"]
    assert found.to_pylist() == expected
    assert peer.take_rows([0, len(array) - 1]).to_table()["x"].to_pylist() == [expected[0], expected[-1]]


def test_values_of_one_width_without_levels_are_not_copied() -> None:
    data = np.arange(4096, dtype=np.float32)
    array = pa.FixedSizeListArray.from_arrays(pa.array(data), 1024)

    page = _encode(array, (), "2.2")

    assert len(page.buffers) == 1
    assert np.shares_memory(page.buffers[0], data)


def test_bytes_under_nulls_are_left_out() -> None:
    array = pa.array(["aaaa", None, "b"])
    page = _encode(array, (), "2.2")

    control_and_length = 3 + 2 * 4
    assert len(page.buffers[0]) == control_and_length + 5


def test_bools_that_end_within_a_byte_have_no_place() -> None:
    array = pa.array([[True, False, True]], pa.list_(pa.bool_(), 3))
    raveled = ravel(array, ())
    values = from_arrow(raveled.values)

    assert not can_full_zip(values)
    with pytest.raises(UnsupportedTypeError, match="whole bytes"):
        encode_full_zip(raveled, values, array.type, FieldOptions(), "2.2")
