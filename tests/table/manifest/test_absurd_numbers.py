"""Numbers that no file bears out: every way into a table ends in rows or in an error of ours."""

import uuid
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptFileError, CorruptManifestError, LanceOpsError
from lance_ops.maintenance.health.measure import measure_health
from lance_ops.pb import table_pb2
from lance_ops.storage import open_store
from lance_ops.table.history.history import read_history, read_versions
from lance_ops.table.manifest.file.read import read_latest
from lance_ops.table.manifest.file.sections import FOOTER, LENGTH

NUMBERS = [(1 << 32) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]

CHANGES: dict[str, Callable[[table_pb2.Manifest, int], None]] = {
    "physical rows": lambda manifest, number: setattr(manifest.fragments[0], "physical_rows", number),
    "physical rows of the last": lambda manifest, number: setattr(
        manifest.fragments[-1], "physical_rows", number
    ),
    "deleted rows": lambda manifest, number: setattr(
        manifest.fragments[0].deletion_file, "num_deleted_rows", number
    ),
    "next row id": lambda manifest, number: setattr(manifest, "next_row_id", number),
    "fragment id": lambda manifest, number: setattr(manifest.fragments[-1], "id", number),
    "file size": lambda manifest, number: setattr(manifest.fragments[0].files[0], "file_size_bytes", number),
    "read version of a deletion": lambda manifest, number: setattr(
        manifest.fragments[0].deletion_file, "read_version", number
    ),
}


def ways(uri: str) -> dict[str, Callable[[], object]]:
    def of(read: Callable[[lo.Dataset], object]) -> Callable[[], object]:
        return lambda: read(lo.dataset(uri))

    return {
        "take": of(lambda ds: ds.take([0])),
        "take the last": of(lambda ds: ds.take([27, 3])),
        "take by id": of(lambda ds: ds.take([5], by="id")),
        "take by address": of(lambda ds: ds.take([1 << 32], by="address")),
        "count": of(lambda ds: ds.count_rows()),
        "count some": of(lambda ds: ds.count_rows("x > 4")),
        "table": of(lambda ds: ds.to_table()),
        "part": of(lambda ds: ds.to_table(limit=3, offset=11)),
        "row columns": of(
            lambda ds: ds.to_table(["x", "_rowoffset"], with_row_id=True, with_row_address=True)
        ),
        "look-up": of(lambda ds: ds.to_table(filter="x = 12")),
        "batches": of(lambda ds: list(ds.to_batches(batch_size=7))),
        "health": of(measure_health),
        "history": lambda: read_history(open_store(uri)),
        "versions": lambda: read_versions(open_store(uri)),
        "fsck": lambda: lo.fsck(uri, deep=True),
        "cleanup": lambda: lo.cleanup(uri, retain_versions=1, dry_run=True),
        "delete": lambda: lo.delete(uri, "x = 6"),
        "compact": lambda: lo.compact(uri),
        "append": lambda: lo.append(uri, pa.table({"x": [1]})),
        "optimize": lambda: lo.optimize_indices(uri),
    }


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable ids"])
def start(request) -> dict[str, bytes]:
    uri = f"memory://{uuid.uuid4()}"
    lo.write_dataset(
        pa.table({"x": range(30)}), uri, max_rows_per_file=10, enable_stable_row_ids=request.param
    )
    lo.create_index(uri, "x", "BTREE")
    lo.delete(uri, "x = 3 or x = 17")
    store = open_store(uri)
    return {info.path: bytes(store.read(info.path)) for info in store.list("")}


def put(start: dict[str, bytes], change: Callable[[table_pb2.Manifest], None]) -> str:
    uri = f"memory://{uuid.uuid4()}"
    store = open_store(uri)
    for path, data in start.items():
        store.put(path, data)
    location, _ = read_latest(store)
    data = start[location.path]
    position = FOOTER.unpack(data[-FOOTER.size :])[0]
    begin = position + LENGTH.size
    manifest = table_pb2.Manifest.FromString(data[begin : begin + LENGTH.unpack_from(data, position)[0]])
    change(manifest)
    body = manifest.SerializeToString()
    store.put(location.path, data[:position] + LENGTH.pack(len(body)) + body + data[-FOOTER.size :])
    return uri


@pytest.mark.filterwarnings("ignore::lance_ops.errors.UnreadableIndexWarning")
@pytest.mark.parametrize("what", CHANGES)
def test_every_way_ends_in_rows_or_in_an_error_of_ours(start, what):
    for number in NUMBERS:
        for way in ways(""):
            uri = put(start, lambda manifest, number=number: CHANGES[what](manifest, number))
            with suppress(LanceOpsError):
                ways(uri)[way]()


@pytest.mark.parametrize("number", [1 << 63, (1 << 64) - 1])
def test_a_file_size_that_no_file_can_have_is_damage_on_disk_and_fsck_names_it(start, number, tmp_path):
    """Files are read by calls of the system there, which take 63 bits."""
    made = open_store(put(start, lambda manifest: CHANGES["file size"](manifest, number)))
    for info in made.list(""):
        open_store(tmp_path).put(info.path, bytes(made.read(info.path)))
    uri = str(tmp_path)
    for name, way in ways(uri).items():
        with suppress(LanceOpsError):
            way()
        assert name != "fsck" or not lo.fsck(uri, deep=True).ok
    (name,) = {file.path for file in lo.dataset(uri).fragments[0].files if file.size_bytes == number}
    found = [item for item in lo.fsck(uri, deep=True).findings if name in str(item.path)]
    assert found
    with pytest.raises(CorruptFileError, match="truncated"):
        lo.dataset(uri).to_table()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("what", ["physical rows", "physical rows of the last"])
def test_more_rows_than_a_fragment_can_have_are_damage(start, number, what):
    uri = put(start, lambda manifest: CHANGES[what](manifest, number))
    with pytest.raises(CorruptManifestError, match="rows") as caught:
        lo.dataset(uri).take([0])
    assert caught.value.field == "fragments"
    assert "_versions/" in str(caught.value.path)


def test_ids_that_run_out_are_said_so(start):
    uri = put(start, lambda manifest: setattr(manifest, "next_row_id", (1 << 64) - 1))
    if lo.dataset(uri).manifest.uses_stable_row_ids:
        with pytest.raises(CorruptManifestError, match="row ids"):
            lo.append(uri, pa.table({"x": [1, 2]}))
