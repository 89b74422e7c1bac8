"""Catch-up progress of the MemWAL index: no commit leaves an entry of an index that it changed."""

import shutil
import struct
import uuid
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.pb import mem_wal_pb2, table_pb2
from tests.support.wire import length_prefixed, manifest_position, manifests

pytestmark = pytest.mark.peer

KEY = pa.field("id", pa.int64(), False, metadata={"lance-schema:unenforced-primary-key": "true"})
SCHEMA = pa.schema([KEY, *(pa.field(name, pa.int64()) for name in "xyz")])


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({name: pa.array(range(start, stop), pa.int64()) for name in SCHEMA.names}, schema=SCHEMA)


def newest(uri: Path) -> tuple[Path, table_pb2.Manifest, table_pb2.IndexSection]:
    found = manifests(uri)
    path = max(found, key=lambda path: found[path].version)
    section = table_pb2.IndexSection.FromString(length_prefixed(path.read_bytes(), found[path].index_section))
    return path, found[path], section


def catchup(uri: Path) -> dict[str, int]:
    _, _, section = newest(uri)
    (entry,) = [index for index in section.indices if index.name == "__lance_mem_wal"]
    details = mem_wal_pb2.MemWalIndexDetails.FromString(entry.index_details.value)
    return {item.index_name: item.caught_up_generations[0].generation for item in details.index_catchup}


def add_catchup(uri: Path) -> None:
    """Both indices have the rows up to generation 3, of 5 that were merged."""
    path, manifest, section = newest(uri)
    data = path.read_bytes()
    for index in section.indices:
        if index.name == "__lance_mem_wal":
            details = mem_wal_pb2.MemWalIndexDetails.FromString(index.index_details.value)
            region = uuid.uuid4().bytes
            merged = details.merged_generations.add(generation=5)
            merged.region_id.uuid = region
            for name in ("x_idx", "y_idx"):
                one = details.index_catchup.add(index_name=name).caught_up_generations.add(generation=3)
                one.region_id.uuid = region
            index.index_details.value = details.SerializeToString()
    indices = section.SerializeToString()
    transaction = length_prefixed(data, manifest.inline_transaction_section)
    manifest.index_section, manifest.inline_transaction_section = 0, 4 + len(indices)
    head = struct.pack("<I", len(indices)) + indices + struct.pack("<I", len(transaction)) + transaction
    body = manifest.SerializeToString()
    path.write_bytes(head + struct.pack("<I", len(body)) + body + struct.pack("<q", len(head)) + data[-8:])
    assert manifest_position(path.read_bytes()) == len(head)


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    uri = tmp_path / "t.lance"
    lance.write_dataset(rows(0, 9), str(uri), enable_stable_row_ids=request.param)
    lance.write_dataset(rows(9, 18), str(uri), mode="append")
    for name in "xy":
        lance.dataset(str(uri)).create_scalar_index(name, "BTREE", name=f"{name}_idx")
    lance.dataset(str(uri)).initialize_mem_wal(unsharded=True, maintained_indexes=["x_idx", "y_idx"])
    add_catchup(uri)
    return uri


BOTH = {"x_idx": 3, "y_idx": 3}
OPERATIONS = {
    "drop index": (lambda uri: lo.drop_index(uri, "x_idx"), {"y_idx": 3}),
    "rebuild": (lambda uri: lo.create_index(uri, "x", replace=True), {"x_idx": 5, "y_idx": 3}),
    "another index": (lambda uri: lo.create_index(uri, "z"), BOTH),
    "compact": (lo.compact, {}),
    "drop its column": (lambda uri: lo.drop_columns(uri, ["x"]), {"y_idx": 3}),
    "drop another column": (lambda uri: lo.drop_columns(uri, ["z"]), BOTH),
    "append": (lambda uri: lo.append(uri, rows(18, 20)), BOTH),
    "append and refresh": (
        lambda uri: (lo.append(uri, rows(18, 20)), lo.optimize_indices(uri)),
        {"x_idx": 5, "y_idx": 5},
    ),
    "delete": (lambda uri: lo.delete(uri, "x < 12"), BOTH),
    "rename its column": (lambda uri: lo.alter_columns(uri, {"path": "x", "name": "x2"}), BOTH),
    "replace its column": (lambda uri: lo.replace_columns(uri, {"x": "x + 1"}), {"y_idx": 3}),
    "update": (lambda uri: lo.update(uri, {"z": "z + 1"}, "x < 3"), BOTH),
    "truncate": (lo.truncate, BOTH),
    "config": (lambda uri: lo.update_config(uri, {"a": "b"}), BOTH),
    "restore": (lambda uri: lo.restore(uri, lo.dataset(uri).version), BOTH),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_entry_goes_with_a_change_of_its_index_and_never_gets_ahead(uri: Path, name: str) -> None:
    operation, left = OPERATIONS[name]
    operation(uri)
    assert catchup(uri) == left
    # The peer goes on with the table, and derives the entries anew from what the indices cover.
    lance.dataset(str(uri)).update_config({"c": "d"})
    assert set(catchup(uri)) >= set(left)
    assert lance.dataset(str(uri)).count_rows() == lo.dataset(uri).count_rows()


@pytest.mark.parametrize(
    "operation",
    [
        (
            lambda uri: lance.dataset(str(uri)).create_scalar_index("x", "BTREE", name="x_idx", replace=True),
            lambda uri: lo.create_index(uri, "x", name="x_idx", replace=True),
        ),
        (
            lambda uri: (lo.append(uri, rows(18, 20)), lance.dataset(str(uri)).optimize.optimize_indices()),
            lambda uri: (lo.append(uri, rows(18, 20)), lo.optimize_indices(uri)),
        ),
        (lambda uri: lance.dataset(str(uri)).drop_index("x_idx"), lambda uri: lo.drop_index(uri, "x_idx")),
        (lambda uri: lance.dataset(str(uri)).optimize.compact_files(), lo.compact),
        (lambda uri: lance.dataset(str(uri)).drop_columns(["x"]), lambda uri: lo.drop_columns(uri, ["x"])),
        (
            lambda uri: lance.dataset(str(uri)).alter_columns({"path": "x", "name": "x2"}),
            lambda uri: lo.alter_columns(uri, {"path": "x", "name": "x2"}),
        ),
        (
            lambda uri: lance.dataset(str(uri)).update({"z": "z + 1"}, where="x < 3"),
            lambda uri: lo.update(uri, {"z": "z + 1"}, "x < 3"),
        ),
    ],
    ids=["rebuild", "append and refresh", "drop index", "compact", "drop column", "rename", "update"],
)
def test_what_is_left_is_what_the_peer_leaves(
    uri: Path, operation: tuple[Callable, Callable], tmp_path: Path
) -> None:
    copy = tmp_path / "copy.lance"
    shutil.copytree(uri, copy)
    operation[0](copy)
    operation[1](uri)
    # With each commit the peer also moves the entries of other indices on, as far as they cover.
    theirs, ours = catchup(copy), catchup(uri)
    assert set(theirs) == set(ours)
    assert all(ours[name] <= theirs[name] for name in ours)


def test_a_compaction_that_remaps_later_leaves_indices_of_addresses_as_they_were(uri: Path) -> None:
    stable = lo.dataset(uri).manifest.uses_stable_row_ids
    lo.compact(uri, defer_index_remap=True)
    # With stable row ids the indices take the new fragments into their coverage.
    assert set(catchup(uri)) == (set() if stable else set(BOTH))
