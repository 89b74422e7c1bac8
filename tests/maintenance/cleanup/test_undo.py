"""Cleanup in two phases: versions go to a trash with their files, and come back from there."""

import contextlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.maintenance.cleanup.trash import TRASH_DIRECTORY
from lance_ops.storage import Store
from lance_ops.table.history.pins import PINS_DIRECTORY
from tests.safety.states import erase, memory, objects, put_all
from tests.support.faulty_store import MUTATING, FaultyStore

WEEK = timedelta(days=7)


def grown(path: Path) -> tuple[str, dict[int, list[int]]]:
    """Write versions by both libraries; returns the ids of the rows of each version."""
    uri = str(path)
    lo.append(uri, pa.table({"id": range(10)}))
    lo.append(uri, pa.table({"id": range(10, 20)}), job_key="load")
    lance.dataset(uri).delete("id < 3")
    lo.create_index(uri, "id")
    lance.write_dataset(pa.table({"id": range(20, 25)}), uri, mode="append")
    lo.compact(uri)
    rows = {}
    for info in lo.dataset(uri).versions():
        rows[info.version] = sorted(lo.dataset(uri, info.version).to_table()["id"].to_pylist())
    return uri, rows


def versions(uri: str) -> list[int]:
    """Return the versions, which both libraries see alike."""
    found = [info.version for info in lo.dataset(uri).versions()]
    assert [item["version"] for item in lance.dataset(uri).versions()] == found
    return found


def check_rows(uri: str, rows: dict[int, list[int]]) -> None:
    for version, ids in rows.items():
        assert sorted(lo.dataset(uri, version).to_table()["id"].to_pylist()) == ids
        assert sorted(lance.dataset(uri, version=version).to_table()["id"].to_pylist()) == ids


def data_files(uri: str) -> set[str]:
    return {path.name for path in (Path(uri) / "data").iterdir()}


def test_versions_in_the_trash_come_back_with_rows_and_job_keys(tmp_path: Path):
    uri, rows = grown(tmp_path / "t")
    before, files = versions(uri), data_files(uri)
    done = lo.cleanup(uri, retain_versions=1, grace=WEEK)
    assert (done.versions_removed, done.versions_trashed) == (len(before) - 1, len(before) - 1)
    assert versions(uri) == before[-1:]
    assert data_files(uri) == files
    # Another cleanup, without a grace period, leaves them alone until their time is over.
    lo.cleanup(uri, retain_versions=1)
    assert data_files(uri) == files
    plan = lo.undo_cleanup(uri, dry_run=True)
    assert [item.version for item in plan.versions if not item.reason] == before[:-1]
    back = lo.undo_cleanup(uri)
    assert list(back.versions_back) == before[:-1]
    assert not back.versions_left
    assert versions(uri) == before
    check_rows(uri, rows)
    lo.restore(uri, 2)
    assert lo.append(uri, pa.table({"id": [1]}), job_key="load").already_committed
    assert not lo.undo_cleanup(uri).changed


def unused(uri: str) -> set[str]:
    """Return data files that the newest version does not use."""
    used = {file.path for fragment in lo.dataset(uri).fragments for file in fragment.files}
    return data_files(uri) - used


def test_the_bytes_go_when_the_time_is_over_or_the_trash_is_emptied(tmp_path: Path):
    uri, rows = grown(tmp_path / "t")
    old = unused(uri)
    lo.cleanup(uri, retain_versions=1, grace=WEEK)
    plan = lo.cleanup(uri, retain_versions=1, empty_trash=True, dry_run=True)
    assert sum(item.kind == "data" for item in plan.victims) == len(old) > 1
    done = lo.cleanup(uri, retain_versions=1, empty_trash=True)
    assert done.data_files_removed == len(old)
    assert not unused(uri)
    assert not (Path(uri) / TRASH_DIRECTORY).exists()
    assert not lo.undo_cleanup(uri).changed
    check_rows(uri, {max(rows): rows[max(rows)]})


def test_a_version_whose_time_is_over_goes_and_the_others_stay(tmp_path: Path):
    uri, rows = grown(tmp_path / "t")
    lo.cleanup(uri, retain_versions=2, grace=WEEK)
    trash = Path(uri) / TRASH_DIRECTORY
    oldest = max(trash.iterdir(), key=lambda path: path.name.partition("-")[2])
    oldest.rename(trash / f"1000-{oldest.name.partition('-')[2]}")
    lo.cleanup(uri, retain_versions=2)
    back = lo.undo_cleanup(uri)
    assert list(back.versions_back) == sorted(rows)[1:-2]
    check_rows(uri, {version: ids for version, ids in rows.items() if version > 1})


def test_versions_that_the_peer_took_files_of_are_named(tmp_path: Path):
    uri, rows = grown(tmp_path / "t")
    lo.cleanup(uri, retain_versions=1, grace=WEEK)
    lance.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    lo.append(uri, pa.table({"id": [99]}))
    back = lo.undo_cleanup(uri)
    assert 1 in back.versions_left
    assert any(reason.startswith("version 1: cannot find") for reason in back.reasons)
    check_rows(uri, {version: rows[version] for version in back.versions_back})
    assert lo.fsck(uri).ok


def test_tags_named_versions_and_unknown_numbers(tmp_path: Path):
    uri, _ = grown(tmp_path / "t")
    lo.create_tag(uri, "kept", 2)
    lo.cleanup(uri, retain_versions=1, grace=WEEK)
    assert 2 in versions(uri)
    back = lo.undo_cleanup(uri, [1, 500])
    assert back.versions_back == (1,)
    assert back.reasons == ("version 500: it is not in the trash",)
    assert versions(uri)[:2] == [1, 2]
    assert lo.dataset(uri, "kept").count_rows() == 20


def test_a_policy_names_the_grace_period(tmp_path: Path):
    uri, rows = grown(tmp_path / "t")
    policy = lo.MaintenancePolicy(
        max_versions=2, retain_versions=1, older_than=timedelta(0), cleanup_grace=WEEK
    )
    assert lo.MaintenancePolicy.of_values(policy.values()) == policy
    lo.maintain(uri, policy)
    assert lo.undo_cleanup(uri).versions_back[0] == min(rows)
    check_rows(uri, rows)


def test_a_negative_grace_period_is_refused(tmp_path: Path):
    uri, _ = grown(tmp_path / "t")
    with pytest.raises(lo.errors.InvalidArgumentError, match="grace"):
        lo.cleanup(uri, grace=timedelta(days=-1))
    with pytest.raises(lo.errors.InvalidArgumentError, match="cleanup_grace"):
        lo.MaintenancePolicy(cleanup_grace=timedelta(days=-1))


def test_a_second_trip_to_the_trash(tmp_path: Path):
    uri, rows = grown(tmp_path / "t")
    for _ in range(2):
        lo.cleanup(uri, retain_versions=1, grace=WEEK)
        lo.undo_cleanup(uri)
    lo.cleanup(uri, retain_versions=1, grace=timedelta(0))
    assert versions(uri) == [max(rows)]
    assert not unused(uri)


STEPS: list[Callable[[Store], object]] = [
    lambda store: lo.cleanup(store, retain_versions=1, grace=WEEK),
    lambda store: lo.undo_cleanup(store),
    lambda store: lo.cleanup(store, retain_versions=1, grace=WEEK),
    lambda store: lo.cleanup(store, retain_versions=1, empty_trash=True),
]


@pytest.mark.parametrize("step", range(len(STEPS)), ids=["to trash", "undo", "to trash again", "empty trash"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_call_leaves_no_version_without_its_files(step: int, when: str):
    with memory() as store:
        lo.append(store, pa.table({"id": range(5)}))
        lo.delete(store, "id = 1")
        lo.append(store, pa.table({"id": range(5, 7)}))
        lo.compact(store)
        rows = {
            info.version: lo.dataset(store, info.version).to_table()["id"].to_pylist()
            for info in lo.dataset(store).versions()
        }
        for before in STEPS[:step]:
            before(store)
        start = objects(store)
        counting = FaultyStore(store)
        STEPS[step](counting)
        calls = [number for number, call in enumerate(counting.calls, 1) if call.name in MUTATING]
        assert calls
        for number in calls:
            erase(store)
            put_all(store, start)
            with contextlib.suppress(Exception):
                STEPS[step](FaultyStore(store, fail_at=number, when=when, mode="crash", count="any"))
            there = [info.version for info in lo.dataset(store).versions()]
            assert max(there) == max(rows)
            for version in there:
                assert lo.dataset(store, version).to_table()["id"].to_pylist() == rows[version]
            plan = lo.undo_cleanup(store, dry_run=True)
            if step < 3:
                # Nothing is lost: each version is there, or in the trash with its files.
                assert {*there, *(item.version for item in plan.versions if not item.reason)} == set(rows)
            # The pin of a process that was killed counts for some days.
            store.delete_many([path for path in objects(store) if path.startswith(PINS_DIRECTORY)])
            for following in STEPS[step:]:
                following(store)
            assert [info.version for info in lo.dataset(store).versions()] == [max(rows)]
            left = {
                path for path in objects(store) if path.startswith(("data/", "_deletions/", TRASH_DIRECTORY))
            }
            assert len(left) == 1
        erase(store)
