"""obstore against a small S3 server: what is sent, what comes back, what goes wrong."""

import pickle
import traceback
from datetime import UTC, datetime, timedelta

import obstore
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    AlreadyExistsError,
    BucketMissingError,
    CorruptFileError,
    InvalidArgumentError,
    PermissionDeniedError,
    StorageError,
    UnsupportedError,
)
from lance_ops.storage import open_store
from lance_ops.storage.fsspec_store import FsspecStore
from lance_ops.storage.objects.store import ObjectStore
from tests.support.fake_s3 import FakeS3

SECRET = "verysecretvalue"


@pytest.fixture
def s3():
    with FakeS3() as server:
        yield server


@pytest.fixture
def store(s3):
    return open_store("s3://bucket/table", s3.options)


def requests(s3, function):
    s3.requests.clear()
    function()
    return list(s3.requests)


def test_a_read_is_one_request(s3, store):
    store.put("a", bytes(1000))
    assert requests(s3, lambda: store.read("a")) == ["GET /bucket/table/a"]
    assert requests(s3, lambda: store.read("a", 5, 10)) == ["GET /bucket/table/a"]
    assert requests(s3, lambda: store.read_tail("a", 10)) == ["GET /bucket/table/a"]
    assert requests(s3, lambda: store.read_ranges("a", [(0, 10), (500, 10)])) == ["GET /bucket/table/a"]
    assert requests(s3, lambda: store.exists("a")) == ["HEAD /bucket/table/a"]
    assert requests(s3, lambda: store.put("b", b"1", if_absent=True)) == ["PUT /bucket/table/b"]


def test_listing_asks_the_server_to_start_after(s3, store):
    s3.page = 1000
    store.put("v/0000", b"")
    for number in range(1500):
        s3.objects[f"bucket/table/v/{number:04}"] = s3.objects["bucket/table/v/0000"]
    sent = requests(s3, lambda: list(store.list("v", start_after="v/1240")))
    assert len(sent) == 1
    # A little before: some servers skip a folder of the very name.
    assert "start-after=table%2Fv%2F124." in sent[0]
    assert "prefix=table%2Fv%2F" in sent[0]
    # The newest manifest sorts first: finding it costs one page however many versions there are.
    assert len(requests(s3, lambda: next(store.list("v")))) == 1


@pytest.mark.parametrize(("count", "most"), [(40, 1), (150, 4), (20_000, 20)])
def test_many_objects_are_deleted_in_a_few_requests(s3, store, count, most):
    store.put("v/0", b"")
    names = [f"v/{number}" for number in range(count)]
    s3.objects.update({f"bucket/table/{name}": s3.objects["bucket/table/v/0"] for name in names})
    sent = requests(s3, lambda: store.delete_many([*names, "missing"]))
    # Servers delete what one request names one after the other: it names fewer where there are few.
    assert len(sent) <= most + 1
    assert s3.objects == {}


def test_a_folder_marker_is_no_object_of_the_folder(s3, store):
    store.put("v/a", b"")
    s3.objects["bucket/table/v/"] = (b"", s3.objects["bucket/table/v/a"][1])
    assert [info.path for info in store.list("v")] == ["v/a"]
    assert store.list_dirs("v") == []


def test_damaged_ranges_are_typed_errors_not_panics(store):
    store.put("a", b"0123456789")
    for ranges in [[(0, 1), (50, 3)], [(100, 5)], [(5, 10)], [(0, 1), (2, 1 << 40)]]:
        with pytest.raises(CorruptFileError, match="table/a"):
            store.read_ranges("a", ranges)


def test_a_large_object_is_uploaded_in_parts_and_appears_whole(s3, store):
    with store.open_writer("big") as writer:
        for _ in range(24):
            writer.write(bytes(1 << 20))
        assert s3.objects == {}
    assert store.size("big") == 24 << 20
    assert s3.uploads == {}


def test_the_secret_shows_nowhere(s3, store):
    assert SECRET not in repr(store)
    assert SECRET not in repr(store.child("x"))
    with pytest.raises(InvalidArgumentError) as caught:
        open_store("s3://bucket/x", {"aws_secret_access_key": SECRET, "timeout": SECRET})
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_secret_of_an_endpoint_shows_nowhere():
    with FakeS3() as server:
        options = {**server.options, "client_max_retries": "0"}
    options["aws_endpoint"] = options["aws_endpoint"].replace("http://", f"http://me:{SECRET}@")
    store = open_store("s3://bucket/x", options)
    for call in [lambda: store.read("a"), lambda: list(store.list("")), lambda: store.put("a", b"")]:
        with pytest.raises(StorageError) as caught:
            call()
        assert SECRET not in str(caught.value)
        assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in repr(store)


def test_a_newline_at_the_end_of_a_key_does_no_harm_and_one_within_is_refused(s3, monkeypatch):
    store = open_store(
        "s3://bucket/x", {**s3.options, "aws_access_key_id": "test\n", "aws_session_token": None}
    )
    store.put("a", b"1")
    assert list(store.list(""))
    with pytest.raises(InvalidArgumentError, match="aws_access_key_id"):
        open_store("s3://bucket/x", {**s3.options, "aws_access_key_id": "te\nst"})
    # The same in the environment.
    options = {name: value for name, value in s3.options.items() if "_key" not in name}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test\n")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret\n")
    open_store("s3://from-environment/x", options).put("a", b"1")
    assert "from-environment/x/a" in s3.objects


def test_a_panic_of_the_library_is_a_typed_error(s3, store, monkeypatch):
    class PanicException(BaseException):
        pass

    def panic(*_, **__):
        raise PanicException("called `Result::unwrap()` on an `Err` value: InvalidHeaderValue")

    for name in ["get", "head", "put", "list", "list_with_delimiter", "copy", "delete"]:
        monkeypatch.setattr(obstore, name, panic)
    for call in [
        lambda: store.read("a"),
        lambda: store.size("a"),
        lambda: store.put("a", b""),
        lambda: list(store.list("")),
        lambda: store.list_dirs(""),
        lambda: store.copy("a", "b"),
        lambda: store.delete("a"),
    ]:
        with pytest.raises(StorageError, match="invalid in headers"):
            call()


def test_an_endpoint_without_tls_says_which_option_allows_it(s3):
    options = {name: value for name, value in s3.options.items() if name != "allow_http"}
    with pytest.raises(StorageError, match="allow_http"):
        open_store("s3://bucket/x", options).exists("a")


@pytest.mark.parametrize("kind", [ObjectStore, FsspecStore])
def test_a_missing_bucket_is_no_empty_one(s3, kind):
    s3.buckets = {"bucket"}
    store = kind("s3://typing-error/x", s3.options)
    for call in [lambda: list(store.list("")), lambda: store.put("a", b"1"), lambda: store.read("a")]:
        with pytest.raises(BucketMissingError, match=r"typing-error.*create it") as caught:
            call()
        assert "<" not in str(caught.value)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_listing_that_breaks_off_goes_on(s3, store, after):
    s3.page = 10
    for number in range(35):
        s3.objects[f"bucket/table/v/{number:02}"] = (b"", datetime.now(UTC))
    s3.cut_listings = [after, after + 1, after + 3]
    assert [info.path for info in store.list("v")] == [f"v/{number:02}" for number in range(35)]
    s3.cut_listings = [0, 1]
    assert [info.path for info in store.list("v", start_after="v/30")] == [f"v/{n}" for n in range(31, 35)]
    s3.cut_listings = [0]
    assert store.list_dirs("") == ["v"]
    s3.cut_listings = range(100)
    with pytest.raises(StorageError, match="table"):
        list(store.list("v"))


def test_failures_are_tried_again_for_as_long_as_asked(s3):
    def config(**asked):
        plain = {name: value for name, value in s3.options.items() if name != "client_max_retries"}
        return open_store("s3://bucket/x", {**plain, **asked})._store.retry_config

    usual = config()
    assert (usual["max_retries"], usual["retry_timeout"]) == (16, timedelta(seconds=60))
    longer = config(client_retry_timeout="300")
    assert longer["retry_timeout"] == timedelta(seconds=300)
    assert longer["max_retries"] > 1000
    assert longer["backoff"] == usual["backoff"]
    assert config(client_max_retries="0")["max_retries"] == 0


def test_unknown_options_are_named(s3):
    with pytest.raises(InvalidArgumentError, match=r"unknown storage option.*aws_regoin"):
        open_store("s3://bucket/x", {**s3.options, "aws_regoin": "x"})
    with pytest.raises(InvalidArgumentError, match="client_max_retries"):
        open_store("s3://bucket/x", {**s3.options, "client_max_retries": "many"})


def test_options_of_the_peer_and_of_local_files_are_taken(s3):
    options = {
        **s3.options,
        "timeout": "20",
        "connect_timeout": "5s",
        "client_retry_timeout": "30",
        "download_retry_count": "3",
        "fsync": "false",
    }
    store = open_store("s3://bucket/x", options)
    store.put("a", b"1")
    assert store.read("a").to_pybytes() == b"1"


def test_an_unreachable_server_is_a_storage_error():
    with FakeS3() as server:
        options = {**server.options, "client_max_retries": "0"}
    store = open_store("s3://bucket/x", options)
    for call in [
        lambda: store.read("a"),
        lambda: store.put("a", b""),
        lambda: list(store.list("")),
        lambda: store.exists("a"),
        lambda: store.delete("a"),
        lambda: store.delete_many(["a", "b"]),
    ]:
        with pytest.raises(StorageError, match="s3://bucket/x") as caught:
            call()
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("status", "error"), [(403, PermissionDeniedError), (500, StorageError)])
def test_answers_of_the_server_are_typed(s3, store, status, error):
    store.put("a", b"1")
    s3.fail_with = status
    for call in [
        lambda: store.read("a"),
        lambda: store.read_tail("a", 1),
        lambda: store.put("a", b""),
        lambda: list(store.list("")),
        lambda: store.list_dirs(""),
        lambda: store.exists("a"),
        lambda: store.copy("a", "b"),
    ]:
        with pytest.raises(error):
            call()


def test_a_server_that_ignores_conditions_can_be_declared(s3):
    s3.conditional = False
    store = open_store("s3://bucket/x", {**s3.options, "aws_conditional_put": "disabled"})
    assert not store.supports_put_if_absent
    for call in [lambda: store.put("a", b"1", if_absent=True), lambda: store.copy("b", "a", if_absent=True)]:
        with pytest.raises(UnsupportedError):
            call()
    assert s3.objects == {}


def test_a_connection_is_shared_by_stores_of_a_bucket(s3, store):
    other = pickle.loads(pickle.dumps(store.child("x")))
    assert other._store is store._store
    assert other.uri == "s3://bucket/table/x"


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("gs://bucket/a", {"google_skip_signature": "true"}),
        ("az://box/a", {"azure_storage_account_name": "me", "azure_storage_account_key": "a2V5"}),
        ("abfss://box@me.dfs.core.windows.net/a", {"account_key": "a2V5"}),
    ],
)
def test_other_clouds_are_opened_without_a_request(uri, options):
    store = open_store(uri, options)
    assert isinstance(store, ObjectStore)
    assert store.supports_put_if_absent
    assert store.child("b").uri == uri + "/b"


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_the_stores_of_obstore_itself_can_be_used(kind, tmp_path):
    import obstore.store

    native = (
        obstore.store.MemoryStore()
        if kind == "memory"
        else obstore.store.LocalStore(str(tmp_path), automatic_cleanup=True)
    )
    store = ObjectStore("test://bucket/root", native=native)
    for name in ["b/c", "a", "b.x", "b/d/e"]:
        store.put(name, name.encode(), if_absent=True)
    with pytest.raises(AlreadyExistsError):
        store.put("a", b"", if_absent=True)
    assert [info.path for info in store.list("")] == ["a", "b.x", "b/c", "b/d/e"]
    assert [info.path for info in store.list("", start_after="b.x")] == ["b/c", "b/d/e"]
    assert store.list_dirs("b") == ["d"]
    with store.open_writer("w") as writer:
        writer.write(b"123")
    assert store.read_tail("w", 2)[0].to_pybytes() == b"23"
    store.copy("w", "x")
    with pytest.raises(AlreadyExistsError):
        store.copy("w", "x", if_absent=True)
    store.delete_many(["missing", "w", "x"])
    store.delete("missing")
    assert not store.exists("x")


@pytest.mark.peer
def test_the_peer_finds_the_same_keys(s3):
    import lance
    import pyarrow as pa

    for uri in ["s3://bucket/plain", "s3://bucket/a%20b/ü", "s3://bucket/c d"]:
        s3.objects.clear()
        lance.write_dataset(pa.table({"x": [1, 2]}), uri, storage_options=s3.options)
        store = open_store(uri, s3.options)
        found = [info.path for info in store.list("")]
        assert len(found) == len(s3.objects)
        assert {path.split("/")[0] for path in found} >= {"_transactions", "_versions", "data"}
        copied = {info.path: store.read(info.path).to_pybytes() for info in store.list("")}
        s3.objects.clear()
        for path, data in copied.items():
            store.put(path, data, if_absent=True)
        assert lance.dataset(uri, storage_options=s3.options).count_rows() == 2


def test_a_server_may_answer_a_range_with_the_whole_object(s3, store):
    data = bytes(range(256)) * 40_000
    store.put("a", data)
    store.put("empty", b"")
    s3.ignores_ranges = True
    ranges = [(5_000_000, 3), (0, 10), (0, 0), (4 << 20, 20), (len(data) - 2, 2), (5, 10)]
    found = [buffer.to_pybytes() for buffer in store.read_ranges("a", ranges)]
    assert found == [data[offset : offset + length] for offset, length in ranges]
    assert store.read("a", 1000, 24).to_pybytes() == data[1000:1024]
    assert store.read("a", len(data) - 7).to_pybytes() == data[-7:]
    assert [(tail.to_pybytes(), size) for tail, size in [store.read_tail("a", 9)]] == [(data[-9:], len(data))]
    assert store.read_tail("empty", 9)[1] == 0
    for ask in (lambda: store.read("a", len(data), 1), lambda: store.read_ranges("a", [(0, len(data) + 1)])):
        with pytest.raises(CorruptFileError, match="were requested"):
            ask()


@pytest.mark.parametrize("kind", [ObjectStore, FsspecStore])
def test_a_table_works_on_a_server_that_ignores_ranges(s3, kind):
    s3.ignores_ranges = True
    store = kind("s3://bucket/t.lance", s3.options)
    for number in range(3):
        lo.append(store, pa.table({"x": list(range(100 * number, 100 * number + 100))}))
    lo.create_index(store, "x", "BTREE")
    lo.delete(store, "x % 2 = 0")
    lo.compact(store)
    lo.cleanup(store, retain_versions=1)
    found = lo.dataset(store).to_table(filter="x > 50")["x"].to_pylist()
    assert sorted(found) == list(range(51, 300, 2))
    assert lo.fsck(store, deep=True).ok
