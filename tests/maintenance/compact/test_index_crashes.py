"""A compaction under four kinds of index, stopped at every change of the store: indices go on, for both."""

import contextlib
import shutil

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.storage import open_store
from tests.support.faulty_store import FaultyStore, InjectedCrash, crash_moments

ROWS, FRAGMENT = 320, 80
# A crash of the process, not of the machine: nothing has to reach the disk.
FAST = {"fsync": "false"}
LIVE = [n for n in range(ROWS) if n % 7 != 1]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Four fragments with deleted rows, under indices of the peer; the last one is not covered."""
    uri = str(tmp_path_factory.mktemp("template") / "t.lance")
    vectors = np.random.default_rng(4).random((ROWS, 8), dtype=np.float32)
    numbers = list(range(ROWS))
    rows = pa.table(
        {
            "id": numbers,
            "number": numbers,
            "group": [n % 5 for n in numbers],
            "text": [f"word w{n} v{n % 9}" for n in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8),
        }
    )
    dataset = lance.write_dataset(rows.slice(0, ROWS - FRAGMENT), uri, max_rows_per_file=FRAGMENT)
    dataset.create_scalar_index("number", "BTREE")
    dataset.create_scalar_index("group", "BITMAP")
    dataset.create_scalar_index("text", "INVERTED")
    dataset.create_index("vector", "IVF_PQ", num_partitions=1, num_sub_vectors=4, num_bits=4)
    lance.write_dataset(rows.slice(ROWS - FRAGMENT), uri, mode="append").delete("id % 7 = 1")
    return uri


def compact(target):
    return lo.compact(target, runner=lo.LocalRunner(1), job_key="the job")


def ids(dataset, **query):
    return sorted(dataset.to_table(columns=["id"], **query)["id"].to_pylist())


def answers_are_right(dataset, vector):
    """By an opened dataset of either library."""
    assert ids(dataset) == LIVE
    assert ids(dataset, filter="number >= 150 and number < 170") == [n for n in LIVE if 150 <= n < 170]
    assert ids(dataset, filter="`group` = 3") == [n for n in LIVE if n % 5 == 3]
    text = dataset.to_table(columns=["id", "_score"], full_text_query="v4")
    assert sorted(text["id"].to_pylist()) == [n for n in LIVE if n % 9 == 4]
    nearest = {"column": "vector", "q": vector, "k": 1, "nprobes": 1, "refine_factor": 50}
    assert dataset.to_table(columns=["id", "_distance"], nearest=nearest)["id"].to_pylist() == [160]


@pytest.mark.peer
def test_after_a_crash_anywhere_the_peer_optimizes_and_answers_and_the_job_ends(template, tmp_path):
    before = lance.dataset(template)
    vector = np.array(before.to_table(filter="id = 160", columns=["vector"])["vector"][0].as_py(), np.float32)
    states: set[tuple[int, int]] = set()
    uri = str(tmp_path / "whole.lance")
    shutil.copytree(template, uri)
    whole = FaultyStore(open_store(uri, FAST))
    compact(whole)
    for number, when in crash_moments(range(1, whole.counted + 1)):
        uri = str(tmp_path / f"{number}.lance")
        shutil.copytree(template, uri)
        store = FaultyStore(open_store(uri, FAST), fail_at=number, when=when, mode="crash")
        with contextlib.suppress(InjectedCrash, LanceOpsError):
            compact(store)
        assert store.fired
        left = lance.dataset(uri)
        state = (left.version, len(left.get_fragments()))
        assert ids(left) == LIVE
        # What is done with it depends on the version alone: once for each that a crash leaves.
        if state not in states:
            states.add(state)
            answers_are_right(lo.dataset(uri), vector)
            other = str(tmp_path / "peer.lance")
            shutil.copytree(uri, other)
            peer = lance.dataset(other)
            answers_are_right(peer, vector)
            peer.optimize.optimize_indices()
            peer = lance.dataset(other)
            assert "ScalarIndexQuery" in peer.scanner(filter="number = 5").explain_plan()
            answers_are_right(peer, vector)
            assert {
                name: peer.stats.index_stats(name)["num_unindexed_rows"]
                for name in ("number_idx", "group_idx", "text_idx", "vector_idx")
            } == dict.fromkeys(("number_idx", "group_idx", "text_idx", "vector_idx"), 0)
            shutil.rmtree(other)
        # What a crash leaves behind of files stands in nobody's way.
        if number % 2 == 0 or when == "after":
            done = compact(open_store(uri, FAST))
            assert done.already_committed or done.rows_indexed_after == done.rows_indexed_before
            answers_are_right(lo.dataset(uri), vector)
        shutil.rmtree(uri)
    # Crashes left the table as it was, and as it was to be.
    assert {fragments for _, fragments in states} == {4, 2}
    assert whole.counted >= 10
