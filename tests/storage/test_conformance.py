"""Every store keeps the same promises."""

import gc
import uuid

import pytest

from lance_ops.storage import open_store
from lance_ops.storage.fsspec_store import FsspecStore
from lance_ops.storage.object_store import ObjectStore
from tests.storage.conformance import StoreConformance
from tests.support.fake_s3 import FakeS3
from tests.support.faulty_store import FaultyStore


@pytest.fixture(scope="session")
def s3():
    with FakeS3() as server:
        yield server


class TestLocal(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path):
        return open_store(tmp_path / "not made yet" / "root", {"fsync": "false"})


class TestLocalWithoutMaps(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path):
        return open_store(f"file://{tmp_path}", {"memory_map": "false"})


class TestMemory(StoreConformance):
    @pytest.fixture
    def store(self):
        return open_store(f"memory://{uuid.uuid4().hex}/root")


class TestObjectStoreOnS3(StoreConformance):
    @pytest.fixture
    def store(self, s3):
        yield open_store(f"s3://bucket-{uuid.uuid4().hex}/some%20prefix/root", s3.options)
        assert s3.uploads == {}


class TestS3WholeBucket(StoreConformance):
    @pytest.fixture
    def store(self, s3):
        return open_store(f"s3://bucket-{uuid.uuid4().hex}", s3.options)


class TestFsspecOnLocalFiles(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path):
        return FsspecStore(f"file://{tmp_path}/root")


class TestFsspecOnMemory(StoreConformance):
    @pytest.fixture
    def store(self):
        return FsspecStore(f"memory://{uuid.uuid4().hex}/root")


class TestFsspecOnS3(StoreConformance):
    @pytest.fixture
    def store(self, s3):
        yield FsspecStore(f"s3://bucket-{uuid.uuid4().hex}/some%20prefix/root", s3.options)
        gc.collect()


class TestFaultyStoreWithoutFaults(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path):
        return FaultyStore(open_store(tmp_path, {"fsync": "false"}))

    test_a_pickled_store_reaches_the_same_objects = None


def test_object_store_is_used_where_obstore_is_installed(s3):
    assert isinstance(open_store("s3://bucket/x", s3.options), ObjectStore)
