"""Tables on real object stores: with the peer, in races, behind a faulty network, over crashes."""

import contextlib
import os
import subprocess
import sys
import threading
import uuid
from datetime import timedelta

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CommitOutcomeUnknownError, LanceOpsError, UnsupportedError
from lance_ops.storage import open_store
from tests.support.fault_proxy import FAULTS, FaultProxy
from tests.support.object_servers import SeaweedFS, running

SERVERS = ["seaweed", "moto", pytest.param("azurite", marks=pytest.mark.azurite)]


def rows(start, stop):
    return pa.table(
        {"id": pa.array(range(start, stop), pa.int64()), "text": [f"row {n}" for n in range(start, stop)]}
    )


def ids(uri, options):
    found = lo.dataset(uri, storage_options=options).to_table()["id"].to_pylist()
    return sorted(found)


@pytest.fixture(params=SERVERS)
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def faulty_moto(moto):
    with FaultProxy(moto.port) as proxy:
        yield proxy


@pytest.mark.peer
def test_both_libraries_keep_one_table_with_the_same_options(server):
    options = server.options()
    uri = server.new_root() + "/shared%20table.lance"

    def check(expected):
        ours = lo.dataset(uri, storage_options=options)
        peer = lance.dataset(uri, storage_options=options)
        peer.validate()
        assert ours.version == peer.version
        assert ours.to_table().sort_by("id") == peer.to_table().sort_by("id")
        assert sorted(ours.to_table()["id"].to_pylist()) == expected
        assert ours.count_rows("id = 7") == peer.count_rows("id = 7") == expected.count(7)
        return peer

    lo.write_dataset(rows(0, 10), uri, storage_options=options)
    peer = lance.write_dataset(rows(10, 20), uri, mode="append", storage_options=options)
    lo.write_dataset(rows(20, 30), uri, mode="append", storage_options=options)
    expected = list(range(30))
    check(expected)
    lo.delete(uri, "id = 3", storage_options=options)
    lance.dataset(uri, storage_options=options).delete("id = 13")
    expected = [n for n in expected if n not in {3, 13}]
    peer = check(expected)
    lo.create_index(uri, "id", "BTREE", storage_options=options)
    peer = check(expected)
    peer.tags.create("theirs", peer.version)
    lo.create_tag(uri, "ours", peer.version, storage_options=options)
    lo.compact(uri, storage_options=options)
    check(expected)
    lance.write_dataset(rows(30, 40), uri, mode="append", storage_options=options)
    lo.optimize_indices(uri, storage_options=options)
    expected += range(30, 40)
    check(expected)
    lo.restore(uri, "theirs", storage_options=options)
    expected = [n for n in expected if n < 30]
    check(expected)
    lo.cleanup(uri, older_than=timedelta(0), retain_versions=1, storage_options=options)
    assert len(lo.dataset(uri, storage_options=options).versions()) == 2
    peer = check(expected)
    assert set(peer.tags.list()) == {"ours", "theirs"}
    assert lo.dataset(uri, "ours", storage_options=options).count_rows() == len(expected)
    assert lo.fsck(uri, storage_options=options, deep=True).ok


@pytest.mark.peer
def test_of_racing_writers_of_both_libraries_none_loses_a_row(server):
    options = server.options()
    uri = server.new_root()
    lo.write_dataset(rows(0, 1), uri, storage_options=options)
    acknowledged, failed = [0], []

    def ours(first):
        for n in range(first, first + 5):
            lo.write_dataset(rows(n, n + 1), uri, mode="append", storage_options=options)
            acknowledged.append(n)

    def theirs(first):
        for n in range(first, first + 5):
            lance.write_dataset(rows(n, n + 1), uri, mode="append", storage_options=options)
            acknowledged.append(n)

    def run(work, first):
        try:
            work(first)
        except Exception as error:  # noqa: BLE001 - of either library
            failed.append(error)

    threads = [threading.Thread(target=run, args=(ours, first)) for first in (100, 200)]
    threads.append(threading.Thread(target=run, args=(theirs, 300)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert ids(uri, options) == sorted(acknowledged)


OPERATIONS = {
    "append": lambda uri, options, key: lo.write_dataset(
        rows(100, 110), uri, mode="append", storage_options=options, job_key=key
    ),
    "delete": lambda uri, options, key: lo.delete(uri, "id < 5", storage_options=options, job_key=key),
    "compact": lambda uri, options, key: lo.compact(uri, storage_options=options, job_key=key),
}
BEFORE = list(range(20))
AFTER = {"append": [*BEFORE, *range(100, 110)], "delete": BEFORE[5:], "compact": BEFORE}


@pytest.fixture
def table(moto, faulty_moto):
    """A table with two fragments and deletions, and options through the proxy."""
    uri = moto.new_root()
    options = moto.options(faulty_moto.endpoint)
    lo.write_dataset(rows(0, 10), uri, storage_options=options)
    lo.write_dataset(rows(10, 21), uri, mode="append", storage_options=options)
    lo.delete(uri, "id = 20", storage_options=options)
    yield uri, options
    faulty_moto.rules.clear()


@pytest.mark.parametrize(
    ("operation", "request_kind"),
    [
        ("append", "list"),
        ("append", "get manifest"),
        ("append", "put data"),
        ("append", "put transaction"),
        ("append", "put manifest"),
        ("delete", "get data"),
        ("delete", "put manifest"),
        ("compact", "get data"),
        ("compact", "put data"),
        ("compact", "put manifest"),
    ],
)
def test_one_fault_of_any_kind_is_survived(table, faulty_moto, request_kind, operation):
    uri, options = table
    for number, fault in enumerate(FAULTS):
        with faulty_moto.fault(request_kind, fault) as rule:
            with contextlib.suppress(CommitOutcomeUnknownError):
                OPERATIONS[operation](uri, options, f"{operation} {number}")
            assert ids(uri, options) == AFTER[operation], fault
            assert rule.hits == 1, fault
        # Run again, as a scheduler does that knows nothing.
        OPERATIONS[operation](uri, options, f"{operation} {number}")
        assert ids(uri, options) == AFTER[operation], fault
        lo.restore(uri, 3, storage_options=options)


@pytest.mark.parametrize("request_kind", ["list", "get manifest", "delete"])
def test_a_cleanup_survives_one_fault_of_any_kind(table, faulty_moto, request_kind):
    uri, options = table
    for number, fault in enumerate(FAULTS):
        lo.write_dataset(rows(100 + number, 101 + number), uri, mode="append", storage_options=options)
        with faulty_moto.fault(request_kind, fault) as rule:
            lo.cleanup(uri, older_than=timedelta(0), retain_versions=1, storage_options=options)
            assert rule.hits == 1, fault
        assert ids(uri, options) == [*BEFORE, *range(100, 101 + number)]
        assert [version.version for version in lo.dataset(uri, storage_options=options).versions()] == [
            4 + number
        ]
        assert lo.fsck(uri, storage_options=options, deep=True).ok


@pytest.mark.parametrize("fault", ["error before", "error after", "reset", "no answer"])
@pytest.mark.parametrize("request_kind", ["list", "put manifest", "put data"])
def test_a_lasting_fault_is_an_error_and_the_job_key_repairs_it(table, faulty_moto, request_kind, fault):
    uri, options = table
    impatient = {**options, "client_max_retries": "2"}
    with faulty_moto.fault(request_kind, fault, times=1 << 30) as rule:
        try:
            OPERATIONS["append"](uri, impatient, "job")
        except CommitOutcomeUnknownError:
            allowed = [BEFORE, AFTER["append"]]
        except LanceOpsError:
            allowed = [BEFORE]
        else:
            allowed = [AFTER["append"]]
        assert rule.hits
    assert ids(uri, options) in allowed
    OPERATIONS["append"](uri, options, "job")
    assert ids(uri, options) == AFTER["append"]
    OPERATIONS["append"](uri, options, "job")
    assert ids(uri, options) == AFTER["append"]


def test_a_gateway_that_strips_the_condition_is_refused_and_costs_no_row(moto):
    uri = moto.new_bucket() + "/t"
    lo.write_dataset(rows(0, 10), uri, storage_options=moto.options())
    acknowledged, refused = [], []
    with FaultProxy(moto.port, strip=("if-none-match",)) as gateway:
        options = moto.options(gateway.endpoint)

        def write(first):
            for n in range(first, first + 3):
                try:
                    lo.write_dataset(rows(n, n + 1), uri, mode="append", storage_options=options)
                except UnsupportedError as error:
                    refused.append(str(error))
                else:
                    acknowledged.append(n)

        threads = [threading.Thread(target=write, args=(first,)) for first in (100, 200, 300)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ids(uri, options) == list(range(10))
    assert acknowledged == []
    assert len(refused) == 9
    assert "If-None-Match" in refused[0]
    assert not [info.path for info in open_store(uri, moto.options()).list("") if ".tmp_" in info.path]


WRITER = """
import sys
import lance_ops as lo
from tests.safety.test_object_servers import rows
uri, first, options = sys.argv[1], int(sys.argv[2]), dict(part.split("=", 1) for part in sys.argv[3:])
print("ready", flush=True)
for n in range(first, first + 8):
    lo.write_dataset(rows(n, n + 1), uri, mode="append", storage_options=options, job_key=f"row {n}")
    print(n, flush=True)
"""


def start_writer(uri, first, options):
    return subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            WRITER,
            uri,
            str(first),
            *(f"{k}={v}" for k, v in options.items()),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
    )


def test_a_writer_that_is_killed_is_run_again_with_its_job_keys(moto):
    options = moto.options()
    uri = moto.new_root()
    lo.write_dataset(rows(0, 1), uri, storage_options=options)
    for kill_after in (1, 4):
        with start_writer(uri, 100, options) as writer:
            assert writer.stdout is not None
            # One of them is in the middle of the next row.
            for line in writer.stdout:
                if line.strip() == str(99 + kill_after):
                    writer.kill()
    with start_writer(uri, 100, options) as writer:
        assert writer.stdout is not None
        assert writer.stdout.read().split() == ["ready", *map(str, range(100, 108))]
    assert ids(uri, options) == [0, *range(100, 108)]
    assert lo.fsck(uri, storage_options=options, deep=True).ok


def test_a_server_that_is_killed_and_comes_back_within_the_patience_of_clients_fails_nobody():
    with running(SeaweedFS) as server:
        options = {**server.options(), "client_retry_timeout": "240"}
        uri = f"{server.bucket}/{uuid.uuid4().hex}"
        lo.write_dataset(rows(0, 1), uri, storage_options=options)
        acknowledged, failed = [0], []
        started = threading.Event()

        def write():
            try:
                for n in range(1, 9):
                    lo.write_dataset(
                        rows(n, n + 1), uri, mode="append", storage_options=options, job_key=f"{n}"
                    )
                    acknowledged.append(n)
                    started.set()
            except LanceOpsError as error:
                failed.append(error)
                started.set()

        thread = threading.Thread(target=write)
        thread.start()
        started.wait()
        server.kill()
        server.start()
        thread.join()
        assert failed == []
        assert ids(uri, options) == acknowledged == list(range(9))
