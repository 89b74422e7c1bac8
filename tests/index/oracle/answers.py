"""What a table under indices must answer: with them, without, and by the peer in both ways the same."""

import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import lance
import numpy as np
import pyarrow as pa

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.table.manifest.fragment_reuse.read import FRAGMENT_REUSE_INDEX
from tests.index.oracle.columns import DIMENSION, WORDS, Indexed

NEAR = 10


@dataclass
class Answers:
    """Questions to one table.

    Attributes:
        rng: Of all chance.
        log: What was done to the table, for the message of a failure.
        stable_row_ids: Whether it has them.
        found: Of all approximate searches, the nearest that we found with the index, and the peer.
    """

    rng: random.Random
    log: list[str]
    stable_row_ids: bool = False
    found: list[tuple[int, int]] = field(default_factory=list)

    def check(self, uri: str, indexed: Sequence[tuple[Indexed, str]], conditions: int = 6) -> None:
        """Compare the answers to random questions about columns, each given with its present name."""
        ours, theirs = lo.dataset(uri), lance.dataset(uri)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnreadableIndexWarning)
            for _ in range(conditions):
                self._compare(ours, theirs, self.condition(indexed))
            for item, name in indexed:
                if item.kind == "INVERTED":
                    self._compare_text(ours, theirs, name)
                elif item.kind == "IVF_FLAT":
                    self._compare_vectors(ours, theirs, name)
                elif item.kind.startswith("IVF"):
                    self._compare_nearest(ours, theirs, name, item.kind)

    def condition(self, indexed: Sequence[tuple[Indexed, str]]) -> str:
        """A random condition, of one column or of several."""
        with_conditions = [(item.conditions, name) for item, name in indexed if item.conditions is not None]
        if not with_conditions:
            return f"id % 5 = {self.rng.randrange(5)}"

        def leaf() -> str:
            make, name = self.rng.choice(with_conditions)
            return make(self.rng, name)

        shape = self.rng.randrange(6)
        if shape < 3:
            return leaf()
        one, other, third = leaf(), leaf(), leaf()
        if sum("NOT IN" in part for part in (one, other, third)) > 1:
            # Of two on one column, joined by OR, the peer makes a condition that also nulls meet.
            return one
        return [
            f"({one}) AND ({other})",
            f"({one}) OR ({other})",
            f"NOT ({one}) AND (({other}) OR ({third}))",
        ][shape - 3]

    def _compare(self, ours: lo.Dataset, theirs: "lance.LanceDataset", condition: str) -> None:
        scanned = _ids(ours.to_table(["id"], filter=condition, pruners=()))
        found = _ids(ours.to_table(["id"], filter=condition))
        told = _ids(theirs.to_table(columns=["id"], filter=condition, use_scalar_index=False))
        peers = _ids(theirs.to_table(columns=["id"], filter=condition))
        assert found == scanned == told, (condition, self.log, found ^ scanned, scanned ^ told)
        assert ours.count_rows(condition) == len(scanned), (condition, self.log)
        assert peers == told, ("the peer with the indices", condition, self.log, peers ^ told)

    def _compare_text(self, ours: lo.Dataset, theirs: "lance.LanceDataset", name: str) -> None:
        words = " ".join(self.rng.sample(WORDS, self.rng.randrange(1, 3)))
        query = {"query": words, "columns": [name]}
        if not any(index.field_names == (name,) for index in lo.describe_indices(ours)):
            return
        found = ours.to_table(["id"], full_text_query=query, limit=1000)
        told = theirs.to_table(columns=["id"], full_text_query=query, limit=1000)
        mine = dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))
        peers = dict(zip(told["id"].to_pylist(), told["_score"].to_pylist(), strict=True))
        stored = ours.to_table(["id", name])
        texts = zip(stored["id"].to_pylist(), stored[name].to_pylist(), strict=True)
        right = {number for number, text in texts if text and not set(text.split()).isdisjoint(words.split())}
        assert mine.keys() == right, (words, self.log, mine.keys() ^ right)
        if self.stable_row_ids:
            # The peer also finds rows by words that an update has taken from them, in its own indices, too.
            return
        assert peers.keys() == right, (words, self.log, peers.keys() ^ right)
        assert np.allclose([mine[key] for key in peers], list(peers.values()), atol=1e-5), (words, self.log)

    def _compare_vectors(self, ours: lo.Dataset, theirs: "lance.LanceDataset", name: str) -> None:
        query = {"column": name, "q": self._vector(), "k": 7, "nprobes": 100}
        found = ours.to_table(["id"], nearest=query)
        scanned = ours.to_table(["id"], nearest={**query, "use_index": False})
        told = theirs.to_table(columns=["id"], nearest=query)
        mine, all_rows, peers = (table["id"].to_pylist() for table in (found, scanned, told))
        assert mine == all_rows, (self.log, mine, all_rows)
        if self.stable_row_ids:
            # The peer counts rows that a compaction has dropped among the nearest, in its own indices, too.
            assert [number for number in mine if number in peers] == peers, (self.log, mine, peers)
            return
        assert mine == peers, (self.log, mine, peers)
        assert np.allclose(found["_distance"], told["_distance"], rtol=1e-4), self.log

    def _compare_nearest(self, ours: lo.Dataset, theirs: "lance.LanceDataset", name: str, kind: str) -> None:
        """The nearest of an index that is not exact; how many of the true ones are counted into `found`."""
        stored = ours.to_table(["id", name])
        vectors = {
            number: vector
            for number, vector in zip(stored["id"].to_pylist(), stored[name].to_pylist(), strict=True)
            if vector is not None
        }
        # The peer takes rows out of what a graph numbers: after a deferred compaction it searches none.
        lost = "HNSW" in kind and any(index.name == FRAGMENT_REUSE_INDEX for index in ours.indices)
        for _ in range(4):
            query = {"column": name, "q": self._vector(), "k": NEAR, "nprobes": 100}
            right = ours.to_table(["id"], nearest={**query, "use_index": False})["id"].to_pylist()
            found = ours.to_table(["id"], nearest=query)["id"].to_pylist()
            assert len(set(found)) == len(found) == min(NEAR, len(vectors)), (self.log, found)
            assert vectors.keys() >= set(found), (self.log, found)
            if lost:
                continue
            told = theirs.to_table(columns=["id"], nearest=query)["id"].to_pylist()
            self.found.append((len({*right} & {*found}), len({*right} & {*told})))
        newest = max(vectors, default=None)
        if newest is not None:
            query = {"column": name, "q": np.array(vectors[newest], np.float32), "k": NEAR, "nprobes": 100}
            refined = ours.to_table(["id"], nearest={**query, "refine_factor": 1000})["id"].to_pylist()
            assert refined[0] == newest, (self.log, newest, refined)

    def _vector(self) -> np.ndarray:
        return np.array([self.rng.gauss(0, 1) for _ in range(DIMENSION)], np.float32)

    def recall(self) -> tuple[float, float]:
        """Shares of the nearest that we found with the index, and the peer."""
        count = NEAR * max(len(self.found), 1)
        return sum(mine for mine, _ in self.found) / count, sum(told for _, told in self.found) / count


def _ids(table: pa.Table) -> frozenset[int]:
    ids = table["id"].to_pylist()
    assert len(set(ids)) == len(ids)
    return frozenset(ids)
