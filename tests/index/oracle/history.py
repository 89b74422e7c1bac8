"""Histories of a table under indices: what either library does to it, and what both must answer after."""

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.index.coverage import coverage
from tests.index.oracle.columns import DIMENSION, WORDS, Indexed, rows


@dataclass
class History:
    """One table on its way.

    Attributes:
        uri: Where it lies.
        indexed: The columns that have an index.
        seed: Of all chance.
        names: Present names of the columns.
        log: What was done, for the message of a failure.
    """

    uri: str
    indexed: Sequence[Indexed]
    seed: int
    stable_row_ids: bool = False
    names: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.next_id = 0
        self.names = {item.column: item.column for item in self.indexed}

    # What is done

    def start(self, ours: set[str]) -> None:
        """Write two fragments and build the indices, those of `ours` by us."""
        lance.write_dataset(
            self.fresh(60), self.uri, max_rows_per_file=30, enable_stable_row_ids=self.stable_row_ids
        )
        for item in self.indexed:
            self.build(item, ours=item.kind in ours)

    def build(self, item: Indexed, *, ours: bool) -> None:
        name = self.names[item.column]
        self.log.append(f"build {item.kind} by {'us' if ours else 'the peer'}")
        if ours:
            lo.create_index(
                self.uri, name, item.kind, name=f"{item.column}_idx", parameters=item.ours, replace=True
            )
            return
        dataset, (call, given) = lance.dataset(self.uri), item.theirs
        if call == "vector":
            dataset.create_index(name, name=f"{item.column}_idx", replace=True, **given)
        elif call == "json":
            config = lance.indices.IndexConfig(
                index_type="json",
                parameters={"target_index_type": given["target"], "path": given["path"]},
            )
            dataset.create_scalar_index(name, config, name=f"{item.column}_idx")
        else:
            dataset.create_scalar_index(name, name=f"{item.column}_idx", **given)

    def fresh(self, count: int) -> pa.Table:
        """Rows with new ids and the present names."""
        made = rows(self.next_id, count, self.rng.randrange(1 << 30))
        self.next_id += count
        return made.rename_columns([self.names.get(name, name) for name in made.column_names])

    def append(self, *, ours: bool) -> None:
        if ours:
            lo.append(self.uri, self.fresh(self.rng.randrange(1, 25)))
        else:
            lance.write_dataset(self.fresh(self.rng.randrange(1, 25)), self.uri, mode="append")

    def delete(self, *, ours: bool) -> None:
        divisor, rest = self.rng.randrange(3, 9), self.rng.randrange(3)
        condition = f"id % {divisor} = {rest}"
        if ours:
            lo.delete(self.uri, condition)
        else:
            lance.dataset(self.uri).delete(condition)

    def update(self, **_: bool) -> None:
        name = self.names[self.indexed[0].column]
        if self.indexed[0].kind == "BTREE":
            lance.dataset(self.uri).update({name: f"{name} + 1"}, where=f"id % 7 = {self.rng.randrange(7)}")

    def upsert(self, **_: bool) -> None:
        new = self.fresh(10)
        old = lance.dataset(self.uri).to_table(columns=["id"], limit=5)["id"]
        ids = pa.concat_arrays([*old.chunks, pa.array(range(self.next_id, self.next_id + 10 - len(old)))])
        self.next_id += 10
        new = new.set_column(0, "id", ids)
        lance.dataset(self.uri).merge_insert(
            "id"
        ).when_matched_update_all().when_not_matched_insert_all().execute(new)

    def compact(self, *, ours: bool, deferred: bool = False) -> None:
        if not ours:
            lance.dataset(self.uri).optimize.compact_files(defer_index_remap=deferred)
            return
        before = self.coverage()
        lo.compact(self.uri, defer_index_remap=deferred)
        after = self.coverage()
        assert all(after[name] >= rows for name, rows in before.items()), (before, after, self.log)

    def optimize(self, *, ours: bool) -> None:
        segments = self.rng.choice([0, 1, 1, 10])
        if not ours:
            lance.dataset(self.uri).optimize.optimize_indices(num_indices_to_merge=segments)
            return
        lo.optimize_indices(self.uri, merge_segments=segments)
        assert set(self.coverage(missing=True).values()) == {0}, self.log

    def restore(self, *, ours: bool) -> None:
        versions = lo.dataset(self.uri).versions()
        chosen = self.rng.choice(versions[-4:]).version
        names = lo.dataset(self.uri, chosen).schema.names
        if not set(self.names.values()) <= set(names) or not lo.dataset(self.uri, chosen).indices:
            return
        if ours:
            lo.restore(self.uri, chosen)
        else:
            lance.dataset(self.uri, version=chosen).restore()

    def cleanup(self, **_: bool) -> None:
        lo.cleanup(self.uri, retain_versions=3)

    def rename(self, **_: bool) -> None:
        item = self.rng.choice(self.indexed)
        name = self.names[item.column]
        other = name + "x" if len(name) < 4 else item.column
        lance.dataset(self.uri).alter_columns({"path": name, "name": other})
        self.names[item.column] = other

    def coverage(self, *, missing: bool = False) -> dict[str, int]:
        """Live rows that each index covers, or misses."""
        return {
            item.name: item.unindexed_rows if missing else item.rows - item.unindexed_rows
            for item in coverage(lo.dataset(self.uri))
        }

    # What both must answer

    def condition(self) -> str:
        """A random condition, of one column or of several."""
        with_conditions = [item for item in self.indexed if item.conditions is not None]
        if not with_conditions:
            return f"id % 5 = {self.rng.randrange(5)}"

        def leaf() -> str:
            item = self.rng.choice(with_conditions)
            assert item.conditions is not None
            return item.conditions(self.rng, self.names[item.column])

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

    def check(self, conditions: int = 6) -> None:
        """Compare answers with indices, without, and by the peer in both ways."""
        ours, theirs = lo.dataset(self.uri), lance.dataset(self.uri)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnreadableIndexWarning)
            for _ in range(conditions):
                self._compare(ours, theirs, self.condition())
            for item in self.indexed:
                if item.kind == "INVERTED":
                    self._compare_text(ours, theirs, self.names[item.column])
                elif item.kind.startswith("IVF"):
                    self._compare_vectors(ours, theirs, self.names[item.column])

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
        vector = np.array([self.rng.gauss(0, 1) for _ in range(DIMENSION)], np.float32)
        query = {"column": name, "q": vector, "k": 7, "nprobes": 100}
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


def _ids(table: pa.Table) -> frozenset[int]:
    ids = table["id"].to_pylist()
    assert len(set(ids)) == len(ids)
    return frozenset(ids)


STEPS: dict[str, Callable[[History], None]] = {
    "append by us": lambda table: table.append(ours=True),
    "append by the peer": lambda table: table.append(ours=False),
    "delete by us": lambda table: table.delete(ours=True),
    "delete by the peer": lambda table: table.delete(ours=False),
    "update by the peer": History.update,
    "merge_insert by the peer": History.upsert,
    "compaction by us": lambda table: table.compact(ours=True),
    "compaction by the peer": lambda table: table.compact(ours=False),
    "deferred compaction by us": lambda table: table.compact(ours=True, deferred=True),
    "deferred compaction by the peer": lambda table: table.compact(ours=False, deferred=True),
    "optimize by us": lambda table: table.optimize(ours=True),
    "optimize by the peer": lambda table: table.optimize(ours=False),
    "restore by us": lambda table: table.restore(ours=True),
    "restore by the peer": lambda table: table.restore(ours=False),
    "cleanup": History.cleanup,
    "rename": History.rename,
}


def run(
    path: Path,
    indexed: Sequence[Indexed],
    seed: int,
    steps: Sequence[str],
    ours: set[str],
    *,
    stable_row_ids: bool = False,
) -> None:
    """One history, with a comparison after each step."""
    table = History(str(path), indexed, seed, stable_row_ids)
    table.start(ours)
    table.check()
    for name in steps:
        table.log.append(name)
        try:
            STEPS[name](table)
        except OSError as error:
            # The peer leaves out what it has not built; whatever it did before that counts all the same.
            if "Not supported" not in str(error) or not name.endswith("by the peer"):
                raise
        table.check()
