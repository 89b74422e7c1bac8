"""One table under an index of each kind: whatever happens, both libraries answer as a scan does."""

import tempfile
from datetime import timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from tests.safety.profile import examples

KINDS = {
    "n": "BTREE",
    "few": "BITMAP",
    "labels": "LABEL_LIST",
    "zones": "ZONEMAP",
    "bloom": "BLOOMFILTER",
    "grams": "NGRAM",
    "words": "INVERTED",
}

FILTERS = (
    "n >= 5 and n < 12",
    "n is null",
    "few = 2",
    "few is null or few = 0",
    "array_has(labels, 'l2')",
    "zones >= 10 and zones < 15",
    "bloom = 7",
    "contains(grams, 'alpha3')",
    "few = 1 and zones < 30 and bloom = 21",
)


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    maybe = [None if n % 13 == 4 else n % 40 for n in numbers]
    vectors = np.array([[n % 7, n % 5, n % 3, 1] for n in numbers], np.float32)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "n": pa.array(maybe, pa.int64()),
            "few": pa.array([None if n is None else n % 5 for n in maybe], pa.int64()),
            "labels": [None if n % 11 == 3 else [f"l{n % 4}", f"l{n % 3}"] for n in numbers],
            "zones": pa.array(maybe, pa.int64()),
            "bloom": pa.array(maybe, pa.int64()),
            "grams": [f"word alpha{n % 6} beta" for n in numbers],
            "words": [f"word alpha{n % 6} beta" for n in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4),
        }
    )


class History:
    """The table, and what both libraries do to it."""

    def __init__(self, uri: str, *, built_by_peer: bool) -> None:
        self.uri = uri
        self.next = 0
        for _ in range(4):
            self.append(by_peer=True)
        for column, kind in KINDS.items():
            if built_by_peer:
                self.peer.create_scalar_index(column, kind)
            else:
                lo.create_index(uri, column, kind)
        self.peer.create_index("vector", "IVF_FLAT", num_partitions=2)

    @property
    def peer(self) -> lance.LanceDataset:
        return lance.dataset(self.uri)

    def append(self, *, by_peer: bool) -> None:
        data = rows(self.next, 12)
        mode = "append" if self.next else "create"
        self.next += 12
        if by_peer:
            lance.write_dataset(data, self.uri, mode=mode)
        else:
            lo.write_dataset(data, self.uri, mode=mode)

    def step(self, name: str, by_peer: bool, number: int) -> None:
        target = (20, 50, 500)[number % 3]
        match name:
            case "append":
                self.append(by_peer=by_peer)
            case "delete" if by_peer:
                self.peer.delete(f"id % 17 = {number}")
            case "delete":
                lo.delete(self.uri, f"id % 17 = {number}")
            case "defer" if by_peer:
                options = {"target_rows_per_fragment": target, "defer_index_remap": True}
                self.peer.optimize.compact_files(**options)
            case "defer" | "compact":
                done = lo.compact(
                    self.uri,
                    target_rows_per_fragment=target,
                    materialize_deletions_threshold=0.05,
                    defer_index_remap=name == "defer",
                )
                assert done.skipped == ()
                assert done.rows_indexed_after == done.rows_indexed_before
            case "optimize" if by_peer:
                self.peer.optimize.optimize_indices(num_indices_to_merge=number % 3)
            case "optimize":
                done = lo.optimize_indices(self.uri, merge_segments=(None, 0, 1, 2)[number % 4])
                assert done.skipped == ()
                assert done.coverage_after == 1.0
            case "cleanup":
                lo.cleanup(self.uri, older_than=timedelta(0), retain_versions=1, delete_unverified=True)

    def check(self) -> None:
        ours, theirs = lo.dataset(self.uri), self.peer
        everything = ours.to_table(use_scalar_index=False)
        assert sorted(everything["id"].to_pylist()) == sorted(theirs.to_table()["id"].to_pylist())
        for sql in FILTERS:
            scanned = ours.to_table(columns=["id"], filter=sql, use_scalar_index=False)["id"].to_pylist()
            assert ours.to_table(columns=["id"], filter=sql)["id"].to_pylist() == scanned, sql
            assert sorted(theirs.to_table(columns=["id"], filter=sql)["id"].to_pylist()) == sorted(scanned), (
                sql
            )
        wanted = sorted(ours.to_table(columns=["id"], filter="words like '%alpha3 %'")["id"].to_pylist())
        found = theirs.to_table(columns=["id"], full_text_query="alpha3", limit=1000)["id"].to_pylist()
        assert sorted(found) == wanted
        nearest = {"column": "vector", "q": [1, 2, 0, 1], "k": 5, "nprobes": 2}
        count = min(5, everything.num_rows)
        assert theirs.to_table(columns=["id"], nearest=nearest).num_rows == count
        result = lo.fsck(self.uri, deep=True)
        assert result.ok, str(result)


STEPS = st.tuples(
    st.sampled_from(["append", "delete", "delete", "defer", "compact", "optimize", "cleanup"]),
    st.booleans(),
    st.integers(0, 11),
)


@pytest.mark.peer
@examples(6)
@given(built_by_peer=st.booleans(), steps=st.lists(STEPS, min_size=3, max_size=7))
def test_every_answer_stays_right_under_every_kind(built_by_peer, steps):
    with tempfile.TemporaryDirectory() as folder:
        history = History(str(Path(folder) / "t.lance"), built_by_peer=built_by_peer)
        for step in steps:
            history.step(*step)
            history.check()
        # In the end everything catches up.
        lo.optimize_indices(history.uri)
        assert lo.dataset(history.uri).fragment_reuse is None
        history.check()
