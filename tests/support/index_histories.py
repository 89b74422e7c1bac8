"""Histories of an indexed table: with the index and without, both libraries select the same after every step.

A test says what a column holds, how the index is made and what is asked; hypothesis says what happens to the
table. What selects rows without an index is the measure.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.index.coverage import coverage
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.index.upkeep.reuse_needs import needed_generations

ACTIONS = (
    "append",
    "delete",
    "update",
    "merge",
    "compact",
    "defer",
    "optimize",
    "rebuild",
    "restore",
    "overwrite",
)

Steps = list[tuple[str, bool, int]]


def steps(most: int = 5, actions: Sequence[str] = ACTIONS) -> st.SearchStrategy[Steps]:
    """What happens: (action, whether the peer does it, a number to choose by)."""
    step = st.tuples(st.sampled_from(actions), st.booleans(), st.integers(0, 30))
    return st.lists(step, min_size=1, max_size=most)


@dataclass
class IndexHistory:
    """A table with one index, and what both libraries do to it.

    Attributes:
        uri: Where it is.
        values: The values of rows by their numbers: the same number gives the same values.
        column: The indexed column.
        kind: Kind of the index.
        parameters: How it is made.
        filters: What is asked.
        used: A filter of which the plans of both libraries show that they use the index.
        stable: Whether rows have stable ids.
        fragments: Fragments of 12 rows to begin with.
        deltas: Whether segments are added beside others: of several with row ids, release 14.0.2 believes
            an older one what an update has changed since.
    """

    uri: Path
    values: Callable[[Sequence[int]], pa.Table]
    column: str
    kind: str
    filters: Sequence[str]
    used: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    stable: bool = False
    fragments: int = 3
    rows_of_fragment: int = 12
    first_by_peer: bool = False
    peer_answers: bool = True
    deltas: bool = True
    number: int = 0

    def start(self) -> None:
        """Write the table and build the index."""
        for _ in range(self.fragments):
            self._append(by_peer=False)
        self._build(by_peer=self.first_by_peer)
        self.check()
        self.check_used()

    @property
    def peer(self) -> lance.LanceDataset:
        """The table as the peer opens it."""
        return lance.dataset(str(self.uri))

    @property
    def name(self) -> str:
        """Of the index."""
        return f"{self.column}_idx"

    def covered(self) -> float:
        """Share of rows that the index covers."""
        found = {item.name: item.ratio for item in coverage(lo.dataset(self.uri))}
        return found.get(self.name, 0.0)

    def waits(self) -> bool:
        """Whether a segment has to follow a compaction yet."""
        dataset = lo.dataset(self.uri)
        return any(needed_generations(dataset, segment) for segment in dataset.indices)

    def run(self, happens: Steps) -> None:
        """Do it all, and look after every step."""
        self.start()
        for name, by_peer, number in happens:
            before = self.covered()
            self._step(name, by_peer, number)
            self.check()
            if name in ("compact", "defer") and not by_peer:
                assert self.covered() >= before - 1e-9
            if name in ("optimize", "rebuild") and not by_peer and lo.dataset(self.uri).count_rows():
                assert self.covered() == 1
                self.check_used()
        report = lo.fsck(self.uri, deep=True)
        assert report.ok, str(report)

    def check(self) -> None:
        """All ways to select rows agree."""
        dataset = lo.dataset(self.uri)
        for sql in self.filters:
            scanned = dataset.scanner(["id"], sql, pruners=[]).to_table()["id"].to_pylist()
            with warnings.catch_warnings():
                warnings.simplefilter("error", UnreadableIndexWarning)
                pruned = dataset.scanner(["id"], sql, pruners=[IndexPruner()]).to_table()["id"].to_pylist()
            assert pruned == scanned, sql
            if self.peer_answers:
                assert sorted(self.peer.to_table(columns=["id"], filter=sql)["id"].to_pylist()) == sorted(
                    scanned
                ), sql

    def check_used(self) -> None:
        """Both libraries use the index."""
        dataset = lo.dataset(self.uri)
        pruning = IndexPruner().prune(dataset, dataset.parse_filter(self.used))
        assert pruning is not None, self.used
        assert pruning.covered_fragment_ids
        assert "ScalarIndexQuery" in self.peer.scanner(filter=self.used).explain_plan(), self.used

    def _step(self, name: str, by_peer: bool, number: int) -> None:
        match name:
            case "append":
                self._append(by_peer=by_peer)
            case "delete":
                doomed = f"id % 7 = {number % 7}" if number % 2 else f"id < {number}"
                if by_peer:
                    self.peer.delete(doomed)
                else:
                    lo.delete(self.uri, doomed)
            case "update":
                if self.peer.count_rows():
                    self.peer.update({"other": "other + 1"}, where=f"id % 5 = {number % 5}")
            case "merge":
                ids = [number, number + 1, self.number, self.number + 1]
                self.number += 2
                changed = self.values([one + 3 for one in ids]).set_column(0, "id", pa.array(ids, pa.int64()))
                merge = self.peer.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
                merge.execute(changed)
            case "compact":
                self._compact(by_peer=by_peer, number=number, defer=by_peer and self.waits())
            case "defer":
                self._compact(by_peer=by_peer, number=number, defer=not self.stable)
            case "optimize":
                merged = number % 3 if self.deltas else 1 + number % 2
                if by_peer:
                    self.peer.optimize.optimize_indices(num_indices_to_merge=merged)
                else:
                    lo.optimize_indices(self.uri, merge_segments=merged)
            case "rebuild":
                self._build(by_peer=by_peer)
            case "restore":
                versions = [version.version for version in lo.dataset(self.uri).versions()]
                version = versions[-1 - number % min(4, len(versions))]
                if any(index.name == self.name for index in lo.dataset(self.uri, version).indices):
                    lo.restore(self.uri, version)
            case "overwrite":
                self.number += 20
                rows = self.values(range(self.number - 20, self.number))
                lo.write_dataset(rows, self.uri, mode="overwrite")
                self._build(by_peer=by_peer)

    def _append(self, *, by_peer: bool) -> None:
        rows = self.values(range(self.number, self.number + self.rows_of_fragment))
        mode = "append" if self.number else "create"
        self.number += self.rows_of_fragment
        if by_peer:
            lance.write_dataset(rows, str(self.uri), mode=mode)
        elif mode == "create":
            lo.write_dataset(rows, self.uri, enable_stable_row_ids=self.stable)
        else:
            lo.append(self.uri, rows)

    def _build(self, *, by_peer: bool) -> None:
        if not by_peer:
            lo.create_index(self.uri, self.column, self.kind, replace=True, parameters=dict(self.parameters))
            return
        config = lance.indices.IndexConfig(
            index_type=self.kind.lower().replace("_", ""), parameters=dict(self.parameters)
        )
        self.peer.create_scalar_index(self.column, config, name=self.name, replace=True)

    def _compact(self, *, by_peer: bool, number: int, defer: bool) -> None:
        target = (15, 40, 200)[number % 3]
        if not by_peer:
            method = ("copy", "rewrite")[number % 2]
            lo.compact(self.uri, target_rows_per_fragment=target, defer_index_remap=defer, method=method)
            return
        self.peer.optimize.compact_files(
            target_rows_per_fragment=target, defer_index_remap=defer, materialize_deletions_threshold=0.05
        )
