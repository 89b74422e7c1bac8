import ftplib
import sys
import threading
from datetime import UTC, datetime, timedelta

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem

import lance_ops as lo
from lance_ops import write_dataset
from lance_ops.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    StorageError,
    UnsupportedError,
)
from lance_ops.storage import open_store
from lance_ops.storage.failures import is_clearly_missing
from lance_ops.storage.fsspec_options import keyword_arguments
from lance_ops.storage.fsspec_store import FsspecStore, _modified
from lance_ops.table.commit.committer import LockCommitter
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
    with pytest.raises(InvalidArgumentError, match="sftp://host/y") as caught:
        open_store("sftp://host/y", {"username": "me", "password": "topsecret"})
    assert "topsecret" not in str(caught.value)


class BrokenFileSystem(CustomFileSystem):
    """Cannot list folders of some name."""

    protocol = "broken"
    cachable = False
    broken = ""

    @classmethod
    def _strip_protocol(cls, path):
        return str(path).removeprefix("broken://").rstrip("/")

    def ls(self, path, detail=False, **kwargs):
        if self.broken and self.broken in str(path):
            raise OSError(104, "Connection reset by peer")
        return super().ls(path, detail=detail, **kwargs)


@pytest.fixture
def broken_uri(tmp_path, monkeypatch):
    fsspec.register_implementation("broken", BrokenFileSystem, clobber=True)
    monkeypatch.setattr(BrokenFileSystem, "broken", "")
    return f"broken://{tmp_path}/root"


def test_a_folder_somewhere_below_that_cannot_be_listed_is_an_error(broken_uri, monkeypatch):
    store = open_store(broken_uri)
    for path in ["a/b/c/d", "a/x", "e/f"]:
        store.put(path, b"1")
    monkeypatch.setattr(BrokenFileSystem, "broken", "/c")
    for call in [
        lambda: store.list(""),
        lambda: store.list("a"),
        lambda: store.list("a/b/c"),
        lambda: store.list_dirs("a/b"),
    ]:
        with pytest.raises(StorageError, match="reset by peer"):
            call()
    assert [info.path for info in store.list("e")] == ["e/f"]


def test_cleanup_removes_nothing_when_it_cannot_see_the_tags(broken_uri, monkeypatch):
    rows = pa.table({"x": [1, 2, 3]})
    lock = threading.Lock()
    committer = LockCommitter(lambda _: lock)
    store = open_store(broken_uri)
    write_dataset(rows, store, committer=committer)
    for _ in range(3):
        write_dataset(rows, store, mode="append", committer=committer)
    lo.create_tag(broken_uri, "keep", 2)
    before = [info.path for info in store.list("")]
    monkeypatch.setattr(BrokenFileSystem, "broken", "_refs")
    with pytest.raises(StorageError, match="reset by peer"):
        lo.cleanup(broken_uri, retain_versions=1, older_than=timedelta(0))
    monkeypatch.setattr(BrokenFileSystem, "broken", "")
    assert [info.path for info in store.list("")] == before
    assert lo.dataset(broken_uri, "keep").count_rows() == 6


def _chained(error, cause):
    error.__cause__ = cause
    return error


class _AnswerError(Exception):
    def __init__(self, status):
        self.status = status


@pytest.mark.parametrize(
    ("error", "missing"),
    [
        (FileNotFoundError("a"), True),
        (FileNotFoundError(2, "No such file"), True),
        (NotADirectoryError("a"), True),
        (OSError(2, "No such file"), True),
        (_chained(FileNotFoundError("a"), KeyError("a")), True),
        (_chained(FileNotFoundError("a"), StopIteration()), True),
        (_chained(FileNotFoundError("a"), FileNotFoundError("b")), True),
        (_chained(FileNotFoundError("a"), ftplib.error_perm("550 No such file or directory.")), True),
        (_chained(FileNotFoundError("a"), ftplib.error_perm("550 Permission denied.")), False),
        (_chained(FileNotFoundError("a"), ftplib.error_temp("450 busy")), False),
        (_chained(FileNotFoundError("a"), _AnswerError(404)), True),
        (_chained(FileNotFoundError("a"), _AnswerError(503)), False),
        (_chained(FileNotFoundError("a"), _AnswerError(403)), False),
        (_chained(FileNotFoundError("a"), ConnectionResetError(104, "reset")), False),
        (_chained(FileNotFoundError("a"), _chained(FileNotFoundError("b"), TimeoutError())), False),
        (ConnectionRefusedError(111, "refused"), False),
        (PermissionError(13, "denied"), False),
        (OSError("unknown"), False),
    ],
)
def test_only_a_look_up_without_a_result_is_absence(error, missing):
    assert is_clearly_missing(error) == missing


@pytest.mark.parametrize("uri", ["ftp://127.0.0.1:1/x", "webhdfs://127.0.0.1:1/x", "http://127.0.0.1:1/x"])
def test_a_server_that_is_down_is_neither_an_empty_store_nor_a_raw_error(uri):
    with pytest.raises(StorageError, match=r"127\.0\.0\.1") as caught:
        lo.dataset(uri)
    assert not isinstance(caught.value, NotFoundError)
    for call in [lambda: open_store(uri).exists("a"), lambda: open_store(uri).list("")]:
        with pytest.raises(StorageError):
            call()


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (OSError("Unable to load libjvm\n" + "dlopen failed\n" * 200), StorageError),
        (ConnectionRefusedError(111, "Connection refused"), StorageError),
        (RuntimeError("the library says topsecret"), StorageError),
        (ImportError("paramiko"), InvalidArgumentError),
        (TypeError("unexpected argument"), InvalidArgumentError),
    ],
)
def test_a_filesystem_that_cannot_be_made_is_a_typed_error(monkeypatch, raised, expected):
    def fail(*_, **__):
        raise raised

    monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
    with pytest.raises(expected, match="hdfs://host/x") as caught:
        open_store("hdfs://host/x", {"password": "topsecret"})
    assert "topsecret" not in str(caught.value)
    assert len(str(caught.value)) < 1000


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
            "aws_profile": "p",
            "aws_endpoint": "http://e",
            "allow_http": "true",
            "timeout": "5s",
            "max_concurrency": "3",
        },
    ) == {
        "key": "k",
        "secret": "s",
        "token": "t",
        "profile": "p",
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
