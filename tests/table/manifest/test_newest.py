"""Commits of several writers build on the newest version, whatever others do between them."""

import multiprocessing
import shutil
import tempfile
import threading
from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.storage import open_store
from lance_ops.table.manifest.listing import latest
from tests.safety.profile import examples

STEPS = st.sampled_from(
    ["ours", "keyed", "peer", "restore", "peer restore", "cleanup", "peer cleanup", "delete", "anew", "tag"]
)


@pytest.mark.peer
@given(steps=st.lists(STEPS, min_size=3, max_size=10))
@examples(15)
def test_commits_between_those_of_others_lose_nothing(steps):
    with tempfile.TemporaryDirectory() as place:
        uri = f"{place}/t"
        lo.append(uri, pa.table({"i": [0]}))
        expected_rows = {1: [0]}
        rows = [0]
        for number, step in enumerate(steps, 1):
            new = pa.table({"i": [number]})
            before = latest(open_store(uri)).version
            if step == "ours":
                lo.append(uri, new)
            elif step == "keyed":
                lo.append(uri, new, job_key=str(number))
            elif step == "peer":
                lance.write_dataset(new, uri, mode="append")
            elif step in ("restore", "peer restore"):
                oldest = min(info.version for info in lo.dataset(uri).versions())
                if step == "restore":
                    lo.restore(uri, oldest)
                else:
                    lance.dataset(uri, version=oldest).restore()
                rows = expected_rows[oldest]
            elif step == "cleanup":
                lo.cleanup(uri, retain_versions=1)
            elif step == "peer cleanup":
                lance.dataset(uri).cleanup_old_versions(
                    older_than=timedelta(0), error_if_tagged_old_versions=False
                )
            elif step == "delete":
                lo.delete(uri, "i = 0")
                rows = [row for row in rows if row]
            elif step == "tag":
                lo.create_tag(uri, f"t{number}")
            else:
                shutil.rmtree(uri)
                lo.append(uri, new)
                rows, expected_rows = [number], {}
            if step in ("ours", "keyed", "peer"):
                rows = [*rows, number]
            version = latest(open_store(uri)).version
            assert version == lance.dataset(uri).version
            assert step == "anew" or version >= before
            expected_rows[version] = rows
            assert sorted(lo.dataset(uri).to_table()["i"].to_pylist()) == sorted(rows)


def test_a_version_that_passed_ours_by_is_noticed(tmp_path):
    uri = str(tmp_path / "t")
    lo.append(uri, pa.table({"i": [0]}))
    stale = lo.dataset(uri)
    # Others commit the next version and one more, and remove the next one again.
    for number in (1, 2):
        lo.append(uri, pa.table({"i": [number]}))
    lo.create_tag(uri, "keeps", 1)
    lo.cleanup(uri, retain_versions=1)
    assert {info.version for info in stale.versions()} == {1, 3}
    lo.append(stale, pa.table({"i": [3]}))
    assert lo.dataset(uri).to_table()["i"].to_pylist() == [0, 1, 2, 3]


def _append_many(uri: str, start: int, number: int) -> None:
    for value in range(start, start + number):
        lo.append(uri, pa.table({"i": [value]}))


def test_writers_in_several_processes_and_threads_lose_nothing(tmp_path):
    uri = str(tmp_path / "t")
    lo.append(uri, pa.table({"i": [-1]}))
    context = multiprocessing.get_context("spawn")
    workers = [
        *(context.Process(target=_append_many, args=(uri, 100 * n, 15)) for n in range(2)),
        *(threading.Thread(target=_append_many, args=(uri, 100 * n, 15)) for n in range(2, 4)),
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    wanted = [-1, *(100 * n + value for n in range(4) for value in range(15))]
    assert sorted(lo.dataset(uri).to_table()["i"].to_pylist()) == wanted
