import sys
from datetime import UTC, datetime, timedelta

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from lance_ops.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    PermissionDeniedError,
    StorageError,
    UnsupportedError,
)
from lance_ops.storage import open_store
from lance_ops.storage.fsspec_options import keyword_arguments
from lance_ops.storage.fsspec_store import FsspecStore, _modified
from tests.support.fake_s3 import FakeS3


@pytest.fixture
def s3():
    with FakeS3() as server:
        yield server


class CustomFileSystem(LocalFileSystem):
    protocol = "custom"

    @classmethod
    def _strip_protocol(cls, path):
        return str(path).removeprefix("custom://").rstrip("/")


def test_any_other_scheme_goes_through_fsspec(tmp_path):
    fsspec.register_implementation("custom", CustomFileSystem, clobber=True)
    store = open_store(f"custom://{tmp_path}/root")
    assert isinstance(store, FsspecStore)
    store.put("a/b", b"1")
    assert (tmp_path / "root" / "a" / "b").read_bytes() == b"1"
    assert [info.path for info in store.list("")] == ["a/b"]
    assert not store.supports_put_if_absent
    with pytest.raises(UnsupportedError):
        store.put("c", b"", if_absent=True)


def test_without_obstore_object_stores_go_through_fsspec(s3, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    store = open_store("s3://bucket/x", s3.options)
    assert isinstance(store, FsspecStore)
    store.put("a", b"1")
    assert list(s3.objects) == ["bucket/x/a"]


def test_s3fs_is_conditional_and_its_odd_error_is_recognised(s3):
    store = FsspecStore("s3://bucket/x", s3.options)
    assert store.supports_put_if_absent
    store.put("a", b"1", if_absent=True)
    with pytest.raises(AlreadyExistsError, match="x/a"):
        store.put("a", b"2", if_absent=True)
    assert not FsspecStore(
        "s3://bucket/x", {**s3.options, "aws_conditional_put": "disabled"}
    ).supports_put_if_absent


def test_a_listing_is_never_stale(s3):
    store, other = (FsspecStore("s3://bucket/x", s3.options) for _ in range(2))
    other.put("v/a", b"")
    assert [info.path for info in store.list("v")] == ["v/a"]
    with FakeS3() as second:
        second.objects = s3.objects
        open_store("s3://bucket/x", second.options).put("v/b", b"12")
    assert [info.path for info in store.list("v")] == ["v/a", "v/b"]
    assert store.size("v/b") == 2


def test_a_failed_write_leaves_neither_the_file_nor_its_temporary(tmp_path, monkeypatch):
    store = FsspecStore(f"file://{tmp_path}")
    store.put("a", b"1")

    def fail(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store._fs, "mv", fail)
    with pytest.raises(StorageError, match="Input/output"):
        store.put("a", b"2")
    assert [info.path for info in store.list("")] == ["a"]
    assert store.read("a").to_pybytes() == b"1"


def test_unknown_schemes_and_missing_packages_say_what_to_install(monkeypatch):
    with pytest.raises(InvalidArgumentError, match="install the package"):
        open_store("nosuchscheme://x/y")
    monkeypatch.setitem(sys.modules, "paramiko", None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.sftp", raising=False)
    with pytest.raises(InvalidArgumentError, match=r"sftp://\*\*\*@host/y") as caught:
        open_store("sftp://me:topsecret@host/y", {"password": "topsecret"})
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (PermissionError("no, not with topsecret"), PermissionDeniedError),
        (OSError("something with topsecret"), StorageError),
        (RuntimeError("the library says topsecret"), StorageError),
        (KeyError("topsecret"), StorageError),
    ],
)
def test_errors_of_any_library_are_typed_and_hide_secrets(tmp_path, monkeypatch, raised, expected):
    store = FsspecStore("memory://secrets", {"password": "topsecret"})

    def fail(*_, **__):
        raise raised

    for name in ["info", "cat_ranges", "pipe_file", "find", "ls", "rm_file"]:
        monkeypatch.setattr(store._fs, name, fail)
    for call in [
        lambda: store.size("a"),
        lambda: store.read("a", 0, 1),
        lambda: store.put("a", b""),
        lambda: store.list(""),
        lambda: store.list_dirs(""),
        lambda: store.delete("a"),
    ]:
        with pytest.raises(expected, match="memory://secrets") as caught:
            call()
        assert "topsecret" not in str(caught.value)
        assert caught.value.__cause__ is None
    assert "topsecret" not in repr(store)
    fsspec.filesystem("memory").store.clear()


def test_storage_options_of_the_peer_become_arguments():
    assert keyword_arguments(
        "s3",
        {
            "aws_access_key_id": "k",
            "AWS_SECRET_ACCESS_KEY": "s",
            "aws_session_token": "t",
            "aws_region": "r",
            "aws_endpoint": "http://e",
            "allow_http": "true",
            "timeout": "5s",
            "max_concurrency": "3",
        },
    ) == {
        "key": "k",
        "secret": "s",
        "token": "t",
        "client_kwargs": {"region_name": "r"},
        "endpoint_url": "http://e",
        "max_concurrency": "3",
    }
    assert keyword_arguments("s3", {"aws_skip_signature": "true"}) == {"anon": True}
    assert keyword_arguments(
        "az", {"azure_storage_account_name": "n", "account_key": "k", "azure_storage_sas_key": "s"}
    ) == {"account_name": "n", "account_key": "k", "sas_token": "s"}
    assert keyword_arguments("gs", {"google_service_account": "file.json"}) == {"token": "file.json"}
    assert keyword_arguments("sftp", {"username": "u", "token": "t"}) == {"username": "u", "token": "t"}


def test_modification_times_of_all_filesystems_are_understood():
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for info in [
        {"LastModified": moment},
        {"last_modified": moment.astimezone()},
        {"mtime": moment.timestamp()},
        {"mtime": moment.replace(tzinfo=None)},
        {"updated": "2026-01-02T03:04:05Z"},
        {"mtime": None, "created": moment},
    ]:
        found = _modified(info)
        assert found == moment
        assert found.utcoffset() == timedelta(0)


def test_an_unknown_modification_time_counts_as_new():
    for info in [{}, {"mtime": None}, {"updated": "yesterday"}]:
        assert datetime.now(UTC) - _modified(info) < timedelta(minutes=1)
