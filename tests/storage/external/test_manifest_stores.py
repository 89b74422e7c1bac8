"""Every external manifest store keeps the same promises, and a dataset on it those of a committer."""

import uuid

import pytest

from lance_ops.errors import UnsupportedError
from lance_ops.storage import open_store
from lance_ops.storage.external import ExternalStore, MemoryManifestStore
from lance_ops.storage.external.opening import open_manifests, with_manifests
from lance_ops.storage.options import separate_manifest_store
from lance_ops.table.commit.committer import committer_for
from lance_ops.testing import CommitterConformance, ManifestStoreConformance
from tests.support.faulty_store import FaultyStore


class TestManifestStores(ManifestStoreConformance):
    @pytest.fixture
    def manifests(self, manifest_options):
        address, _ = separate_manifest_store(manifest_options)
        return open_manifests(address, manifest_options)


class TestCommitters(CommitterConformance):
    """On a store without put-if-absent of its own."""

    @pytest.fixture
    def store(self, manifest_options):
        address, _ = separate_manifest_store(manifest_options)
        inner = FaultyStore(open_store(f"memory://{uuid.uuid4().hex}"), conditional_put=False)
        return with_manifests(inner, open_manifests(address, manifest_options))

    @pytest.fixture
    def committer(self, store):
        return committer_for(store)


class TestCommittersOnFiles(CommitterConformance):
    @pytest.fixture
    def store(self, tmp_path):
        options = {"manifest_store": f"sqlite:///{tmp_path / 'manifests.db'}", "fsync": "false"}
        return open_store(tmp_path / "t.lance", options)

    @pytest.fixture
    def committer(self, store):
        return committer_for(store)


class Replacing(MemoryManifestStore):
    """A database without a primary key."""

    def put_if_not_exists(self, base_uri, entry):
        self._rows[base_uri, entry.version] = entry

    @property
    def server(self):
        return uuid.uuid4().hex


class Upserting(Replacing):
    def put_if_not_exists(self, base_uri, entry):
        MemoryManifestStore.put_if_not_exists(self, base_uri, entry)

    def put_if_exists(self, base_uri, entry):
        self._rows[base_uri, entry.version] = entry
        return True


class Lagging(Upserting):
    """A replica that does not have the rows yet."""

    put_if_exists = MemoryManifestStore.put_if_exists

    def get(self, base_uri, version):
        return None


@pytest.mark.parametrize("kind", [Replacing, Upserting, Lagging])
def test_a_database_that_does_not_create_only_is_refused_before_the_first_commit(kind):
    name = uuid.uuid4().hex
    store = ExternalStore(open_store(f"memory://{name}"), kind(name), f"memory://{name}")
    with pytest.raises(UnsupportedError, match="does not decide races"):
        store.require_create_only()
    with pytest.raises(UnsupportedError, match="does not decide races"):
        committer_for(store)
    assert list(store.inner.list("")) == []
    assert store.manifests._rows == {}
