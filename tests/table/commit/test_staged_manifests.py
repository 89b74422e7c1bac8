"""Staged manifests: a version that an external manifest store may have committed is not built upon."""

import datetime as dt
import uuid

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnsupportedError
from lance_ops.storage import open_store
from lance_ops.table.manifest.listing import NamingScheme, manifest_name, staged_version
from tests.support.faulty_store import FaultyStore

OPERATIONS = {
    "append": lambda uri: lo.append(uri, pa.table({"id": [9]})),
    "overwrite": lambda uri: lo.write_dataset(pa.table({"id": [9]}), uri, mode="overwrite"),
    "delete": lambda uri: lo.delete(uri, "id = 0"),
    "update": lambda uri: lo.update(uri, {"id": "id + 1"}),
    "merge": lambda uri: lo.merge_insert(uri, pa.table({"id": [9]}), on="id", when_not_matched="insert_all"),
    "compact": lambda uri: lo.compact(uri),
    "index": lambda uri: lo.create_index(uri, "id"),
    "add columns": lambda uri: lo.add_columns(uri, {"x": "id"}),
    "config": lambda uri: lo.update_config(uri, {"a": "b"}),
    "restore": lambda uri: lo.restore(uri, 1),
    "cleanup": lambda uri: lo.cleanup(
        uri, retain_versions=1, older_than=dt.timedelta(0), delete_unverified=True
    ),
}


def _staged(uri, version, scheme=NamingScheme.V2):
    name = f"{manifest_name(version, scheme)}-{uuid.uuid4()}"
    open_store(uri).put(f"_versions/{name}", b"a manifest")
    return name


@pytest.fixture(params=["disk", "memory"])
def table(request, tmp_path):
    uri = str(tmp_path / "t.lance") if request.param == "disk" else f"memory://{uuid.uuid4()}"
    for at in range(3):
        lo.append(uri, pa.table({"id": [at]}))
    return uri


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_is_written_beside_a_staged_manifest_of_a_later_version(table, operation):
    name = _staged(table, 4)
    before = sorted(info.path for info in open_store(table).list(""))
    with pytest.raises(UnsupportedError, match="version 4 is staged") as caught:
        OPERATIONS[operation](table)
    assert caught.value.path.endswith(f"_versions/{name}")
    assert "s3+ddb://" in caught.value.hint
    left = sorted(info.path for info in open_store(table).list("") if "_lance_ops" not in info.path)
    assert left == before
    assert lo.dataset(table).to_table()["id"].to_pylist() == [0, 1, 2]


def test_fsck_names_it_and_all_goes_on_without_it(table):
    assert lo.fsck(table).findings == ()
    name = _staged(table, 7)
    (finding,) = lo.fsck(table).findings
    assert finding.path.endswith(name)
    assert "version 7 is staged" in finding.message
    assert lo.dataset(table).count_rows("id > 0") == 2
    with pytest.raises(UnsupportedError):
        lo.append(table, pa.table({"id": [9]}))
    open_store(table).delete(f"_versions/{name}")
    lo.append(table, pa.table({"id": [9]}))
    assert lo.fsck(table).findings == ()


def test_what_is_left_of_versions_that_were_committed_stands_in_no_ones_way(table):
    for version in (1, 3):
        _staged(table, version)
    open_store(table).put("_versions/notes-x", b"")
    lo.append(table, pa.table({"id": [9]}))
    assert lo.fsck(table).findings == ()


def test_old_names_are_looked_at_as_well_and_no_request_is_added():
    assert staged_version("12.manifest-ab") == 12
    assert staged_version(f"{manifest_name(12, NamingScheme.V2)}-ab") == 12
    assert staged_version("12.manifest") is None
    assert staged_version(".tmp_12.manifest-ab") is None
    uri = f"memory://{uuid.uuid4()}"
    lo.append(uri, pa.table({"id": [0]}))
    lo.append(uri, pa.table({"id": [1]}))
    store = FaultyStore(open_store(uri), count="any")
    lo.dataset(store)
    _staged(uri, 3)
    store.reset()
    assert lo.dataset(store).location.staged.startswith(manifest_name(3, NamingScheme.V2))
    assert [call.name for call in store.calls] == ["list", "read"]
