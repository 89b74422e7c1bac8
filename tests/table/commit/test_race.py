"""Several writers at once, in threads and processes, ours and the peer's: nothing is lost or comes twice."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import lance
import pytest

from lance_ops.errors import RetryableCommitConflictError
from lance_ops.table.dataset import Dataset
from tests.support.tables import append, create, delete, rows, values

APPENDS = 10


def ours_appends(uri: str, start: int) -> None:
    """Append ten times one row."""
    dataset = Dataset.open(uri)
    for number in range(start, start + APPENDS):
        append(dataset, rows(number, number + 1))


def ours_deletes(uri: str, numbers: list[int]) -> None:
    """Delete rows of fragment 0, one commit each, planned afresh after a conflict."""
    for number in numbers:
        while True:
            try:
                delete(Dataset.open(uri), {0: [number]})
                break
            except RetryableCommitConflictError:
                continue


def peer_appends(uri: str, start: int) -> None:
    for number in range(start, start + APPENDS):
        lance.write_dataset(rows(number, number + 1), uri, mode="append")


def peer_deletes(uri: str, numbers: list[int]) -> None:
    for number in numbers:
        lance.dataset(uri).delete(f"a = {number}")


def test_threads_append_at_once(tmp_path):
    uri = create(str(tmp_path / "table"), rows(0, 5)).uri
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda writer: ours_appends(uri, 1000 * writer), range(1, 5)))
    dataset = Dataset.open(uri)
    assert dataset.version == 1 + 4 * APPENDS
    expected = [*range(5), *(1000 * writer + n for writer in range(1, 5) for n in range(APPENDS))]
    assert values(dataset) == expected
    assert len({f.id for f in dataset.fragments}) == len(dataset.fragments) == 1 + 4 * APPENDS
    assert lance.dataset(uri).count_rows() == len(expected)


def test_threads_with_one_job_key_commit_once(tmp_path):
    dataset = create(str(tmp_path / "table"), rows(0, 5))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: append(dataset, rows(5, 8), job_key="load"), range(8)))
    assert sorted(result.already_committed for result in results) == [False, *[True] * 7]
    assert {result.version for result in results} == {2}
    assert values(dataset.latest()) == list(range(8))


@pytest.mark.peer
@pytest.mark.slow
def test_two_processes_append_and_delete_at_once(tmp_path):
    uri = create(str(tmp_path / "table"), rows(0, 40)).uri
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=ours_appends, args=(uri, 1000)),
        context.Process(target=peer_appends, args=(uri, 2000)),
        context.Process(target=ours_deletes, args=(uri, list(range(10)))),
        context.Process(target=peer_deletes, args=(uri, list(range(20, 30)))),
    ]
    for process in writers:
        process.start()
    for process in writers:
        process.join(120)
        assert process.exitcode == 0
    expected = sorted(
        {*range(40)} - {*range(10), *range(20, 30)}
        | {start + n for start in (1000, 2000) for n in range(APPENDS)}
    )
    dataset = Dataset.open(uri)
    assert values(dataset) == expected
    assert dataset.version == 1 + 4 * APPENDS
    peer = lance.dataset(uri)
    peer.validate()
    assert sorted(peer.to_table()["a"].to_pylist()) == expected
