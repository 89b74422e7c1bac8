"""Decoders in lockstep: what each asks for is what it gets, in whatever threads they go on."""

import threading

import pyarrow as pa
import pytest

from lance_ops.file.io import fetch
from lance_ops.file.io.fetch import Request, SparseRequest, Steps, gather, run

FILE = bytes(range(256)) * 64


def read(ranges: list[Request]) -> list[pa.Buffer]:
    return [pa.py_buffer(FILE[offset : offset + length]) for offset, length in ranges]


def decoder(number: int, rounds: int, threads: set[int]) -> Steps[list[bytes]]:
    found = []
    for turn in range(rounds):
        wanted = [(number + turn, 20), (0, 0), (number, 2000 * (number % 3))]
        data = yield wanted
        threads.add(threading.get_ident())
        assert [part.to_pybytes() for part in data] == [FILE[start : start + size] for start, size in wanted]
        found.append(data[0].to_pybytes())
    return found


@pytest.fixture(params=[1, 1 << 30], ids=["side by side", "one by one"])
def share(request, monkeypatch):
    monkeypatch.setattr(fetch, "_SHARE_BYTES", request.param)
    monkeypatch.setattr("lance_ops.encoding.parallel.available_threads", lambda: 3)


def test_each_decoder_gets_what_it_asked_for(share):
    threads: set[int] = set()
    parts = [decoder(number, number % 4, threads) for number in range(12)]
    nested = gather([gather(parts[:5]), gather(parts[5:])])
    first, second = run(nested, read)
    expected = [[FILE[n + turn : n + turn + 20] for turn in range(n % 4)] for n in range(12)]
    assert first + second == expected


def test_an_error_of_a_decoder_is_raised(share):
    def failing() -> Steps[list[bytes]]:
        yield [(0, 3000)]
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        run(gather([decoder(1, 2, set()), failing(), decoder(2, 2, set())]), read)


def test_little_is_decoded_where_it_was_asked_for():
    threads: set[int] = set()
    run(gather([decoder(number, 3, threads) for number in range(5)]), read)
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("used", [0, 1 << 30])
def test_large_requests_of_which_little_is_looked_at_count_for_little(monkeypatch, used):
    # Single rows of a mapped file: what they take is done in Python.
    monkeypatch.setattr("lance_ops.encoding.parallel.available_threads", lambda: 3)
    shared = []
    monkeypatch.setattr(
        fetch, "drain_side_by_side", lambda jobs: shared.extend(jobs) or [job() for job in jobs]
    )

    def picking(number: int) -> Steps[int]:
        (data,) = yield [SparseRequest(number, 1 << 20, used)]
        return data[0]

    found = run(gather([picking(number) for number in range(4)]), read)
    assert found == [0, 1, 2, 3]
    assert len(shared) == (4 if used else 0)
