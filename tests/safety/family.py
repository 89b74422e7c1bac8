"""A dataset with its branches and clones: what each should hold, compared after every operation on any."""

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import lance
import pyarrow as pa

import lance_ops as lo
from lance_ops.errors import DatasetExistsError, VersionNotFoundError
from lance_ops.maintenance.metadata import clone, deep_clone
from lance_ops.maintenance.metadata.clone import PLACE_FOLDER
from lance_ops.storage import Store, open_store
from lance_ops.table.history.refs import branch_directory
from tests.safety import peer
from tests.safety.actions import Action, Cleanup, Create, Overwrite, Restore, Rows, Update, Upsert
from tests.safety.column_actions import ReplaceColumn
from tests.safety.rows import from_arrow, make_rows, to_arrow
from tests.safety.states import is_same_set, litter, read_rows
from tests.safety.table_model import TableModel
from tests.support.faulty_store import Call, FaultyStore

ROOT = "t.lance"
CREATED, UPDATED = "_row_created_at_version", "_row_last_updated_at_version"

Lineage = dict[int, tuple[int, int]]
"""Versions that made and last changed a row, by `id`."""


@dataclass(frozen=True)
class CrashAt:
    """A call of the store, counted from 1, before or after which the process dies."""

    number: int
    when: str = "before"


@dataclass
class LineModel(TableModel):
    """One line of versions: main, a branch, or a clone.

    Attributes:
        place: Its folder below that of the family.
        lineages: Of each version; of tables with stable row ids.
        detached: Rows of detached versions.
        held: Versions that branches and clones start at, by what these are called.
        parent: What a branch started from.
        name: Of a branch.
        shares_files: It is a clone, whose files cannot be told apart from those of its source.
        crashed: Files may be left that no version uses.
    """

    place: str = ROOT
    lineages: dict[int, Lineage] = field(default_factory=dict)
    detached: dict[int, Rows] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    parent: "LineModel | None" = None
    name: str = ""
    shares_files: bool = False
    crashed: bool = False

    def fork(self, store: Store, place: str, version: int) -> "LineModel":
        """A line that starts as a version of this one."""
        return LineModel(
            store,
            rows=self.versions[version],
            versions={version: self.versions[version]},
            identities={version: self.identities[version]} if version in self.identities else {},
            lineages={version: self.lineages[version]} if version in self.lineages else {},
            next_id=self.next_id,
            peer_took_part=self.peer_took_part,
            place=place,
        )

    def check_litter(self, action: Action) -> None:
        if isinstance(action, Cleanup) and action.delete_unverified:
            self.crashed = False
        if not (self.shares_files or self.crashed):
            assert not litter(self.store), f"files that no version uses after {action}"

    def check_cleaned(self, action: Cleanup, dataset: lo.Dataset) -> None:
        kept = {info.version for info in dataset.versions()}
        assert {*sorted(self.versions)[-action.retain :], *self.held.values()} <= kept, (
            "it removed what has to stay"
        )
        self.versions = {version: self.versions[version] for version in sorted(kept)}
        self.check_history()

    def check_data_version(self, action: Action, dataset: lo.Dataset, rows: Rows, before: int) -> None:
        """Main's is compared elsewhere; that of a branch has the history of its parent in it."""

    def check_metadata(self, action: Action, dataset: lo.Dataset) -> None:
        """Tags and settings are compared elsewhere."""

    def check_identities(self, action: Action, dataset: lo.Dataset, before: int) -> None:
        super().check_identities(action, dataset, before)
        if not dataset.manifest.uses_stable_row_ids:
            return
        now = lineage_of(dataset.to_table(["id", CREATED, UPDATED]))
        if isinstance(action, Restore):
            assert now == self.lineages[action.version], "row versions after a restore"
        else:
            self._check_lineage(action, now, range(before + 1, dataset.version + 1))
        for version in range(before + 1, dataset.version + 1):
            self.lineages[version] = now

    def _check_lineage(self, action: Action, now: Lineage, made: range) -> None:
        known = {} if isinstance(action, Create | Overwrite) else self.lineages.get(made.start - 1, {})
        rows = {row.id: row for row in self.rows}
        after = {row.id: row for row in read_rows(self.dataset())}
        for number, (created, updated) in now.items():
            if number not in known:
                assert created in made, f"row {number} was made by version {created}"
                assert updated in made
                continue
            assert created == known[number][0], f"row {number} was made by version {known[number][0]}"
            same = updated == known[number][1]
            touched = isinstance(action, Update | Upsert | ReplaceColumn)
            assert same or (touched and updated in made), f"row {number} was last changed by {updated}"
            assert not same or after[number] == rows[number], f"row {number} has changed"

    def check_by_both(self) -> None:
        """Both readers see the rows, and the versions of rows, and the detached versions."""
        dataset = self.dataset()
        assert read_rows(dataset) == self.rows, f"rows of {self.place}"
        peer.check(self.store.uri, self.rows)
        theirs = peer.open_line(self.store.uri)
        assert theirs.version == dataset.version
        if dataset.manifest.uses_stable_row_ids:
            columns = ["id", CREATED, UPDATED]
            ours = lineage_of(dataset.to_table(columns))
            assert lineage_of(theirs.to_table(columns)) == ours, "row versions that the peer reads"
            assert ours == self.lineages[self.head]
            ids = theirs.to_table(["id"], with_row_id=True)
            row_ids = dict(zip(ids["id"].to_pylist(), ids["_rowid"].to_pylist(), strict=True))
            assert row_ids == self.identities[self.head], "row ids that the peer reads"
        for version, rows in self.detached.items():
            assert read_rows(lo.Dataset.open(self.store, version)) == rows, "rows of a detached version"
            if self.place.count("/") == 0:
                found = lance.dataset(self.store.uri, version=version).to_table(scan_in_order=True)
                assert from_arrow(found) == rows


def lineage_of(table: pa.Table) -> Lineage:
    """Row versions by `id`."""
    columns = (table[name].to_pylist() for name in ("id", CREATED, UPDATED))
    return {number: (created, updated) for number, created, updated in zip(*columns, strict=True)}


@dataclass
class Family:
    """The lines of a folder, of which each step changes one, or makes or removes one.

    Attributes:
        folder: An empty folder.
        lines: All of them, main first.
        made: How many operations, branches and clones there were.
        calls: Of the last run that was to die.
    """

    folder: Path
    lines: list[LineModel] = field(default_factory=list)
    made: int = 0
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.top = open_store(str(self.folder), {"fsync": "false"})
        self.lines.append(LineModel(self.top.child(ROOT)))

    def copied(self) -> "Family":
        """The same, to be changed apart from this one, in the same folder."""
        stores = [self.top, *(line.store for line in self.lines)]
        return copy.deepcopy(self, {id(store): store for store in stores})

    def work(self, at: int, action: Action, crash: CrashAt | None = None, *, by_peer: bool = False) -> None:
        """Do an operation on a line, perhaps after a run of it that dies; then under the same job key."""
        line = self.lines[at % len(self.lines)]
        action = line.fit(action)
        if by_peer:
            line.step(action, lambda what, store: peer.act(what, store.uri))
            return
        self.made += 1
        options = {"job_key": f"job {self.made}"} if action.takes_job_key else {}
        if crash is not None:
            expected = action.after(line.rows, line.versions)
            with self.dying(crash, line) as top:
                action.run(top.child(line.place), **options)
            if line.versions:
                left = read_rows(line.dataset())
                # A job of several commits may be half done, which changes no row.
                assert any(is_same_set(left, rows) for rows in (line.rows, expected)), f"a crash of {action}"
            self.check_others(line)
        line.step(action, lambda what, store: what.run(store, **options))

    def branch(self, at: int, version: int, crash: CrashAt | None = None, *, by_peer: bool = False) -> None:
        """Start a branch at a version of main or of a branch."""
        parent = self._of_the_dataset(at)
        number = sorted(parent.versions)[version % len(parent.versions)]
        self.made += 1
        name = f"b{self.made}"
        root = self.top.child(ROOT)
        if crash is not None:
            with self.dying(crash, parent) as top:
                lo.create_branch(lo.Dataset.open(top.child(parent.place), number), name)
            self.check_others()
            if name not in lo.dataset(root).branches:
                self._remove_rest(name)
                lo.create_branch(lo.Dataset.open(parent.store, number), name)
        elif by_peer:
            peer.open_line(parent.store.uri, number).create_branch(name)
        else:
            lo.create_branch(lo.Dataset.open(parent.store, number), name)
        place = f"{ROOT}/{branch_directory(name)}"
        line = parent.fork(self.top.child(place), place, number)
        line.parent, line.name = parent, name
        parent.held[name] = number
        self.lines.append(line)

    def remove(self, at: int, crash: CrashAt | None = None) -> None:
        """Remove a branch that no other started from."""
        line = self.lines[at % len(self.lines)]
        if line.parent is None or line.held:
            return
        root = self.top.child(ROOT)
        self.lines.remove(line)
        if crash is not None:
            with self.dying(crash, line.parent) as top:
                lo.delete_branch(lo.Dataset.open(top.child(ROOT)), line.name)
            self.check_others()
            self._remove_rest(line.name)
        else:
            lo.delete_branch(root.uri, line.name)
        assert line.name not in lo.dataset(root).branches
        assert not any(line.place in info.path for info in self.top.list(ROOT))
        del line.parent.held[line.name]

    def _remove_rest(self, name: str) -> None:
        """Remove what is left of a branch, if anything is."""
        with contextlib.suppress(VersionNotFoundError):
            lo.delete_branch(self.top.child(ROOT).uri, name)

    def clone(self, at: int, version: int, crash: CrashAt | None = None, *, deep: bool = False) -> None:
        """Make a clone of a version of any line."""
        source = self.lines[at % len(self.lines)]
        number = sorted(source.versions)[version % len(source.versions)]
        self.made += 1
        place = f"c{self.made}.lance"
        target = self.top.child(place)
        if crash is not None:
            with self.dying(crash, source) as top:
                self._clone(top, source, number, place, deep=deep)
            self.check_others()
        # Where the first run came so far, the clone is there; it may have been all that it had to do.
        with contextlib.suppress(DatasetExistsError):
            self._clone(self.top, source, number, place, deep=deep)
        line = source.fork(target, place, number)
        line.shares_files = not deep or source.shares_files
        line.crashed = crash is not None
        if not deep:
            source.held[place] = number
        self.lines.append(line)

    def _clone(self, top: Store, source: LineModel, number: int, place: str, *, deep: bool) -> None:
        dataset = lo.Dataset.open(top.child(source.place), number)
        module = deep_clone if deep else clone
        with patch.object(module, "open_store", lambda *_: top.child(place)):
            (lo.deep_clone if deep else lo.shallow_clone)(dataset, f"{self.folder}/{place}")

    def detach(self, at: int, count: int, crash: CrashAt | None = None) -> None:
        """Commit an append beside the history of a line."""
        line = self.lines[at % len(self.lines)]
        new = make_rows(line.next_id + 1000, count)
        before = line.dataset().version

        def run(store: Store) -> int:
            written = lo.write_fragments(to_arrow(new), store, return_transaction=True)
            return int(lo.commit(store, written, detached=True).version)

        if crash is not None:
            with self.dying(crash, line) as top:
                run(top.child(line.place))
            self.check_others()
        number = run(line.store)
        assert line.dataset().version == before
        line.detached[number] = [*line.rows, *new]

    def _of_the_dataset(self, at: int) -> LineModel:
        lines = [line for line in self.lines if line.place.startswith(ROOT)]
        return lines[at % len(lines)]

    @contextlib.contextmanager
    def dying(self, crash: CrashAt, line: LineModel) -> Iterator[Store]:
        """The folder, as a store that dies at a call; whatever comes of that is no failure of the test."""
        top = FaultyStore(self.top, fail_at=crash.number, when=crash.when, mode="crash", count="any")
        try:
            yield top
        except Exception as error:
            if not top.fired:
                raise AssertionError(f"nothing died, and yet: {error!r}") from error
        self.calls = top.calls
        line.crashed |= top.fired
        for info in list(self.top.list("")):
            if f"/{PLACE_FOLDER}/" in info.path:
                self.top.delete(info.path)

    def check_others(self, at_work: LineModel | None = None) -> None:
        """No line but the one at work has changed."""
        for line in self.lines:
            if line is not at_work and line.versions:
                assert read_rows(line.dataset()) == line.rows, f"rows of {line.place}"

    def check(self) -> None:
        """Every line is as it should be for both readers, whichever was worked on."""
        for line in self.lines:
            line.check_by_both()
