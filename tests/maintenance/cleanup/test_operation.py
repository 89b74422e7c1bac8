"""Cleanup: what goes, what stays, and in which order."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    CorruptManifestError,
    DatasetNotFoundError,
    InvalidArgumentError,
)
from lance_ops.maintenance.cleanup import execute as cleanup_execute
from lance_ops.maintenance.cleanup.execute import execute_cleanup
from lance_ops.maintenance.cleanup.line import CleanupOptions, Line
from lance_ops.maintenance.cleanup.plan import CleanupPlan, plan_cleanup
from lance_ops.maintenance.metadata.actions import restore
from lance_ops.maintenance.progress import Reporter
from lance_ops.storage import open_store
from lance_ops.table.history.refs import create_tag
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.interop import data_files, our_dataset, peer_table, rows, xs

LATER = timedelta(days=30)


def versions(path: Path) -> list[int]:
    return [info.version for info in lo.dataset(path).versions()]


def make_old(path: Path, age: timedelta = LATER) -> None:
    """Set the time of every file back, as if it had been written long ago."""
    moment = (datetime.now(UTC) - age).timestamp()
    for file in path.rglob("*"):
        if file.is_file():
            os.utime(file, (moment, moment))


def test_old_versions_go_and_the_newest_stay(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10] * 6)
    lo.delete(path, "x < 5")
    lo.compact(path)
    expected = xs(path)
    result = lo.cleanup(path, retain_versions=2)
    assert versions(path) == [8, 9]
    assert result.versions_removed == 7
    assert result.changed
    assert xs(path) == expected
    assert lo.fsck(path, deep=True).ok


def test_everything_that_only_expired_versions_used_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10] * 4)
    lo.create_index(path, "x")
    lo.delete(path, "x % 2 = 0")
    lo.compact(path)
    lo.cleanup(path, retain_versions=1)
    dataset = lo.dataset(path)
    (segment,) = dataset.indices
    used = {f"data/{file.path}" for fragment in dataset.fragments for file in fragment.files}
    used |= {f"{segment.directory}/{file.path}" for file in segment.files}
    assert data_files(path) == used
    assert len(list((path / "_transactions").iterdir())) == 1


def test_age_and_number_protect_independently(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10] * 5)
    store = open_store(str(path))
    later = datetime.now(UTC) + LATER

    def expired(now: datetime | None = None, **options: object) -> list[int]:
        plan = plan_cleanup(Line.of(store), CleanupOptions(**options), now=now)
        return [verdict.version for verdict in plan.expired]

    assert expired() == []
    assert expired(later) == [1, 2, 3, 4]
    assert expired(retain_versions=2) == [1, 2, 3]
    assert expired(older_than=timedelta(days=1), retain_versions=2) == []
    assert expired(later, older_than=timedelta(days=1), retain_versions=2) == [1, 2, 3]
    assert expired(later, older_than=timedelta(days=60)) == []


def test_a_dry_run_gives_a_reason_for_every_file_and_removes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10] * 3)
    lo.delete(path, "x = 1")
    before = sorted(str(file) for file in path.rglob("*"))
    plan = lo.cleanup(path, retain_versions=1, dry_run=True)
    assert isinstance(plan, CleanupPlan)
    assert sorted(str(file) for file in path.rglob("*")) == before
    on_disk = {
        file.relative_to(path).as_posix()
        for folder in ("data", "_deletions", "_transactions", "_versions")
        for file in (path / folder).iterdir()
    }
    assert {verdict.path for verdict in plan.files} == on_disk
    assert all(verdict.reason for verdict in plan.files)
    text = str(plan)
    assert "used only by expired versions" in text
    assert "used by version" in text


def test_tagged_versions_stay_readable(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10] * 3)
    create_tag(open_store(str(path)), "release", 2)
    lo.compact(path)
    lo.cleanup(path, retain_versions=1)
    assert versions(path)[0] == 2
    assert lo.dataset(path, "release").count_rows() == 20
    assert lance.dataset(str(path), version="release").count_rows() == 20


def test_detached_versions_keep_their_files(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10, 10])
    dataset = lance.dataset(str(path))
    fragments = [lance.fragment.write_fragments(rows(90, 95), str(path), data_storage_version="2.2")[0]]
    detached = lance.LanceDataset.commit(
        dataset, lance.LanceOperation.Append(fragments), read_version=dataset.version, detached=True
    )
    make_old(path)
    lo.compact(path)
    lo.cleanup(path, retain_versions=1)
    again = lance.dataset(str(path), version=detached.version)
    assert again.count_rows() == 25
    assert again.to_table().num_rows == 25


def test_files_of_a_commit_under_way_keep_their_grace(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10])
    orphan = path / "data" / "orphan.lance"
    shutil.copy(next((path / "data").glob("*.lance")), orphan)
    leftover = path / "_versions" / ".tmp_leftover"
    leftover.write_bytes(b"x")
    lo.cleanup(path, retain_versions=1)
    assert orphan.exists()
    assert leftover.exists()
    make_old(path, timedelta(days=8))
    result = lo.cleanup(path, retain_versions=1)
    assert not orphan.exists()
    assert not leftover.exists()
    assert result.data_files_removed == 1
    assert result.temporary_files_removed == 1
    assert lo.dataset(path).count_rows() == 10


def test_young_files_that_no_version_uses_go_on_request(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10])
    orphan = path / "data" / "orphan.lance"
    orphan.write_bytes(b"x")
    lo.cleanup(path, retain_versions=1, delete_unverified=True)
    assert not orphan.exists()


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10, 10])
    foreign = [
        path / "data" / "notes.txt",
        path / "notes.txt",
        path / "_refs" / "x",
        path / "_versions" / "readme",
    ]
    for file in foreign:
        file.parent.mkdir(exist_ok=True)
        file.write_text("keep me")
    make_old(path)
    lo.cleanup(path, retain_versions=1)
    assert all(file.exists() for file in foreign)


@pytest.mark.peer
def test_versions_that_branches_of_the_peer_started_at_stay(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10, 10, 10])
    lance.dataset(str(path)).checkout_version(2).create_branch("side")
    lo.delete(path, "true")
    assert lo.cleanup(path, retain_versions=1, older_than=timedelta(0)).versions_removed == 2
    assert versions(path) == [2, 4]
    assert lance.dataset(str(path)).checkout_version(("side", None)).to_table().num_rows == 20


def test_an_unreadable_version_stops_it_before_anything_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10] * 4)
    manifest = sorted((path / "_versions").glob("*.manifest"))[2]
    data = manifest.read_bytes()
    manifest.write_bytes(data[: len(data) // 2])
    before = sorted(str(file) for file in path.rglob("*"))
    with pytest.raises(CorruptManifestError) as failure:
        lo.cleanup(path, retain_versions=1)
    assert failure.value.path is not None
    assert manifest.name in failure.value.path
    assert sorted(str(file) for file in path.rglob("*")) == before


def test_a_file_that_a_restore_brought_back_is_spared(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10, 10])
    lo.write_dataset(rows(0, 5), path, mode="overwrite")
    store = open_store(str(path))
    plan = plan_cleanup(Line.of(store), CleanupOptions(retain_versions=1))
    restore(str(path), 2)
    execute_cleanup(Line.of(store), plan, Reporter("cleanup"))
    assert lo.dataset(path).count_rows() == 20
    assert peer_table(path).num_rows == 20


def test_a_crash_leaves_only_versions_that_can_be_read(tmp_path: Path) -> None:
    source = tmp_path / "source.lance"
    our_dataset(source, [10] * 5)
    lo.delete(source, "x = 3")
    lo.compact(source)
    expected = xs(source)
    crashes = 0
    for call in range(1, 200):
        path = tmp_path / f"copy{call}.lance"
        shutil.copytree(source, path)
        store = FaultyStore(open_store(str(path)), fail_at=call)
        try:
            lo.cleanup(store, retain_versions=1)
        except InjectedCrash:
            crashes += 1
        else:
            break
        for version in versions(path):
            dataset = lo.dataset(path, version)
            assert lo.fsck(dataset).ok
            assert dataset.to_table().num_rows == dataset.count_rows()
        assert xs(path) == expected
        lo.cleanup(path, retain_versions=1)
        assert xs(path) == expected
    assert crashes > 10


def test_the_peer_reads_and_writes_on_after_a_cleanup(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10] * 4)
    lo.cleanup(path, retain_versions=1)
    lance.write_dataset(rows(40, 45), str(path), mode="append")
    assert xs(path) == list(range(45))
    lance.dataset(str(path)).cleanup_old_versions(retain_versions=1)
    assert xs(path) == list(range(45))


@pytest.mark.parametrize(
    "options",
    [{"retain_versions": 0}, {"older_than": timedelta(days=-1)}],
    ids=["no version", "negative age"],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, object]) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10])
    with pytest.raises(InvalidArgumentError):
        lo.cleanup(path, **options)


def test_no_dataset_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        lo.cleanup(tmp_path / "nothing.lance", retain_versions=1)


def test_rows_of_every_kept_version_survive(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10, 10])
    lo.delete(path, "x = 4")
    lo.append(path, pa.table(rows(20, 30)))
    before = {version: lo.dataset(path, version).to_table() for version in (3, 4)}
    lo.cleanup(path, retain_versions=2)
    for version, table in before.items():
        assert lo.dataset(path, version).to_table().equals(table)


@pytest.mark.peer
def test_a_tag_of_the_peer_counts_until_the_look_at_its_version_and_is_told_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10] * 4)
    monkeypatch.setattr(cleanup_execute, "CHUNK", 1)

    class Tagging(FaultyStore):
        """The peer tags versions 1 and 2 when version 1 is removed: too late for one of them."""

        def delete(self, name: str) -> None:
            if name.endswith(".manifest") and not lo.dataset(path).tags:
                lance.dataset(str(path)).tags.create("late", 1)
                lance.dataset(str(path)).tags.create("in-time", 2)
            super().delete(name)

    result = lo.cleanup(Tagging(open_store(str(path))), retain_versions=1)
    assert versions(path) == [2, 4]
    assert lo.dataset(path, "in-time").to_table().num_rows == 20
    assert result.errors == ("tag late was set at version 1 during its removal",)
    assert not result.complete
