"""Everything one can do to a table: what it does to the table, and what it should do to the rows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import lance_ops as lo
from lance_ops.maintenance.metadata import actions
from lance_ops.storage import Store
from lance_ops.table.history.refs import create_tag, delete_tag
from tests.safety.rows import EVERYTHING, Predicate, Row, literal, make_rows, to_arrow
from tests.safety.states import IN_ORDER
from tests.support.table_actions import drop_segments

Rows = list[Row]


@dataclass(frozen=True)
class Action(ABC):
    """One operation.

    `run` does it to a table; `after` says which rows the table then has, given those before and the rows of
    each version.
    """

    changes_rows: ClassVar[bool] = False
    takes_job_key: ClassVar[bool] = True

    @property
    def moves_rows(self) -> bool:
        """Whether rows may be in another order afterwards."""
        return False

    @abstractmethod
    def run(self, store: Store, **options: Any) -> Any: ...

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        return rows

    def applies(self, rows: Rows, versions: dict[int, Rows]) -> bool:
        """Whether the operation can be done at all."""
        return True

    def check(self, dataset: lo.Dataset) -> None:  # noqa: B027 - most have nothing more to look at
        """Look at what rows do not tell, whether the operation was done or not."""


@dataclass(frozen=True)
class Create(Action):
    changes_rows: ClassVar[bool] = True
    first: int = 0
    count: int = 10
    pattern: int = 0
    rows_per_file: int = 4
    stable_row_ids: bool = False

    def run(self, store: Store, **options: Any) -> Any:
        return lo.write_dataset(
            to_arrow(make_rows(self.first, self.count, self.pattern)),
            store,
            max_rows_per_file=self.rows_per_file,
            enable_stable_row_ids=self.stable_row_ids,
            **options,
        )

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        return make_rows(self.first, self.count, self.pattern)


@dataclass(frozen=True)
class Append(Action):
    changes_rows: ClassVar[bool] = True
    first: int = 100
    count: int = 5
    pattern: int = 0
    rows_per_file: int = 3

    def run(self, store: Store, **options: Any) -> Any:
        data = to_arrow(make_rows(self.first, self.count, self.pattern))
        return lo.append(store, data, max_rows_per_file=self.rows_per_file, fill_missing=True, **options)

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        return rows + make_rows(self.first, self.count, self.pattern)


@dataclass(frozen=True)
class Overwrite(Append):
    def run(self, store: Store, **options: Any) -> Any:
        data = to_arrow(make_rows(self.first, self.count, self.pattern))
        return lo.write_dataset(
            data, store, mode="overwrite", max_rows_per_file=self.rows_per_file, **options
        )

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        return make_rows(self.first, self.count, self.pattern)


@dataclass(frozen=True)
class ReplaceWhere(Append):
    """Puts those of the new rows that the predicate selects in the place of those that it selects now."""

    predicate: Predicate = EVERYTHING

    @property
    def new(self) -> Rows:
        return self.predicate.select(make_rows(self.first, self.count, self.pattern))

    def run(self, store: Store, **options: Any) -> Any:
        return lo.replace_where(
            store,
            to_arrow(self.new),
            self.predicate.sql,
            max_rows_per_file=self.rows_per_file,
            allow_empty=True,
            runner=IN_ORDER,
            **options,
        )

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        gone = set(self.predicate.select(rows))
        return [*(item for item in rows if item not in gone), *self.new]


@dataclass(frozen=True)
class Delete(Action):
    changes_rows: ClassVar[bool] = True
    predicate: Predicate = EVERYTHING

    def run(self, store: Store, **options: Any) -> Any:
        return lo.delete(store, self.predicate.sql, runner=IN_ORDER, **options)

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        gone = set(self.predicate.select(rows))
        return [item for item in rows if item not in gone]


@dataclass(frozen=True)
class Update(Action):
    """Gives rows another text, which moves them to the end."""

    changes_rows: ClassVar[bool] = True
    predicate: Predicate = EVERYTHING
    text: str = "ab"

    def run(self, store: Store, **options: Any) -> Any:
        return lo.update(store, {"s": literal(self.text)}, self.predicate.sql, runner=IN_ORDER, **options)

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        changed = self.predicate.select(rows)
        return [*(row for row in rows if row not in changed), *(row._replace(s=self.text) for row in changed)]


@dataclass(frozen=True)
class Upsert(Action):
    """Replaces the rows whose ids exist, and adds the others."""

    changes_rows: ClassVar[bool] = True
    first: int = 0
    count: int = 4
    pattern: int = 0

    @property
    def moves_rows(self) -> bool:
        return True

    def run(self, store: Store, **options: Any) -> Any:
        data = to_arrow(make_rows(self.first, self.count, self.pattern))
        clauses: Any = {"when_matched": "update_all", "when_not_matched": "insert_all"}
        return lo.merge_insert(store, data, "id", **clauses, runner=IN_ORDER, **options)

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        new = make_rows(self.first, self.count, self.pattern)
        ids = {row.id for row in new}
        return [*(row for row in rows if row.id not in ids), *new]


@dataclass(frozen=True)
class Compact(Action):
    target: int = 1 << 20
    threshold: float = 0.1
    commit_every: int | None = None
    defer: bool = False

    @property
    def moves_rows(self) -> bool:
        return True

    def run(self, store: Store, **options: Any) -> Any:
        return lo.compact(
            store,
            method="copy" if self.target % 2 else "rewrite",
            target_rows_per_fragment=self.target,
            materialize_deletions_threshold=self.threshold,
            commit_every=self.commit_every,
            defer_index_remap=self.defer,
            runner=IN_ORDER,
            **options,
        )


@dataclass(frozen=True)
class CreateIndex(Action):
    column: str = "v"
    rows_per_task: int = 1 << 22

    def run(self, store: Store, **options: Any) -> Any:
        return lo.create_index(
            store, self.column, replace=True, rows_per_task=self.rows_per_task, runner=IN_ORDER, **options
        )


@dataclass(frozen=True)
class OptimizeIndices(Action):
    merge_segments: int = 1
    rebuild: bool = False

    def run(self, store: Store, **options: Any) -> Any:
        return lo.optimize_indices(
            store, merge_segments=self.merge_segments, rebuild=self.rebuild, runner=IN_ORDER, **options
        )


@dataclass(frozen=True)
class DropIndex(Action):
    """Drops an index if there is one."""

    position: int = 0

    def run(self, store: Store, **options: Any) -> Any:
        dataset = lo.Dataset.open(store)
        names = sorted({index.name for index in dataset.indices})
        return drop_segments(dataset, names[self.position % len(names)], **options) if names else None


@dataclass(frozen=True)
class Cleanup(Action):
    takes_job_key: ClassVar[bool] = False
    retain: int = 1
    delete_unverified: bool = False

    def run(self, store: Store, **options: Any) -> Any:
        return lo.cleanup(
            store,
            older_than=timedelta(0),
            retain_versions=self.retain,
            delete_unverified=self.delete_unverified,
            **options,
        )


@dataclass(frozen=True)
class Restore(Action):
    changes_rows: ClassVar[bool] = True
    version: int = 1

    def run(self, store: Store, **options: Any) -> Any:
        return actions.restore(lo.Dataset.open(store), self.version, **options)

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        return versions[self.version]

    def applies(self, rows: Rows, versions: dict[int, Rows]) -> bool:
        return self.version in versions


@dataclass(frozen=True)
class UpdateConfig(Action):
    key: str = "team"
    value: str = "blue"

    def run(self, store: Store, **options: Any) -> Any:
        return actions.update_config(lo.Dataset.open(store), {self.key: self.value}, **options)


@dataclass(frozen=True)
class Tag(Action):
    takes_job_key: ClassVar[bool] = False
    name: str = "t1"
    version: int = 1

    def run(self, store: Store, **options: Any) -> Any:
        dataset = lo.Dataset.open(store)
        if self.name in dataset.tags:
            delete_tag(store, self.name)
        return create_tag(store, self.name, self.version)

    def applies(self, rows: Rows, versions: dict[int, Rows]) -> bool:
        return self.version in versions


@dataclass(frozen=True)
class Then(Action):
    """Several operations one after the other, as the work of another writer."""

    parts: tuple[Action, ...] = ()

    @property
    def moves_rows(self) -> bool:
        return any(part.moves_rows for part in self.parts)

    def run(self, store: Store, **options: Any) -> Any:
        return [part.run(store) for part in self.parts]

    def after(self, rows: Rows, versions: dict[int, Rows]) -> Rows:
        for part in self.parts:
            rows = part.after(rows, versions)
        return rows
