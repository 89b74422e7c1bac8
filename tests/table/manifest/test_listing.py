"""Which versions there are."""

import json
import pickle
import time
import uuid
from dataclasses import replace

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptManifestError, DatasetNotFoundError, VersionNotFoundError
from lance_ops.storage import open_store
from lance_ops.table.manifest.listing import (
    HINT_PATH,
    ManifestLocation,
    NamingScheme,
    is_still_newest,
    iter_manifests,
    latest,
    list_versions,
    locate,
    manifest_path,
    newest_versions,
    write_hint,
)
from tests.support.faulty_store import FaultyStore


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


def put(store, scheme, *versions):
    for version in versions:
        store.put(manifest_path(version, scheme), b"x" * version)


@pytest.mark.parametrize("scheme", NamingScheme)
def test_versions_are_listed_oldest_first_with_their_sizes(store, scheme):
    put(store, scheme, 9, 10, 2, 100)
    store.put("_versions/notes.txt", b"")
    expected = [ManifestLocation(v, manifest_path(v, scheme), v, scheme) for v in (2, 9, 10, 100)]
    assert list_versions(store) == expected
    assert replace(latest(store), size=100) == expected[-1]


@pytest.mark.parametrize("limit", [None, 0, 1, 2, 3, 4, 9, -1])
@pytest.mark.parametrize("scheme", NamingScheme)
@pytest.mark.parametrize("lists_names", [True, False])
def test_newest_versions_are_the_end_of_all(store, scheme, limit, lists_names):
    put(store, scheme, 9, 10, 2, 100)
    for name in ("notes.txt", ".tmp", "d9223372036854775813.manifest", "1" * 29):
        store.put(f"_versions/{name}", b"")
    asked = store if lists_names else FaultyStore(store)
    found = [location.version for location in newest_versions(asked, limit)]
    assert found == [location.version for location in list_versions(store)][::-1][:limit]


def test_a_listing_of_the_newest_versions_stops_behind_them(store):
    put(store, NamingScheme.V2, *range(1, 60))
    names = []

    class Listed(FaultyStore):
        def list(self, prefix, *, start_after=None):
            for info in super().list(prefix, start_after=start_after):
                names.append(info.path)
                yield info

    assert [location.version for location in newest_versions(Listed(store), 5)] == [59, 58, 57, 56, 55]
    assert len(names) == 5


def test_detached_versions_belong_to_no_history_but_can_be_found(store):
    put(store, NamingScheme.V2, 1)
    store.put("_versions/d9223372036854775813.manifest", b"")
    assert [location.version for location in list_versions(store)] == [1]
    assert latest(store).version == 1
    assert sorted(location.version for location in iter_manifests(store)) == [1, 2**63 + 5]
    assert locate(store, 2**63 + 5).path == "_versions/d9223372036854775813.manifest"


@pytest.mark.parametrize("v1", [1, 2, 18, 19, 200])
def test_a_mixture_of_naming_schemes_is_an_error_wherever_the_names_sort(store, v1):
    put(store, NamingScheme.V2, 3, 4)
    put(store, NamingScheme.V1, v1)
    for look in (list_versions, latest):
        with pytest.raises(CorruptManifestError, match="both naming schemes"):
            look(store)


def test_no_manifest_is_no_dataset(store):
    assert list_versions(store) == []
    with pytest.raises(DatasetNotFoundError):
        latest(store)
    with pytest.raises(DatasetNotFoundError):
        locate(store, 1)


def test_a_missing_version_names_the_newest_one(store):
    put(store, NamingScheme.V1, 3)
    assert locate(store, 3).scheme is NamingScheme.V1
    with pytest.raises(VersionNotFoundError, match="newest version is 3"):
        locate(store, 2)


@pytest.mark.parametrize("hint", [b'{"version":2}', b'{"version":99}', b"garbage", b""])
def test_the_hint_is_never_believed(store, hint):
    put(store, NamingScheme.V2, 1, 2, 5)
    store.put(HINT_PATH, hint)
    assert latest(store).version == 5


@pytest.mark.parametrize(("versions", "first"), [(49, 1), (1200, 2)])
def test_names_of_the_old_scheme_are_sought_once_and_apart_only_where_a_page_does_not_show_them(
    versions, first
):
    store = open_store(f"memory://{uuid.uuid4()}")
    put(store, NamingScheme.V2, *range(1, versions + 1))
    counting = FaultyStore(store, count="any")
    assert latest(counting).version == versions
    assert [call.name for call in counting.calls] == ["list"] * first
    counting.reset()
    put(store, NamingScheme.V2, versions + 1)
    assert latest(counting).version == versions + 1
    assert [call.name for call in counting.calls] == ["list"]


def test_names_that_only_look_like_versions_are_passed_over(store):
    put(store, NamingScheme.V2, 7)
    for name in ("00000000000000000000.manifest", "0" * 29, "a" * 29, "00000000000000000001.manifesx"):
        store.put(f"_versions/{name}", b"")
    store.put("_versions/d9223372036854775813.manifest", b"")
    assert latest(store).version == 7
    # A store that is listed says the same.
    assert latest(FaultyStore(store)).path == latest(store).path


def test_a_version_is_still_the_newest_only_for_a_moment_and_without_a_successor(store, monkeypatch):
    put(store, NamingScheme.V2, 1, 2)
    newest = latest(store)
    assert is_still_newest(store, newest)
    assert not is_still_newest(store, pickle.loads(pickle.dumps(newest)))
    assert not is_still_newest(store, locate(store, 2))
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 11)
    assert not is_still_newest(store, newest)
    newest = latest(store)
    put(store, NamingScheme.V2, 3)
    assert not is_still_newest(store, newest)


@pytest.mark.parametrize("uri", ["s3://bucket/t", "s3://bucket--x-s3/t", "az://c/t", "/data/t", "sftp://h/t"])
def test_a_hint_is_written_where_somebody_needs_it(uri):
    class Recording:
        def __init__(self):
            self.uri = uri
            self.paths = []

        def put(self, path, data, **options):
            self.paths.append(path)

    store = Recording()
    write_hint(store, 3)
    assert bool(store.paths) is (uri not in ("s3://bucket/t", "az://c/t"))


def test_a_hint_that_cannot_be_written_does_no_harm(store):
    write_hint(FaultyStore(store, fail_at=1, mode="error"), 7)
    write_hint(store, 7)
    assert json.loads(bytes(store.read(HINT_PATH))) == {"version": 7}


@pytest.mark.peer
@pytest.mark.parametrize("left", [None, b'{"version":57}', b'{"vers'])
def test_a_first_version_is_found_without_a_hint_of_its_own(tmp_path, left):
    uri = str(tmp_path / "t.lance")
    store = open_store(uri)
    if left is not None:
        # Of a dataset that lay here before.
        store.put(HINT_PATH, left)
    lo.write_dataset(pa.table({"i": [0]}), uri)
    assert store.exists(HINT_PATH) == (left is not None)
    assert lance.dataset(uri).version == latest(store).version == 1
    lance.write_dataset(pa.table({"i": [1]}), uri, mode="append")
    lo.append(uri, pa.table({"i": [2]}))
    assert (
        lance.dataset(uri).to_table()["i"].to_pylist()
        == lo.dataset(uri).to_table()["i"].to_pylist()
        == [0, 1, 2]
    )
    assert json.loads(bytes(store.read(HINT_PATH))) == {"version": 3}


@pytest.mark.peer
def test_the_peer_finds_our_newest_version_with_any_hint(tmp_path):
    uri = str(tmp_path / "t.lance")
    for number in range(4):
        lance.write_dataset(pa.table({"i": [number]}), uri, mode="append" if number else "create")
    store = open_store(uri)
    store.put(HINT_PATH, b'{"version":1}')
    assert lance.dataset(uri).version == 4
    for hint in (2, 4, 9):
        write_hint(store, hint)
        assert lance.dataset(uri).version == 4
    for torn in (b'{"vers', b'{"version":94}', b""):
        store.put(HINT_PATH, torn)
        assert lance.dataset(uri).version == 4
    assert latest(store).version == 4
