"""Every Arrow type: stored as the peer stores it, or refused as the peer refuses it, but for a few."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError

pytestmark = pytest.mark.peer

_D = Decimal
_DAYS = [dt.date(2020, 1, 1), None, dt.date(2021, 1, 1)]


class _Pairs(pa.ExtensionType):
    """A type of somebody else's, over a struct."""

    def __init__(self) -> None:
        super().__init__(pa.struct([("x", pa.int32()), ("y", pa.string())]), "lance_ops_tests.pairs")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"parameters"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> "_Pairs":
        return cls()


def _numbers(data_type: pa.DataType, storage: pa.DataType | None = None) -> pa.Array:
    return pa.array([1, None, 3], storage or pa.int64()).cast(data_type)


def _coded(values: list, data_type: pa.DataType) -> pa.Array:
    return pa.array(values, data_type).dictionary_encode()


def _codes(entries: pa.Array, codes: list | None = None, **options) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes or [0, 1, 0], pa.int8()), entries, **options)


def _flat_arrays() -> dict[str, pa.Array]:
    arrays = {
        "null": pa.nulls(3),
        "date32": pa.array(_DAYS, pa.date32()),
        "date64": pa.array(_DAYS, pa.date64()),
        "time32": _numbers(pa.time32("ms"), pa.int32()),
        "time64": _numbers(pa.time64("ns")),
        "interval": pa.array([(1, 2, 3), None, (4, 5, 6)], pa.month_day_nano_interval()),
        "decimal32": pa.array([_D("1.5"), None, _D(2)], pa.decimal32(5, 2)),
        "decimal64": pa.array([_D("1.5"), None, _D(2)], pa.decimal64(12, 2)),
        "decimal128": pa.array([_D("1.5"), None, _D(2)], pa.decimal128(30, 2)),
        "decimal256": pa.array([_D("1.5"), None, _D(2)], pa.decimal256(60, 2)),
        "decimal of hundreds": pa.array([_D(100), None, _D(200)], pa.decimal128(5, -2)),
        "no bytes": pa.array([b"", None, b""], pa.binary(0)),
        "three bytes": pa.array([b"abc", None, b"def"], pa.binary(3)),
        "string view": pa.array(["a", None, "too long to lie within the view"], pa.string_view()),
        "binary view": pa.array([b"a", None, b"x" * 40], pa.binary_view()),
        "list view": pa.array([[1, 2], None, []], pa.list_view(pa.int32())),
        "large list view": pa.array([[1, 2], None, []], pa.large_list_view(pa.int32())),
        "run-end encoded": pa.RunEndEncodedArray.from_arrays(
            pa.array([2, 3], pa.int32()), pa.array(["a", "b"])
        ),
        "dense union": pa.UnionArray.from_dense(
            pa.array([0, 1, 0], pa.int8()),
            pa.array([0, 0, 1], pa.int32()),
            [pa.array([1, 2]), pa.array(["a"])],
        ),
        "sparse union": pa.UnionArray.from_sparse(
            pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]
        ),
    }
    for unit in ("s", "ms", "us", "ns"):
        arrays[f"duration {unit}"] = _numbers(pa.duration(unit))
        arrays[f"timestamp {unit}"] = _numbers(pa.timestamp(unit))
        arrays[f"timestamp {unit} with a zone"] = _numbers(pa.timestamp(unit, "+05:30"))
    for data_type in (pa.int8(), pa.uint64(), pa.float16(), pa.float64()):
        arrays[str(data_type)] = _numbers(data_type)
    return arrays


def _dictionaries() -> dict[str, pa.Array]:
    arrays = {
        f"dictionary by {index}": pa.array(["a", None, "b"])
        .dictionary_encode()
        .cast(pa.dictionary(index, pa.string()))
        for index in (pa.int8(), pa.uint8(), pa.int16(), pa.int64(), pa.uint64())
    }
    for data_type, values in (
        (pa.int32(), [1, None, 2]),
        (pa.float64(), [1.5, None, 2.5]),
        (pa.bool_(), [True, None, False]),
        (pa.binary(), [b"a", None, b"b"]),
        (pa.large_string(), ["a", None, "b"]),
        (pa.binary(2), [b"ab", None, b"cd"]),
        (pa.date32(), _DAYS),
        (pa.timestamp("us"), [1, None, 2]),
        (pa.decimal128(5, 2), [_D(1), None, _D(2)]),
    ):
        arrays[f"dictionary of {data_type}"] = _coded(values, data_type)
    return arrays | {
        "ordered dictionary": _codes(pa.array(["a", "b"]), ordered=True),
        "dictionary of lists": _codes(pa.array([[1], [2]])),
        "dictionary of structs": _codes(pa.array([{"a": 1}, {"a": 2}])),
        "dictionary with a null entry": _codes(pa.array(["a", None]), [0, 1, None]),
    }


def _nested() -> dict[str, pa.Array]:
    pairs = pa.struct([("x", pa.int32())])
    return {
        "list of views": pa.array([["a"], None, []], pa.list_(pa.string_view())),
        "struct of views": pa.array([{"a": "x"}, {"a": None}], pa.struct([("a", pa.string_view())])),
        "list of dictionaries": pa.ListArray.from_arrays(
            [0, 1, 2, 3], pa.array(["a", "b", "a"]).dictionary_encode()
        ),
        "list of nulls": pa.array([[None], None, []], pa.list_(pa.null())),
        "struct of nulls": pa.array([{"a": None}, {"a": None}], pa.struct([("a", pa.null())])),
        "fixed-size list of nulls": pa.array([[None] * 2, None, [None] * 2], pa.list_(pa.null(), 2)),
        "fixed-size list of strings": pa.array([["a", "b"], None], pa.list_(pa.string(), 2)),
        "fixed-size list of lists": pa.array([[[1], [2]], None], pa.list_(pa.list_(pa.int32()), 2)),
        "fixed-size list of nothing": pa.array([[], None], pa.list_(pa.int32(), 0)),
        "fixed-size list of decimals": pa.array([[_D(1), None], None], pa.list_(pa.decimal128(5, 2), 2)),
        "fixed-size list of structs": pa.array([[{"x": 1}, {"x": 2}], None], pa.list_(pairs, 2)),
        "list of fixed-size lists": pa.array([[[True, False]], None, []], pa.list_(pa.list_(pa.bool_(), 2))),
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "map with sorted keys": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32(), keys_sorted=True)),
        "list of maps": pa.array([[[("a", 1)]], None, []], pa.list_(pa.map_(pa.string(), pa.int32()))),
        "map of structs": pa.array([[("a", {"x": 1})], None, []], pa.map_(pa.string(), pairs)),
        "map of maps": pa.array(
            [[("a", [("b", 1)])], None, []], pa.map_(pa.string(), pa.map_(pa.string(), pa.int32()))
        ),
        "empty struct": pa.array([{}, {}], pa.struct([])),
        "empty struct with nulls": pa.array([{}, None], pa.struct([])),
        "null struct": pa.array([{"x": 1}, None], pairs),
    }


def _extensions() -> dict[str, pa.Array]:
    bools = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8()))
    vectors = pa.array([[1, 2, 3, 4], None], pa.list_(pa.float32(), 4))
    pairs = pa.array([{"x": 1, "y": "a"}, {"x": None, "y": None}], _Pairs().storage_type)
    return {
        "uuid": pa.array([bytes(16), None], pa.binary(16)).cast(pa.uuid()),
        "tensor": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [2, 2]), vectors),
        "bool8": bools,
        "opaque": pa.ExtensionArray.from_storage(pa.opaque(pa.binary(), "t", "v"), pa.array([b"a", None])),
        "list of bool8": pa.ListArray.from_arrays([0, 1, 2, 3], bools),
        "extension over a struct": pa.ExtensionArray.from_storage(_Pairs(), pairs),
        "json": pa.array(['{"a":1}', None], pa.json_()),
    }


_ARRAYS = _flat_arrays() | _dictionaries() | _nested() | _extensions()

# What the peer writes, but cannot read.
_LOST_BY_THE_PEER = {("2.0", "no bytes"), ("2.1", "no bytes"), ("2.0", "fixed-size list of structs")}
# What the peer holds and we only read: values of no bytes are nothing but their validity.
_WE_REFUSE_MORE = _LOST_BY_THE_PEER | {("2.2", "no bytes")}
# The peer turns only top-level views into plain strings.
_WE_HOLD_MORE = {
    ("2.0", "list of views"),
    ("2.0", "struct of views"),
    *((version, name) for version in ("2.0", "2.1", "2.2") for name in ("list view", "large list view")),
}


@pytest.fixture(autouse=True)
def _registered() -> object:
    pa.register_extension_type(_Pairs())
    yield
    pa.unregister_extension_type("lance_ops_tests.pairs")


def _peer_writes(rows: pa.Table, uri: Path, version: str) -> bool:
    try:
        lance.write_dataset(rows, str(uri), data_storage_version=version)
    except BaseException:  # noqa: BLE001 - some types make the peer panic, which is no Exception
        return False
    return True


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("name", _ARRAYS)
def test_types_are_stored_or_refused_as_by_the_peer(name: str, version: str, tmp_path: Path) -> None:
    rows = pa.table({"x": _ARRAYS[name]})
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    peer_holds = _peer_writes(rows, theirs, version)
    try:
        lo.write_dataset(rows, ours, data_storage_version=version)
        we_hold = True
    except LanceOpsError:
        we_hold = False
        assert not list(tmp_path.glob("ours/data/*"))

    if (version, name) in _WE_REFUSE_MORE:
        assert peer_holds
        assert not we_hold
    elif (version, name) in _WE_HOLD_MORE:
        assert we_hold
        assert not peer_holds
    else:
        assert we_hold == peer_holds
    if (version, name) in _LOST_BY_THE_PEER:
        return
    for uri in [uri for uri, holds in ((ours, we_hold), (theirs, peer_holds)) if holds]:
        expected = lance.dataset(str(uri)).to_table()
        found = lo.dataset(uri).to_table()
        assert found.schema == expected.schema
        assert found["x"].to_pylist() == expected["x"].to_pylist() == rows["x"].to_pylist()
