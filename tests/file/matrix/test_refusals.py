"""What a storage version cannot hold is refused before anything is written, and by the peer, too."""

from dataclasses import dataclass
from pathlib import Path

import lance.file
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError, UnsupportedTypeError
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter, check_writable
from lance_ops.storage import open_store
from tests.file.matrix.cells import VERSIONS, type_id
from tests.support.arrays import ONLY_2_2_TYPES, random_array
from tests.support.peer_panics import panics_as_errors

pytestmark = pytest.mark.peer

CANNOT_ENCODE = "Cannot encode dictionary type"
NOT_ENABLED = "not enabled|no field encoding|Packed struct|columns in the file|Unsupported data type"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A column that neither side writes.

    Attributes:
        array: Its values.
        versions: Storage versions that cannot hold it.
        theirs: What the peer says.
    """

    array: pa.Array
    versions: tuple[str, ...] = VERSIONS
    theirs: str = "Unsupported data type"


def no_values(data_type: pa.DataType) -> pa.Array:
    return pa.array([], data_type)


def dictionary(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int32()), values)


REFUSALS = [
    Refusal(no_values(pa.decimal32(5, 2))),
    Refusal(no_values(pa.decimal64(12, 2))),
    Refusal(no_values(pa.month_day_nano_interval())),
    Refusal(pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array([5, 6]))),
    Refusal(
        pa.UnionArray.from_dense(
            pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1, 2], pa.int8())]
        )
    ),
    Refusal(dictionary(pa.array([1], pa.timestamp("us"))), theirs=CANNOT_ENCODE),
    Refusal(dictionary(pa.array([1], pa.duration("s"))), theirs=CANNOT_ENCODE),
    Refusal(dictionary(pa.array([b"abc"], pa.binary(3))), theirs=CANNOT_ENCODE),
    Refusal(dictionary(pa.array([[1]])), theirs=CANNOT_ENCODE),
    *(Refusal(random_array(one, 5), ("2.0", "2.1"), NOT_ENABLED) for one in ONLY_2_2_TYPES),
    Refusal(pa.array([["a", "b"]], pa.list_(pa.string(), 2)), theirs="compute_stat|internal error"),
    Refusal(pa.array([[[1], [2]]], pa.list_(pa.list_(pa.int8()), 2))),
    Refusal(pa.array([b""], pa.binary(0)), ("2.0", "2.1"), "align_offset|positive bit width"),
    Refusal(pa.array([[], []], pa.list_(pa.int32(), 0)), theirs="dimension 0"),
]
CELLS = [(refusal, version) for refusal in REFUSALS for version in refusal.versions]

NULL_STRUCTS = [
    pa.array([{"a": 1}, None], pa.struct([("a", pa.int8())])),
    pa.array([[{"a": 1}, None]], pa.list_(pa.struct([("a", pa.int8())]))),
]


def write_peer(table: pa.Table, version: str, path: Path) -> None:
    """Write and read, because some refusals come with the second."""
    with panics_as_errors():
        with lance.file.LanceFileWriter(str(path), table.schema, version=version) as writer:
            writer.write_batch(table)
        lance.file.LanceFileReader(str(path)).read_all().to_table()


@pytest.mark.parametrize(
    ("refusal", "version"), CELLS, ids=[f"{type_id(one.array.type)}-{version}" for one, version in CELLS]
)
def test_both_refuse(refusal: Refusal, version: str, tmp_path: Path) -> None:
    table = pa.table({"c": refusal.array})
    with pytest.raises(UnsupportedTypeError, match=r"'c|field: c"):
        check_writable(table.schema, version)
    with pytest.raises(LanceOpsError, match=r"'c|field: c"):
        lo.write_dataset(table, str(tmp_path / "ours"), data_storage_version=version)
    assert not list(tmp_path.rglob("*.lance"))
    with pytest.raises(Exception, match=refusal.theirs):
        write_peer(table, version, tmp_path / "theirs.lance")


@pytest.mark.parametrize("array", NULL_STRUCTS, ids=["struct", "list"])
def test_null_structs_do_not_fit_into_2_0(array: pa.Array, tmp_path: Path) -> None:
    table = pa.table({"c": array})
    with pytest.raises(ValueError, match="null"):
        write_peer(table, "2.0", tmp_path / "peer.lance")
    store = open_store(str(tmp_path))
    writer = FileWriter(store, "ours.lance", Schema.from_arrow(table.schema), version="2.0")
    with pytest.raises(UnsupportedTypeError, match="null structs"), writer:
        writer.write(table)
    assert not store.exists("ours.lance")
