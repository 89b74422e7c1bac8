"""Objects that a listing names and a read does not find: no operation takes them for removed ones.

Each operation runs on a store that hides one object from one call, for each call in turn, for a while, and
for good. Whatever it answers, every version and tag that is kept reads as before and passes deep fsck.
"""

import contextlib
import os
import random
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InconsistentStoreError, LanceOpsError
from lance_ops.maintenance.transient import may_pass
from lance_ops.storage import Store, open_store, retry
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.manifest.listing import NamingScheme, list_versions, manifest_path
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.hiding_store import HideOnce, HidingStore
from tests.support.interleaving import Snapshot

_names = count()

SHARE = float(os.environ.get("HIDDEN_SHARE", "0.005"))
"""Which part of the calls is tried; 1 tries all of them."""


_V2_PATH = manifest_path(1, NamingScheme.V2)


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64()), "y": [f"row {value}" for value in values]})


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(retry.time, "sleep", made.sleep)
    return made


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    """Four appends, an index, a delete; two tags, a branch, an open job; files that only a tag keeps."""
    store = MemoryStore("memory://hidden/source")
    for number in range(4):
        lo.append(store, rows(*range(10 * number, 10 * number + 6)))
    lo.create_index(store, "x")
    lo.create_tag(store, "indexed", 5)
    lo.delete(store, "x % 10 = 3")
    lo.create_tag(store, "kept", 6)
    lo.update(store, {"y": "'changed'"}, where="x >= 30")
    lo.create_branch(store, "side", 4)
    crash = FaultyStore(store, fail_at=lambda call: call.name == "put" and "/commit-" in call.path)
    with contextlib.suppress(InjectedCrash, LanceOpsError):
        lo.compact(crash, job_key="open", target_rows_per_fragment=8)
    lo.append(store, rows(40, 41), job_key="job")
    return Snapshot(store)


def run_compact(store: Store) -> object:
    return lo.compact(store, job_key="compaction", target_rows_per_fragment=8)


OPERATIONS: dict[str, Callable[[Store], object]] = {
    "cleanup": lambda store: lo.cleanup(store, retain_versions=1),
    "cleanup of all that is unused": lambda store: lo.cleanup(
        store, retain_versions=1, delete_unverified=True
    ),
    "compact under a key": run_compact,
    "compact, resumed": lambda store: lo.compact(store, job_key="open", target_rows_per_fragment=8),
    "cancel a job": lambda store: lo.cancel_job(store, "open", force=True),
    "append under a key": lambda store: lo.append(store, rows(50), job_key="fifty"),
    "append again under its key": lambda store: lo.append(store, rows(40, 41), job_key="job"),
    "delete": lambda store: lo.delete(store, "x = 1"),
    "restore": lambda store: lo.restore(store, 6),
    "create a tag": lambda store: lo.create_tag(store, "new", 6),
    "move a tag": lambda store: lo.move_tag(store, "kept", 7),
    "delete a tag": lambda store: lo.delete_tag(store, "indexed"),
    "create a branch": lambda store: lo.create_branch(store, "other", 6),
    "delete a branch": lambda store: lo.delete_branch(store, "side"),
    "create an index": lambda store: lo.create_index(store, "y", "BTREE"),
    "optimize indices": lambda store: lo.optimize_indices(store),
    "migrate names": lambda store: lo.migrate_manifest_paths(store, "v1"),
    "compact": lambda store: lo.compact(store, target_rows_per_fragment=8),
    "update": lambda store: lo.update(store, {"y": "'new'"}, where="x < 5"),
    "merge": lambda store: lo.merge_insert(store, rows(1, 99), on="x", when_matched="update_all"),
    "add a column": lambda store: lo.add_columns(store, {"z": "x + 1"}),
    "drop an index": lambda store: lo.drop_index(store, "x_idx"),
    "overwrite": lambda store: lo.write_dataset(rows(7), store, mode="overwrite"),
    "truncate": lambda store: lo.truncate(store),
    "clone": lambda store: lo.deep_clone(store, f"memory://hidden/clone{next(_names)}"),
    "fsck": lambda store: lo.fsck(store, deep=True),
}


def content(store: Store, version: int | str | tuple[str, int | None]) -> list[tuple[int, str]]:
    table = lo.dataset(store, version).to_table(["x", "y"])
    return sorted(zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True))


def versions(store: Store) -> dict[int, list[tuple[int, str]]]:
    return {item.version: content(store, item.version) for item in list_versions(store)}


@pytest.fixture(scope="module")
def before(snapshot: Snapshot) -> dict[int, list[tuple[int, str]]]:
    return versions(snapshot.restore())


def check(store: Store, before: dict[int, list[tuple[int, str]]], where: object) -> None:
    """Every version that is there reads, the tagged ones are there, and deep fsck finds them sound."""
    if any(len(info.path) < len(_V2_PATH) for info in store.list("_versions")):
        lo.migrate_manifest_paths(store, "v2")
    found = versions(store)
    for version, expected in found.items():
        assert before.get(version, expected) == expected, where
    dataset = lo.dataset(store)
    tagged = {tag.version for tag in dataset.tags.values()}
    assert tagged <= found.keys(), where
    for version in {dataset.version, *tagged}:
        assert lo.fsck(store, version, deep=True).ok, (where, version)
    for name in dataset.branches:
        assert content(store, (name, None)) in before.values(), where


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_object_that_is_hidden_once_is_not_taken_for_a_removed_one(
    name: str, snapshot: Snapshot, before: dict[int, list[tuple[int, str]]]
) -> None:
    operation = OPERATIONS[name]
    looks = HideOnce()
    store = snapshot.restore()
    operation(HidingStore(store, looks))
    expected = content(store, None) if name != "migrate names" else before[max(before)]
    snapshot.drop(store)
    every = range(1, len(looks.looks) + 1)
    chosen = random.Random(name).sample(every, max(1, int(SHARE * len(every)))) if SHARE < 1 else every
    for number in sorted(chosen):
        store = snapshot.restore()
        hide = HideOnce(number)
        where = (name, number, looks.looks[number - 1])
        try:
            operation(HidingStore(store, hide))
        except LanceOpsError:
            method, path = hide.looks[number - 1]
            # Reads of these are repeated.
            assert not (method == "read" and path.startswith(("_versions/", "_refs/", "_lance_ops/"))), where
        check(store, before, (*where, hide.looks[number - 1 : number]))
        with contextlib.suppress(
            lo.errors.AlreadyExistsError, lo.errors.VersionNotFoundError, lo.errors.InvalidArgumentError
        ):
            # What came to nothing does its work when it is called again.
            operation(store)
        check(store, before, where)
        assert content(store, None) == expected, where
        snapshot.drop(store)


class Hidden:
    """Hides objects from reads for a while after they are first looked for; listings name them.

    Args:
        clock: Of the test.
        seconds: How long.
        suffix: Of the objects.
    """

    def __init__(self, clock: Clock, seconds: float, suffix: str) -> None:
        self._clock = clock
        self._seconds = seconds
        self._suffix = suffix
        self.first: dict[str, float] = {}

    def __call__(self, method: str, path: str) -> bool:
        if method == "list" or not path.endswith(self._suffix):
            return False
        return self._clock.now - self.first.setdefault(path, self._clock.now) < self._seconds


@pytest.mark.parametrize("name", OPERATIONS)
def test_objects_that_are_hidden_for_a_while_are_waited_for(
    name: str, snapshot: Snapshot, before: dict[int, list[tuple[int, str]]], clock: Clock
) -> None:
    store = snapshot.restore()
    OPERATIONS[name](HidingStore(store, Hidden(clock, 0.7, ".manifest")))
    check(store, before, name)
    snapshot.drop(store)


@pytest.mark.parametrize("name", OPERATIONS)
def test_young_objects_of_all_kinds_that_are_hidden_for_a_while_lead_to_no_loss(
    name: str, snapshot: Snapshot, before: dict[int, list[tuple[int, str]]], clock: Clock
) -> None:
    store = snapshot.restore()
    with contextlib.suppress(LanceOpsError):
        OPERATIONS[name](HidingStore(store, Hidden(clock, 0.7, "")))
    check(store, before, name)
    snapshot.drop(store)


def test_cleanup_keeps_the_files_of_a_named_clone_whose_manifests_are_hidden_once() -> None:
    source = MemoryStore("memory://hidden/cloned")
    for number in range(3):
        lo.append(source, rows(number))
    made = lo.shallow_clone(lo.dataset(source, 2), "memory://hidden/the_clone")
    branch = lo.create_branch(made, "side")
    for tag in lo.dataset(source).tags:
        lo.delete_tag(source, tag)
    lo.append(made, rows(10))
    lo.compact(made)
    lo.compact(source)
    states = Snapshot(source)
    looks = HideOnce()
    lo.cleanup(states.restore(), retain_versions=1, dry_run=True, clones=[HidingStore(made.store, looks)])
    files = {info.path for info in source.list("data")}
    for number in range(1, len(looks.looks) + 1):
        with contextlib.suppress(LanceOpsError):
            lo.cleanup(
                source,
                retain_versions=1,
                delete_unverified=True,
                clones=[HidingStore(made.store, HideOnce(number))],
            )
        assert lo.dataset("memory://hidden/the_clone", made.version).count_rows() == 2, number
        assert lo.dataset("memory://hidden/the_clone", ("side", None)).count_rows() == 2, number
    assert len(files) > len({info.path for info in source.list("data")})
    assert branch.branch == "side"


def kept_manifest(store: Store, version: int) -> str:
    return next(item.path for item in list_versions(store) if item.version == version)


@pytest.mark.parametrize("options", [{}, {"delete_unverified": True}, {"older_than": timedelta(0)}], ids=str)
@pytest.mark.parametrize("version", [2, 6, 9])
def test_cleanup_keeps_everything_while_a_manifest_is_never_found(
    version: int, options: dict[str, object], snapshot: Snapshot, clock: Clock
) -> None:
    store = snapshot.restore()
    path = kept_manifest(store, version)
    names = [info.path for info in store.list("") if not info.path.startswith("_lance_ops")]
    with pytest.raises(InconsistentStoreError, match=path) as caught:
        lo.cleanup(HidingStore(store, Hidden(clock, 1e9, path)), retain_versions=1, **options)
    assert may_pass(caught.value)
    assert [info.path for info in store.list("") if not info.path.startswith("_lance_ops")] == names
    # The branch has versions of its own.
    assert lo.cleanup(HidingStore(store.child("tree/side"), Hidden(clock, 1e9, path))).complete
    assert lo.cleanup(store, retain_versions=1).complete
    snapshot.drop(store)


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("version", [2, 6, 9])
def test_fsck_reports_a_manifest_that_is_never_found(
    version: int, deep: bool, snapshot: Snapshot, clock: Clock
) -> None:
    store = snapshot.restore()
    path = kept_manifest(store, version)
    result = lo.fsck(HidingStore(store, Hidden(clock, 1e9, path)), deep=deep)
    assert not result.ok
    assert any(finding.path is not None and finding.path.endswith(path) for finding in result.findings)
    assert lo.fsck(store, deep=deep).ok
    snapshot.drop(store)


def test_lists_of_versions_tell_of_a_manifest_that_is_never_found(snapshot: Snapshot, clock: Clock) -> None:
    store = snapshot.restore()
    path = kept_manifest(store, 2)
    dataset = lo.dataset(HidingStore(store, Hidden(clock, 1e9, path)))
    damage = {item.version: item.damage for item in dataset.versions()}
    assert damage.keys() == {item.version for item in list_versions(store)}
    assert path in damage.pop(2)
    assert set(damage.values()) == {""}
    assert path in next(item.damage for item in dataset.history() if item.version == 2)
    snapshot.drop(store)


@pytest.mark.peer
@pytest.mark.parametrize("times", [1, 10_000])
def test_pylance_reads_all_tags_after_a_cleanup_on_files_whose_open_fails_with_enoent(
    times: int, tmp_path: Path, snapshot: Snapshot, clock: Clock
) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(6):
        lo.append(uri, rows(number))
    lo.create_tag(uri, "kept", 2)
    lo.compact(uri)
    path = kept_manifest(open_store(uri), 2)
    left = [times]

    def hides(method: str, hidden: str) -> bool:
        left[0] -= hidden == path and method == "read"
        return hidden == path and method == "read" and left[0] >= 0

    with contextlib.suppress(InconsistentStoreError):
        lo.cleanup(HidingStore(open_store(uri), hides), retain_versions=1, delete_unverified=True)
    assert lance.dataset(uri, version="kept").to_table()["x"].to_pylist() == [0, 1]
    assert lance.dataset(uri).count_rows() == 6
