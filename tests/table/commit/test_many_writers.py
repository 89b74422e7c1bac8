"""Many writers on one machine lose nothing."""

import os
import threading

import lance
import pyarrow as pa
import pytest

import lance_ops as lo

ROWS = pa.table({"x": [1, 2]})


@pytest.fixture
def uri(tmp_path):
    lo.write_dataset(ROWS, str(tmp_path / "t"))
    return str(tmp_path / "t")


def append_at_once(uri: str, writers: int, each: int) -> list[int]:
    """Append rows from several threads, and say how many attempts each commit took."""
    attempts, failures = [], []

    def work():
        try:
            for _ in range(each):
                attempts.append(lo.append(uri, ROWS).version)
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    return attempts


def test_threads_that_append_lose_no_rows(uri):
    append_at_once(uri, 4, 3)
    assert lo.dataset(uri).count_rows() == 2 * 13


def test_the_peer_appends_beside_many_writers(uri):
    stop = threading.Event()
    added, failures = [], []

    def peer():
        while not stop.is_set():
            try:
                lance.write_dataset(ROWS, uri, mode="append")
                added.append(1)
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)
                return

    thread = threading.Thread(target=peer)
    thread.start()
    append_at_once(uri, 3, 4)
    stop.set()
    thread.join()
    assert not failures
    assert lo.dataset(uri).count_rows() == lance.dataset(uri).count_rows() == 2 * (13 + len(added))


def test_a_commit_leaves_only_files_that_readers_know(uri):
    before = {name for _, _, names in os.walk(uri) for name in names}
    lo.append(uri, ROWS)
    new = {name for _, _, names in os.walk(uri) for name in names} - before
    assert all(name.endswith((".lance", ".manifest", ".txn")) or "hint" in name for name in new), new
    assert lance.dataset(uri).count_rows() == 4
