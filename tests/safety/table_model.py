"""What a table should be: lists of rows beside it, compared after every operation."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import lance_ops as lo
from lance_ops.index.coverage import coverage
from lance_ops.storage import Store
from tests.safety.actions import (
    Action,
    Append,
    Cleanup,
    Compact,
    Create,
    CreateIndex,
    Overwrite,
    ReplaceWhere,
    Restore,
    Rows,
    Tag,
    Update,
    UpdateConfig,
    Upsert,
)
from tests.safety.column_actions import CompactColumns, ReplaceColumn, UpdateInPlace
from tests.safety.states import check_sound, is_same_set, litter, read_rows

Actor = Callable[[Action, Store], object]


def by_us(action: Action, store: Store) -> object:
    return action.run(store)


@dataclass
class TableModel:
    """A table and what it should hold.

    Attributes:
        store: The table.
        rows: Of the newest version, in order.
        versions: The rows of each version that exists.
        tags: Version by tag.
        config: What we set.
        identities: Row id by `id`, in each version; of tables with stable row ids.
        data_versions: Of each version.
        peer_took_part: Commits of the peer carry no notes on the data version.
    """

    store: Store
    rows: Rows = field(default_factory=list)
    versions: dict[int, Rows] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    identities: dict[int, dict[int, int]] = field(default_factory=dict)
    data_versions: dict[int, str] = field(default_factory=dict)
    peer_took_part: bool = False
    next_id: int = 0

    @property
    def head(self) -> int:
        return max(self.versions, default=0)

    def fit(self, action: Action) -> Action:
        """Give a random operation what depends on the table: new ids, a version that exists."""
        if isinstance(action, Append):
            return replace(action, first=self.next_id)
        if isinstance(action, Restore | Tag):
            known = sorted(self.versions)
            return replace(action, version=known[action.version % len(known)])
        return action

    def step(self, action: Action, actor: Actor = by_us) -> lo.Dataset:
        """Do an operation to the table and compare."""
        before = self.head
        covered = {item.name: item.ratio for item in coverage(self.dataset())} if before else {}
        expected = action.after(self.rows, self.versions)
        actor(action, self.store)
        self.peer_took_part |= actor is not by_us
        dataset = self.dataset()
        rows = check_sound(dataset)
        if action.moves_rows:
            assert is_same_set(rows, expected), f"rows after {action}"
            if not action.changes_rows:
                self.check_order(rows, commits=dataset.version - before)
        else:
            assert rows == expected, f"rows after {action}"
        for version in range(before + 1, dataset.version + 1):
            self.versions[version] = read_rows(lo.Dataset.open(self.store, version))
            assert is_same_set(self.versions[version], self.rows if version < dataset.version else rows)
        if isinstance(action, Cleanup):
            self.check_cleaned(action, dataset)
        if isinstance(action, Compact | CompactColumns | CreateIndex | UpdateConfig | Cleanup):
            now = {item.name: item.ratio for item in coverage(dataset)}
            assert all(now[name] >= ratio for name, ratio in covered.items()), "coverage fell"
        self.check_data_version(action, dataset, rows, before)
        self.check_identities(action, dataset, before)
        self.rows = rows
        self.next_id = max([self.next_id, *(item.id + 1 for item in rows)])
        self.check_metadata(action, dataset)
        self.check_litter(action)
        return dataset

    def check_litter(self, action: Action) -> None:
        assert not litter(self.store), f"files that no version uses after {action}"

    def dataset(self) -> lo.Dataset:
        return lo.Dataset.open(self.store)

    def check_order(self, rows: Rows, commits: int) -> None:
        """Each rewrite may move rows behind the others, and keeps the order of both parts."""
        place = {item.id: number for number, item in enumerate(self.rows)}
        falls = sum(place[one.id] > place[two.id] for one, two in pairwise(rows))
        assert falls <= commits, "a compaction mixed up rows"

    def check_cleaned(self, action: Cleanup, dataset: lo.Dataset) -> None:
        kept = [info.version for info in dataset.versions()]
        wanted = {*sorted(self.versions)[-action.retain :], *self.tags.values()}
        assert wanted <= set(kept), "cleanup removed a version that has to stay"
        if not self.peer_took_part:
            assert set(kept) == wanted
        for version in kept:
            assert read_rows(lo.Dataset.open(self.store, version)) == self.versions[version]
        self.versions = {version: self.versions[version] for version in kept}

    def check_data_version(self, action: Action, dataset: lo.Dataset, rows: Rows, before: int) -> None:
        """It moves when rows change, and stays when only their layout does."""
        now = dataset.data_version
        if not self.peer_took_part:
            if isinstance(action, Restore):
                assert now == self.data_versions[action.version]
            elif action.changes_rows and (rows != self.rows or isinstance(action, Overwrite)):
                assert now not in self.data_versions.values()
            elif before and not isinstance(action, ReplaceColumn | UpdateInPlace | Update | Upsert):
                # Nobody looks whether what is written anew has the values that it had.
                assert now == self.data_versions[before]
        if before and not is_same_set(rows, self.rows):
            assert now != self.data_versions[before]
        for version in range(before, dataset.version + 1):
            self.data_versions[version] = lo.Dataset.open(self.store, version).data_version if version else ""

    def check_identities(self, action: Action, dataset: lo.Dataset, before: int) -> None:
        """Stable row ids stay with their rows, and no row gets one that was another's."""
        if not dataset.manifest.uses_stable_row_ids:
            return
        table = dataset.to_table(["id"], with_row_id=True)
        now = dict(zip(table["id"].to_pylist(), table["_rowid"].to_pylist(), strict=True))
        assert len(set(now.values())) == len(now)
        known = self.identities.get(action.version if isinstance(action, Restore) else before, {})
        if isinstance(action, Restore):
            assert now == known
        elif isinstance(action, ReplaceWhere):
            kept = set(self.rows) - set(action.predicate.select(self.rows))
            assert all(now[item.id] == known[item.id] for item in kept)
            assert not {now[item.id] for item in action.new} & set(known.values())
        elif not isinstance(action, Overwrite):
            assert all(row_id == known[number] for number, row_id in now.items() if number in known)
        used = {row_id for ids in self.identities.values() for row_id in ids.values()}
        ever = {number for ids in self.identities.values() for number in ids}
        assert used.isdisjoint(row_id for number, row_id in now.items() if number not in ever)
        for version in range(before + 1, dataset.version + 1):
            self.identities[version] = now

    def check_metadata(self, action: Action, dataset: lo.Dataset) -> None:
        if isinstance(action, UpdateConfig):
            self.config[action.key] = action.value
        if isinstance(action, Tag):
            self.tags[action.name] = action.version
        if isinstance(action, Restore):
            self.config = {key: dataset.config[key] for key in self.config if key in dataset.config}
        assert self.config.items() <= dict(dataset.config).items()
        assert {name: tag.version for name, tag in dataset.tags.items()} == self.tags

    def check_history(self) -> None:
        """Every version that is there still has its rows."""
        assert [info.version for info in self.dataset().versions()] == sorted(self.versions)
        for version, rows in self.versions.items():
            assert read_rows(lo.Dataset.open(self.store, version)) == rows, f"version {version} changed"


def run_history(store: Store, create: Create, steps: list[Action]) -> TableModel:
    """Do random operations one after the other, comparing after each."""
    model = TableModel(store)
    model.step(create)
    for step in steps:
        model.step(model.fit(step))
    return model
