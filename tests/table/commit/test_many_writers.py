"""Many writers on one machine lose nothing."""

import os
import threading

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.table.commit import loop
from lance_ops.table.commit.request import CommitHooks
from lance_ops.table.transaction.operations import ReserveFragments
from tests.support.table_actions import commit

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


@pytest.mark.parametrize("during_pauses", [2, 9])
def test_a_writer_that_commits_while_others_judge_does_not_starve_them(uri, monkeypatch, during_pauses):
    """After each look of theirs at the head, it commits once for every two commits that they judge."""
    base = lo.dataset(uri)
    since_look = []
    look = loop.find_head

    def others(number):
        for _ in range(number):
            commit(lo.dataset(uri), ReserveFragments(1))

    def find_head(*arguments, **options):
        since_look.clear()
        return look(*arguments, **options)

    def judge(_):
        since_look.append(1)
        others(1 if len(since_look) % 2 == 0 else 0)

    monkeypatch.setattr(loop, "find_head", find_head)
    monkeypatch.setattr(loop.time, "sleep", lambda _: others(during_pauses))
    others(4)
    done = commit(base, ReserveFragments(1), hooks=CommitHooks(judge=judge))
    assert done.attempts == 2
    assert len(done.conflicts) == done.version - 2


def test_a_commit_leaves_only_files_that_readers_know(uri):
    before = {name for _, _, names in os.walk(uri) for name in names}
    lo.append(uri, ROWS)
    new = {name for _, _, names in os.walk(uri) for name in names} - before
    assert all(name.endswith((".lance", ".manifest", ".txn")) or "hint" in name for name in new), new
    assert lance.dataset(uri).count_rows() == 4
