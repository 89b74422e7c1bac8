"""Every store keeps the same promises; those on servers are in test_object_servers."""

import contextlib
import errno
import os
import uuid

import pytest

from lance_ops.storage import open_store
from lance_ops.storage.fsspec_store import FsspecStore
from lance_ops.testing import StoreConformance
from tests.support.faulty_store import FaultyStore


def breaking(monkeypatch, target, names, fail_with):
    """Make a context manager in which some functions of an object raise."""

    def fail(*_, **__):
        fail_with()

    @contextlib.contextmanager
    def failing():
        with monkeypatch.context() as patch:
            for name in names:
                patch.setattr(target, name, fail)
            yield

    return failing


@pytest.fixture(params=[errno.EIO, errno.ESTALE], ids=errno.errorcode.get)
def broken_system(request, monkeypatch):
    return breaking(
        monkeypatch,
        os,
        ["scandir", "stat", "open"],
        lambda: _raise(OSError(request.param, os.strerror(request.param))),
    )


def _not_found_while_handling_a_timeout():
    try:
        _raise(TimeoutError())
    except TimeoutError:
        raise FileNotFoundError("a")  # noqa: B904 - as careless libraries do


def _raise(error, cause=None):
    raise error from cause


FSSPEC_FAILURES = {
    "reset": lambda: _raise(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")),
    "refused": lambda: _raise(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")),
    "timeout": lambda: _raise(TimeoutError()),
    "without a number": lambda: _raise(OSError("the server is busy")),
    "of a library": lambda: _raise(RuntimeError("unexpected answer")),
    "not found, because of a reset": lambda: _raise(FileNotFoundError("a"), ConnectionResetError("reset")),
    "not found, because of a library": lambda: _raise(FileNotFoundError("a"), RuntimeError("unexpected")),
    "not found, while handling a timeout": _not_found_while_handling_a_timeout,
}


@pytest.fixture(params=FSSPEC_FAILURES)
def broken_filesystem(request, monkeypatch, store):
    names = ["ls", "find", "info", "cat_ranges", "cat_file", "cp_file", "open"]
    return breaking(monkeypatch, store._fs, names, FSSPEC_FAILURES[request.param])


class TestLocal(StoreConformance):
    @pytest.fixture
    def failing(self, broken_system):
        return broken_system

    @pytest.fixture
    def store(self, tmp_path):
        return open_store(tmp_path / "not made yet" / "root", {"fsync": "false"})


class TestLocalWithoutMaps(StoreConformance):
    @pytest.fixture
    def failing(self, broken_system):
        return broken_system

    @pytest.fixture
    def store(self, tmp_path):
        return open_store(f"file://{tmp_path}", {"memory_map": "false"})


class TestMemory(StoreConformance):
    @pytest.fixture
    def store(self):
        return open_store(f"memory://{uuid.uuid4().hex}/root")

    # Memory has nothing behind it that could fail.
    test_what_cannot_be_found_out_is_an_error_and_not_absence = None


class TestFsspecOnLocalFiles(StoreConformance):
    @pytest.fixture
    def failing(self, broken_filesystem):
        return broken_filesystem

    @pytest.fixture
    def store(self, tmp_path):
        return FsspecStore(f"file://{tmp_path}/root")


class TestFsspecOnMemory(StoreConformance):
    @pytest.fixture
    def failing(self, broken_filesystem):
        return broken_filesystem

    @pytest.fixture
    def store(self):
        return FsspecStore(f"memory://{uuid.uuid4().hex}/root")


class TestFaultyStoreWithoutFaults(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path):
        return FaultyStore(open_store(tmp_path, {"fsync": "false"}))

    @pytest.fixture
    def failing(self, broken_system):
        return broken_system

    test_a_pickled_store_reaches_the_same_objects = None
