"""Histories of a table under indices: what either library does to it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa

import lance_ops as lo
from lance_ops.index.coverage import coverage
from tests.index.oracle.answers import Answers
from tests.index.oracle.columns import Indexed, rows

EXTRA = "extra"
"""How names of columns begin that histories add."""


@dataclass
class History:
    """One table on its way.

    Attributes:
        uri: Where it lies: the table itself, a branch, or a clone that took its place.
        indexed: The columns that have an index.
        seed: Of all chance.
        first_rows: That it begins with.
        left: Tables that a branch or clone has taken the place of, with the ids in them.
        log: What was done, for the message of a failure.
    """

    uri: str
    indexed: Sequence[Indexed]
    seed: int
    stable_row_ids: bool = False
    first_rows: int = 60
    left: list[tuple[str, list[int]]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.next_id = 0
        self.answers = Answers(self.rng, self.log, self.stable_row_ids)

    @property
    def names(self) -> dict[str, str]:
        """Present names of those columns that are there."""
        there = lo.dataset(self.uri).schema.names
        renamed = {item.column: f"{item.column}x" for item in self.indexed}
        found = {name: name if name in there else other for name, other in renamed.items()}
        return {name: other for name, other in found.items() if other in there}

    def check(self) -> None:
        """Compare answers about all columns; what was left behind is as it was."""
        names = self.names
        self.answers.check(
            self.uri, [(item, names[item.column]) for item in self.indexed if item.column in names]
        )
        for uri, ids in self.left:
            assert lo.dataset(uri).to_table(["id"])["id"].to_pylist() == ids, self.log

    # What is done

    def start(self, ours: set[str]) -> None:
        """Write two fragments and build the indices, those of `ours` by us."""
        lance.write_dataset(
            rows(0, self.first_rows, self.rng.randrange(1 << 30), self.indexed),
            self.uri,
            max_rows_per_file=self.first_rows // 2,
            enable_stable_row_ids=self.stable_row_ids,
        )
        self.next_id = self.first_rows
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

    def rebuild(self, *, ours: bool) -> None:
        item = self.rng.choice(self.indexed)
        if item.column in self.names:
            self.build(item, ours=ours)

    def drop(self, *, ours: bool) -> None:
        names = sorted(
            index.name for index in lo.describe_indices(lo.dataset(self.uri)) if index.name.endswith("_idx")
        )
        if names and ours:
            lo.drop_index(self.uri, self.rng.choice(names))
        elif names:
            lance.dataset(self.uri).drop_index(self.rng.choice(names))

    def fresh(self, count: int) -> pa.Table:
        """Rows with new ids, in the present columns and types."""
        made = rows(self.next_id, count, self.rng.randrange(1 << 30), self.indexed)
        self.next_id += count
        names = self.names
        columns = {names[name]: made[name] for name in made.column_names if name in names}
        schema = lance.dataset(self.uri).schema
        arrays = [
            columns[one.name].cast(one.type)
            if one.name in columns and columns[one.name].type != one.type
            else columns.get(one.name, made["id"])
            for one in schema
        ]
        return pa.table(arrays, schema.names)

    def append(self, *, ours: bool) -> None:
        new = self.fresh(self.rng.randrange(1, max(self.first_rows // 3, 2)))
        if ours:
            lo.append(self.uri, new)
        else:
            lance.write_dataset(new, self.uri, mode="append")

    def delete(self, *, ours: bool) -> None:
        divisor, rest = self.rng.randrange(3, 9), self.rng.randrange(3)
        condition = f"id % {divisor} = {rest}"
        if ours:
            lo.delete(self.uri, condition)
        else:
            lance.dataset(self.uri).delete(condition)

    def update(self, **_: bool) -> None:
        name = self.names.get(self.indexed[0].column)
        if self.indexed[0].kind == "BTREE" and name == "i":
            lance.dataset(self.uri).update({name: f"{name} + 1"}, where=f"id % 7 = {self.rng.randrange(7)}")
        elif name is not None:
            lance.dataset(self.uri).update({"id": "id + 100000"}, where=f"id % 7 = {self.rng.randrange(7)}")

    def upsert(self, **_: bool) -> None:
        new = self.fresh(10)
        old = lance.dataset(self.uri).to_table(columns=["id"], limit=5)["id"]
        ids = pa.concat_arrays([*old.chunks, pa.array(range(self.next_id, self.next_id + 10 - len(old)))])
        self.next_id += 10
        new = new.set_column(new.column_names.index("id"), "id", ids)
        lance.dataset(self.uri).merge_insert(
            "id"
        ).when_matched_update_all().when_not_matched_insert_all().execute(new)

    def compact(self, *, ours: bool, deferred: bool = False) -> None:
        if not ours:
            if deferred or not self.left:
                # What the peer moves along on a clone it looks for where the original is, and fails.
                lance.dataset(self.uri).optimize.compact_files(defer_index_remap=deferred)
            return
        before = self.coverage()
        lo.compact(self.uri, defer_index_remap=deferred, method=self.rng.choice(["copy", "rewrite"]))
        after = self.coverage()
        assert all(after[name] >= rows for name, rows in before.items()), (before, after, self.log)

    def optimize(self, *, ours: bool) -> None:
        segments = self.rng.choice([0, 1, 1, 10])
        if not ours:
            lance.dataset(self.uri).optimize.optimize_indices(num_indices_to_merge=segments)
            return
        lo.optimize_indices(self.uri, merge_segments=segments)
        assert set(self.coverage(missing=True).values()) <= {0}, self.log

    def restore(self, *, ours: bool) -> None:
        versions = lo.dataset(self.uri).versions()
        chosen = self.rng.choice(versions[-4:]).version
        if ours:
            lo.restore(self.uri, chosen)
        else:
            lance.dataset(self.uri).checkout_version(chosen).restore()

    def cleanup(self, **_: bool) -> None:
        if not self.left:
            # What shares files with another table is left alone.
            lo.cleanup(self.uri, retain_versions=3)

    # What is done to the columns

    def rename(self, **_: bool) -> None:
        names = self.names
        if not names:
            return
        column, name = self.rng.choice(sorted(names.items()))
        other = f"{column}x" if name == column else column
        lance.dataset(self.uri).alter_columns({"path": name, "name": other})

    def drop_column(self, *, ours: bool) -> None:
        names = lo.dataset(self.uri).schema.names
        name = self.rng.choice([name for name in names if name != "id"] or [""])
        if name and ours:
            lo.drop_columns(self.uri, [name])
        elif name:
            lance.dataset(self.uri).drop_columns([name])

    def add_column(self, **_: bool) -> None:
        names = lo.dataset(self.uri).schema.names
        lance.dataset(self.uri).add_columns({f"{EXTRA}{len(names)}_{self.rng.randrange(1000)}": "id * 2"})

    def cast(self, **_: bool) -> None:
        wider = {
            pa.int64(): pa.int32(),
            pa.int32(): pa.int64(),
            pa.string(): pa.large_string(),
            pa.large_string(): pa.string(),
            pa.float32(): pa.float64(),
            pa.float64(): pa.float32(),
        }
        schema, names = lance.dataset(self.uri).schema, self.names
        fits = [one for one in schema if one.name in names.values() and one.type in wider]
        if not fits:
            return
        chosen = self.rng.choice(fits)
        item = next(item for item in self.indexed if names.get(item.column) == chosen.name)
        if any(index.name == f"{item.column}_idx" for index in lo.dataset(self.uri).indices):
            # The peer casts nothing under an index.
            lo.drop_index(self.uri, f"{item.column}_idx")
        lance.dataset(self.uri).alter_columns({"path": chosen.name, "data_type": wider[chosen.type]})
        self.build(item, ours=self.rng.random() < 0.5)

    def overwrite(self, *, ours: bool) -> None:
        """Other rows in other columns: what was indexed is there, but elsewhere among the fields."""
        made = rows(self.next_id, self.first_rows, self.rng.randrange(1 << 30), self.indexed)
        self.next_id += self.first_rows
        made = made.select(made.column_names[::-1]).add_column(0, f"{EXTRA}0", made["id"])
        if ours:
            lo.write_dataset(made, self.uri, mode="overwrite")
        else:
            lance.write_dataset(made, self.uri, mode="overwrite")
        for item in self.indexed:
            self.build(item, ours=self.rng.random() < 0.5)

    # Where it goes on

    def branch(self, **_: bool) -> None:
        self._go_on(lance.dataset(self.uri).create_branch(f"b{self.rng.randrange(1 << 30)}").uri)

    def clone(self, *, ours: bool) -> None:
        target = f"{self.uri.split('/tree/')[0]}.clone{self.rng.randrange(1 << 30)}"
        if ours:
            lo.shallow_clone(self.uri, target)
        else:
            dataset = lance.dataset(self.uri)
            dataset.shallow_clone(target, dataset.version)
        self._go_on(target)

    def _go_on(self, uri: str) -> None:
        self.left.append((self.uri, lo.dataset(self.uri).to_table(["id"])["id"].to_pylist()))
        self.uri = uri

    def coverage(self, *, missing: bool = False) -> dict[str, int]:
        """Live rows that each index covers, or misses."""
        return {
            item.name: item.unindexed_rows if missing else item.rows - item.unindexed_rows
            for item in coverage(lo.dataset(self.uri))
        }


def _by_either(name: str, step: Callable[..., None]) -> dict[str, Callable[[History], None]]:
    return {
        f"{name} by us": lambda table: step(table, ours=True),
        f"{name} by the peer": lambda table: step(table, ours=False),
    }


STEPS: dict[str, Callable[[History], None]] = {
    **_by_either("append", History.append),
    **_by_either("delete", History.delete),
    "update by the peer": History.update,
    "merge_insert by the peer": History.upsert,
    **_by_either("compaction", History.compact),
    **_by_either("deferred compaction", lambda table, *, ours: table.compact(ours=ours, deferred=True)),
    **_by_either("optimize", History.optimize),
    **_by_either("restore", History.restore),
    "cleanup": History.cleanup,
    "rename by the peer": History.rename,
}
"""What leaves every column and index where it is."""
COLUMN_STEPS: dict[str, Callable[[History], None]] = {
    **_by_either("drop of a column", History.drop_column),
    "add_columns by the peer": History.add_column,
    "cast by the peer": History.cast,
    **_by_either("overwrite", History.overwrite),
    **_by_either("drop of an index", History.drop),
    **_by_either("build", History.rebuild),
    "branch by the peer": History.branch,
    **_by_either("clone", History.clone),
}
ALL_STEPS = STEPS | COLUMN_STEPS


def run(
    path: Path,
    indexed: Sequence[Indexed],
    seed: int,
    steps: Sequence[str],
    ours: set[str],
    *,
    stable_row_ids: bool = False,
    first_rows: int = 60,
) -> Answers:
    """One history, with a comparison after each step."""
    table = History(str(path), indexed, seed, stable_row_ids, first_rows)
    table.start(ours)
    table.check()
    for name in steps:
        table.log.append(name)
        try:
            ALL_STEPS[name](table)
        except OSError as error:
            # The peer leaves out what it has not built; whatever it did before that counts all the same.
            if "Not supported" not in str(error) or not name.endswith("by the peer"):
                raise
        table.check()
    return table.answers
