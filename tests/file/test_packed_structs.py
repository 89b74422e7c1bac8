"""Packed structs: written and read by both sides, whole and by their members."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import SchemaMismatchError, UnsupportedTypeError

pytestmark = pytest.mark.peer

_MEMBERS = {
    "i": pa.array([1, 2, 3], pa.int32()),
    "f": pa.array([0.5, 1.5, 2.5]),
    "b": pa.array([b"abc", b"def", b"ghi"], pa.binary(3)),
    "u": pa.array([bytes([n] * 16) for n in range(3)], pa.binary(16)).cast(pa.uuid()),
    "s": pa.array(["", "two", "three"]),
    "l": pa.array(["", "two", "three"], pa.large_string()),
    "v": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16(), 2)),
    "j": pa.array(['{"a":1}', "[]", "null"], pa.json_()),
}
_CASES = [("2.0", "ifb"), ("2.0", "iu"), ("2.0", "iv"), ("2.1", "ifb"), ("2.1", "ui")]
_CASES += [("2.2", names) for names in ("ifb", "ui", "is", "sli", "iv", "ivs", "us", "ij", "jsu")]


def _rows(names: str, null: list[bool] | None = None) -> pa.Table:
    mask = None if null is None else pa.array(null)
    structs = pa.StructArray.from_arrays([_MEMBERS[name] for name in names], names=list(names), mask=mask)
    field = pa.field("x", structs.type, metadata={"lance-encoding:packed": "true"})
    return pa.table([structs], schema=pa.schema([field]))


@pytest.mark.parametrize(
    ("version", "names", "null"),
    [(*case, None) for case in _CASES]
    # 2.0 has no null structs.
    + [(*case, [False, True, False]) for case in _CASES if case[0] != "2.0"],
)
def test_members_lie_and_are_read_together(
    version: str, names: str, null: list[bool] | None, tmp_path: Path
) -> None:
    rows = _rows(names, null)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    lo.write_dataset(rows, ours, data_storage_version=version)
    lance.write_dataset(rows, str(theirs), data_storage_version=version)

    for uri in (ours, theirs):
        dataset = lo.dataset(uri)
        assert dataset.to_table().to_pylist() == rows.to_pylist()
        assert lance.dataset(str(uri)).to_table().to_pylist() == rows.to_pylist()
        assert lance.dataset(str(uri)).take([2]).to_pylist() == rows.to_pylist()[2:]
        for name in names:
            found = dataset.to_table(columns=[f"x.{name}"])[f"x.{name}"].to_pylist()
            assert found == [row["x"] and row["x"][name] for row in rows.to_pylist()]
    if "i" in names:
        assert lo.dataset(ours).to_table(filter="x.i = 3").to_pylist() == rows.to_pylist()[2:]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_null_members_are_refused_as_by_the_peer(version: str, tmp_path: Path) -> None:
    data_type = pa.struct([("a", pa.int32()), ("b", pa.int64())])
    structs = pa.array([{"a": 1, "b": 2}, {"a": None, "b": 3}], data_type)
    field = pa.field("x", structs.type, metadata={"lance-encoding:packed": "true"})
    rows = pa.table([structs], schema=pa.schema([field]))
    with pytest.raises(OSError, match="Not supported"):
        lance.write_dataset(rows, str(tmp_path / "theirs"), data_storage_version=version)
    with pytest.raises(UnsupportedTypeError, match="nulls"):
        lo.write_dataset(rows, tmp_path / "ours", data_storage_version=version)


def test_a_member_that_is_no_json_is_named(tmp_path: Path) -> None:
    members = [_MEMBERS["i"], pa.array(["1", "{", "2"], pa.json_())]
    structs = pa.StructArray.from_arrays(members, names=["i", "j"])
    field = pa.field("x", structs.type, metadata={"lance-encoding:packed": "true"})
    with pytest.raises(SchemaMismatchError, match=r"x\.j"):
        lo.write_dataset(pa.table([structs], schema=pa.schema([field])), tmp_path, data_storage_version="2.2")


_NEWER, _LEGACY = "lance-encoding:packed", "packed"
_NOT_READ_IN_2_0 = [{_NEWER: "false"}, {_NEWER: ""}, {_NEWER: "true", _LEGACY: "false"}]
_SPELT = [
    *({key: value} for key in (_NEWER, _LEGACY) for value in ("true", "True", "false", "")),
    *({_NEWER: newer, _LEGACY: legacy} for newer, legacy in (("false", "true"), ("true", "false"))),
]


def _spelt_rows(options: dict[str, str]) -> pa.Table:
    structs = pa.StructArray.from_arrays([_MEMBERS["i"], _MEMBERS["f"]], names=["i", "f"])
    return pa.table([structs], schema=pa.schema([pa.field("x", structs.type, metadata=options)]))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("options", _SPELT, ids=str)
def test_all_understand_the_option_alike(options: dict[str, str], version: str, tmp_path: Path) -> None:
    rows = _spelt_rows(options)
    lance.write_dataset(rows, str(tmp_path / "theirs"), data_storage_version=version)
    assert lo.dataset(tmp_path / "theirs").to_table() == rows
    if version == "2.0" and options in _NOT_READ_IN_2_0:
        with pytest.raises((ValueError, OSError)):
            lance.dataset(str(tmp_path / "theirs")).to_table()
        with pytest.raises(UnsupportedTypeError, match="use 'true', or omit it"):
            lo.write_dataset(rows, tmp_path / "ours", data_storage_version=version)
        return
    lo.write_dataset(rows, tmp_path / "ours", data_storage_version=version)
    assert lance.dataset(str(tmp_path / "ours")).to_table() == rows
    assert lo.dataset(tmp_path / "ours").to_table() == rows


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("item", [pa.int32(), pa.struct([("i", pa.int32()), ("f", pa.float64())])], ids=str)
def test_lists_are_not_packed(item: pa.DataType, version: str, tmp_path: Path) -> None:
    lists = pa.array([[], None], pa.list_(item))
    rows = pa.table([lists], schema=pa.schema([pa.field("x", lists.type, metadata={_NEWER: "true"})]))
    with pytest.raises(UnsupportedTypeError, match="only structs can be packed"):
        lo.write_dataset(rows, tmp_path / "ours", data_storage_version=version)
    # The peer writes them, and then reads nothing but nulls, or nothing at all.
    lance.write_dataset(rows, str(tmp_path / "theirs"), data_storage_version=version)
    assert lo.dataset(tmp_path / "theirs").to_table() == rows


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("key", [_NEWER, _LEGACY])
@pytest.mark.parametrize("value", ["1", "yes", "Y", "on"])
def test_what_the_peer_writes_and_dies_of_is_read_but_not_written(
    value: str, key: str, version: str, tmp_path: Path
) -> None:
    rows = _spelt_rows({key: value})
    lance.write_dataset(rows, str(tmp_path / "theirs"), data_storage_version=version)
    assert lo.dataset(tmp_path / "theirs").to_table() == rows
    with pytest.raises(UnsupportedTypeError, match="use 'true', or omit it"):
        lo.write_dataset(rows, tmp_path / "ours", data_storage_version=version)
