"""What the threads of a process held when it forked, nobody waits for in the child."""

import multiprocessing

import pyarrow as pa

import lance_ops as lo
from lance_ops.storage import fork_safe


def _read_in_child(dataset, answers):
    answers.put((lo.dataset(dataset.uri).count_rows("a > 3"), dataset.to_table()["a"].to_pylist()))


def test_a_fork_reads_whatever_the_threads_of_its_parent_were_at(tmp_path):
    lo.write_dataset(pa.table({"a": range(10)}), tmp_path / "t.lance")
    dataset = lo.dataset(tmp_path / "t.lance")
    dataset.to_table()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_read_in_child, args=(dataset, answers), daemon=True)
    held = [lock for lock in list(fork_safe._every) if lock.acquire(blocking=False)]
    assert held
    try:
        child.start()
    finally:
        for lock in held:
            lock.release()
    try:
        assert answers.get(timeout=60) == (6, list(range(10)))
    finally:
        child.kill()
        child.join()


def test_a_lock_that_nobody_holds_stays_open_in_a_fork():
    lock = fork_safe.new_lock()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=lambda: answers.put(lock.acquire(timeout=0)))
    child.start()
    assert answers.get(timeout=60)
    child.join()
