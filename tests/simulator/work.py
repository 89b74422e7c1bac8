"""Work of simulated processes: what each operation does to a table, and to the rows of the model.

Rows are pairs of `id` and `k`. An append brings ids that no other work brings, and an update adds to `k`, so
that work that is lost or done twice shows in the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, ClassVar

import pyarrow as pa

import lance_ops as lo
from lance_ops.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.storage import Store
from lance_ops.table.commit.loop import commit
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.transaction.operations import Append as AppendOperation

Rows = Mapping[int, int]
States = Mapping[int, Rows]

WORK = "simulator.work"
"""Property of a transaction with the number of its work."""

INLINE = LocalRunner(1)
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])


def table_of(rows: Rows) -> pa.Table:
    return pa.table([list(rows), list(rows.values())], SCHEMA)


def new_rows(first: int, count: int, value: int = 1) -> dict[int, int]:
    return dict.fromkeys(range(first, first + count), value)


@dataclass(frozen=True)
class Work:
    """One operation.

    Attributes:
        number: Unique in a history; it identifies the commits of this work.
        keyed: It runs under a job key, so that it may run again.
    """

    number: int
    keyed: bool = False
    changes_rows: ClassVar[bool] = True

    def run(self, store: Store, shared: dict[int, Any]) -> Any:
        options: dict[str, Any] = {"properties": {WORK: str(self.number)}}
        if self.keyed:
            options["job_key"] = f"job-{self.number}"
        return self.act(store, options, shared)

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        raise NotImplementedError

    def after(self, rows: Rows, states: States) -> Rows:
        return rows

    def describe(self) -> str:
        inside = ", ".join(
            f"{item.name}={getattr(self, item.name)}"
            for item in fields(self)
            if item.name not in ("number", "keyed") and getattr(self, item.name) != item.default
        )
        return f"{type(self).__name__}({inside}){' under a job key' if self.keyed else ''}"


@dataclass(frozen=True)
class Append(Work):
    first: int = 100
    count: int = 2

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        return lo.append(store, table_of(new_rows(self.first, self.count)), fill_missing=True, **options)

    def after(self, rows: Rows, states: States) -> Rows:
        return {**rows, **new_rows(self.first, self.count)}


@dataclass(frozen=True)
class Overwrite(Append):
    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        return lo.write_dataset(
            table_of(new_rows(self.first, self.count)), store, mode="overwrite", **options
        )

    def after(self, rows: Rows, states: States) -> Rows:
        return new_rows(self.first, self.count)


@dataclass(frozen=True)
class Delete(Work):
    low: int = 0
    high: int = 3

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        return lo.delete(store, f"id >= {self.low} AND id < {self.high}", runner=INLINE, **options)

    def after(self, rows: Rows, states: States) -> Rows:
        return {number: value for number, value in rows.items() if not self.low <= number < self.high}


@dataclass(frozen=True)
class Update(Delete):
    """Adds to `k`; the new rows are written behind the others, or the column is written again in place."""

    plus: int = 10
    in_place: bool = False

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        return lo.update(
            store,
            {"k": f"k + {self.plus}"},
            f"id >= {self.low} AND id < {self.high}",
            rewrite="columns" if self.in_place else "rows",
            runner=INLINE,
            **options,
        )

    def after(self, rows: Rows, states: States) -> Rows:
        return {
            number: value + self.plus if self.low <= number < self.high else value
            for number, value in rows.items()
        }


@dataclass(frozen=True)
class Upsert(Work):
    first: int = 0
    count: int = 3
    value: int = 5

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        return lo.merge_insert(
            store,
            table_of(new_rows(self.first, self.count, self.value)),
            "id",
            when_matched="update_all",
            when_not_matched="insert_all",
            runner=INLINE,
            **options,
        )

    def after(self, rows: Rows, states: States) -> Rows:
        return {**rows, **new_rows(self.first, self.count, self.value)}


@dataclass(frozen=True)
class ReplaceWhere(Delete):
    value: int = 7

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        rows = new_rows(self.low, self.high - self.low, self.value)
        where = f"id >= {self.low} AND id < {self.high}"
        return lo.replace_where(store, table_of(rows), where, fill_missing=True, runner=INLINE, **options)

    def after(self, rows: Rows, states: States) -> Rows:
        return {**rows, **new_rows(self.low, self.high - self.low, self.value)}


@dataclass(frozen=True)
class Restore(Work):
    """Goes back some versions."""

    back: int = 1

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        dataset = lo.Dataset.open(store)
        version = max(1, dataset.version - self.back)
        try:
            return lo.restore(store, version, **options)
        except NotFoundError:
            return None


@dataclass(frozen=True)
class Finish(Work):
    """Commits files that another process wrote; several processes may do it at once."""

    writer: int = 0
    first: int = 500
    count: int = 2

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        key = f"files-{self.writer}"
        if self.writer not in shared:
            rows = table_of(new_rows(self.first, self.count))
            written = lo.write_fragments(rows, store, fill_missing=True, job_key=key)
            shared.setdefault(self.writer, (written, lo.Dataset.open(store).version))
        fragments, version = shared[self.writer]
        properties = {WORK: str(self.number)}
        operation = AppendOperation(tuple(fragments))
        request = CommitRequest(operation, read_version=version, job_key=key, properties=properties)
        return commit(store, request)

    def after(self, rows: Rows, states: States) -> Rows:
        return {**rows, **new_rows(self.first, self.count)}


@dataclass(frozen=True)
class Neutral(Work):
    """Work that changes no row."""

    changes_rows: ClassVar[bool] = False


@dataclass(frozen=True)
class Compact(Neutral):
    target: int = 1 << 20
    method: str = "rewrite"
    every: int | None = None
    defer: bool = False

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        return lo.compact(
            store,
            method=self.method,
            target_rows_per_fragment=self.target,
            commit_every=self.every,
            defer_index_remap=self.defer,
            resume=False,
            runner=INLINE,
            **options,
        )


@dataclass(frozen=True)
class CreateIndex(Neutral):
    column: str = "k"
    kind: str = "BTREE"

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        return lo.create_index(store, self.column, self.kind, replace=True, runner=INLINE, **options)


@dataclass(frozen=True)
class OptimizeIndices(Neutral):
    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        return lo.optimize_indices(store, runner=INLINE, **options)


@dataclass(frozen=True)
class DropIndex(Neutral):
    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        names = sorted({index.name for index in lo.Dataset.open(store).indices if not index.is_system})
        return lo.drop_index(store, names[0], **options) if names else None


@dataclass(frozen=True)
class Configure(Neutral):
    key: str = "team"

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        return lo.update_config(store, {self.key: str(self.number)}, **options)


@dataclass(frozen=True)
class AddColumn(Neutral):
    """Adds `w`, twice the id."""

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        try:
            return lo.add_columns(store, {"w": "id * 2"}, runner=INLINE, **options)
        except (AlreadyExistsError, InvalidArgumentError):
            return None


@dataclass(frozen=True)
class DropColumn(Neutral):
    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        try:
            return lo.drop_columns(store, ["w"], **options)
        except (NotFoundError, InvalidArgumentError):
            return None


@dataclass(frozen=True)
class Cleanup(Neutral):
    retain: int = 1

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        return lo.cleanup(store, older_than=timedelta(0), retain_versions=self.retain)


@dataclass(frozen=True)
class Tag(Neutral):
    back: int = 1

    def act(self, store: Store, options: dict[str, Any], shared: dict[int, Any]) -> Any:
        version = max(1, lo.Dataset.open(store).version - self.back)
        name = f"tag-{self.number}"
        lo.create_tag(store, name, version)
        shared.setdefault("tags", {})[name] = version  # type: ignore[call-overload]
        return None


@dataclass
class Menu:
    """Random work.

    Attributes:
        chance: Where the choices come from.
        next_number: Number of the next work.
        next_id: Next id of an append.
    """

    chance: Any
    next_number: int = 1
    next_id: int = 100
    shared_writer: int | None = None

    def range(self) -> tuple[int, int]:
        low = self.chance.randint(0, 5)
        return low, low + self.chance.choice((1, 2, 3, 6))

    def fresh(self) -> int:
        self.next_id += 10
        return self.next_id

    def cleanup(self) -> Work:
        self.next_number += 1
        return Cleanup(self.next_number - 1, False, 1)

    def reference(self) -> Work:
        """Return work that names an old version."""
        self.next_number += 1
        back = self.chance.choice((1, 1, 2, 3))
        kind = self.chance.choice((Restore, Restore, Tag))
        return kind(self.next_number - 1, False, back)

    def draw(self) -> Work:
        number, chance = self.next_number, self.chance
        self.next_number += 1
        keyed = chance.random() < 0.4
        low, high = self.range()
        roll = chance.random() * 100
        if roll < 13:
            return Append(number, keyed, self.fresh(), chance.choice((1, 2, 4)))
        if roll < 26:
            return Delete(number, keyed, low, high)
        if roll < 35:
            return Update(number, keyed, low, high, 10 * number)
        if roll < 39:
            return Update(number, keyed, low, high, 10 * number, True)
        if roll < 45:
            return Upsert(
                number, keyed, chance.choice((low, 40 + low % 3)), chance.choice((1, 3)), 1000 + number
            )
        if roll < 48:
            return ReplaceWhere(number, keyed, low, high, 2000 + number)
        if roll < 50:
            return Overwrite(number, keyed, self.fresh(), 2)
        if roll < 64:
            return Compact(
                number,
                keyed,
                chance.choice((4, 8, 1 << 20)),
                chance.choice(("rewrite", "copy")),
                chance.choice((None, None, 1)),
                chance.random() < 0.2,
            )
        if roll < 69:
            return CreateIndex(number, keyed, chance.choice(("k", "id")), chance.choice(("BTREE", "BITMAP")))
        if roll < 72:
            return OptimizeIndices(number, keyed)
        if roll < 73:
            return DropIndex(number)
        if roll < 79:
            return Restore(number, keyed, chance.choice((1, 1, 2, 3)))
        if roll < 91:
            return Cleanup(number, False, chance.choice((1, 1, 2)))
        if roll < 93:
            return Tag(number, False, chance.choice((0, 1, 2)))
        if roll < 95:
            return Configure(number, keyed, chance.choice(("team", "owner")))
        if roll < 96.5:
            return AddColumn(number, keyed)
        if roll < 97.5:
            return DropColumn(number, keyed)
        if self.shared_writer is None:
            self.shared_writer = number
        return Finish(number, False, self.shared_writer)
