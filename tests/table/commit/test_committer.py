"""Every committer keeps the same promises."""

import threading
import uuid

import pytest

from lance_ops.storage import open_store
from lance_ops.table.commit.committer import CopyIfAbsentCommitter, LockCommitter, PutIfAbsentCommitter
from lance_ops.testing import CommitterConformance
from tests.support.faulty_store import FaultyStore


class TestPutIfAbsent(CommitterConformance):
    @pytest.fixture
    def committer(self):
        return PutIfAbsentCommitter()


class TestPutIfAbsentOnFiles(CommitterConformance):
    @pytest.fixture
    def committer(self):
        return PutIfAbsentCommitter()

    @pytest.fixture
    def store(self, tmp_path):
        return open_store(tmp_path)


class TestCopyIfAbsent(CommitterConformance):
    @pytest.fixture
    def committer(self):
        return CopyIfAbsentCommitter()


class TestLock(CommitterConformance):
    @pytest.fixture
    def committer(self):
        lock = threading.Lock()
        return LockCommitter(lambda _version: lock)

    @pytest.fixture
    def store(self):
        return FaultyStore(open_store(f"memory://{uuid.uuid4().hex}"), conditional_put=False)
