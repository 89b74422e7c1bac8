"""Ages by clocks that are wrong: a writer's, the host's that cleans up, the store's own being the measure."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.maintenance.cleanup.line import CleanupOptions, Line
from lance_ops.maintenance.cleanup.plan import plan_cleanup
from lance_ops.maintenance.store_clock import store_now
from lance_ops.storage import ObjectInfo, Store, open_store
from lance_ops.table.commit import loop as commit_module
from lance_ops.table.manifest.listing import list_versions
from lance_ops.table.transaction.operations import ManifestOptions
from tests.support.faulty_store import FaultyStore

DAY = timedelta(days=1)
YEAR = timedelta(days=365)


class ShiftedStore(FaultyStore):
    """A store whose clock is behind that of this machine by so much."""

    def __init__(self, inner: Store, behind: timedelta) -> None:
        super().__init__(inner)
        self._behind = behind

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        for info in super().list(prefix, start_after=start_after):
            yield ObjectInfo(info.path, info.size, info.modified - self._behind)


class _Clock(datetime):
    """Stands for `datetime` in the module that stamps commits."""

    ahead = timedelta(0)

    @classmethod
    def now(cls, tz=None) -> datetime:
        return datetime.now(tz) + cls.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[_Clock]:
    monkeypatch.setattr(commit_module, "datetime", _Clock)
    monkeypatch.setattr(_Clock, "ahead", timedelta(0))
    return _Clock


def commit_at(clock: type[_Clock], path: Path, ahead: timedelta) -> datetime:
    """Append by a host whose clock is ahead by so much; the stamp of the version."""
    clock.ahead = ahead
    lo.append(path, pa.table({"x": [1]}))
    clock.ahead = timedelta(0)
    return lo.dataset(path).manifest.timestamp


def age(path: Path, days: float) -> None:
    """Let all that is there have been written so long ago, by the store's clock."""
    for file in path.rglob("*"):
        if file.is_file():
            moment = file.stat().st_mtime - days * 86_400
            os.utime(file, (moment, moment))


def test_a_stamp_far_ahead_is_followed_by_nobody(tmp_path: Path, clock: type[_Clock]) -> None:
    path = tmp_path / "t.lance"
    commit_at(clock, path, timedelta(0))
    assert commit_at(clock, path, YEAR) - datetime.now(UTC) > YEAR - DAY
    now = datetime.now(UTC)
    after = [commit_at(clock, path, timedelta(0)) for _ in range(2)]
    assert now <= after[0] < after[1] < now + timedelta(minutes=10)


@pytest.mark.parametrize("ahead", [timedelta(seconds=1), timedelta(minutes=9)])
def test_a_stamp_a_little_ahead_is_followed_so_that_time_does_not_stand_still(
    tmp_path: Path, clock: type[_Clock], ahead: timedelta
) -> None:
    path = tmp_path / "t.lance"
    first = commit_at(clock, path, ahead)
    stamps = [commit_at(clock, path, timedelta(0)) for _ in range(3)]
    assert sorted({first, *stamps}) == [first, *stamps]


def test_a_host_that_is_slow_follows_the_others(tmp_path: Path, clock: type[_Clock]) -> None:
    """To it all stamps look far ahead; but the store says that they are not."""
    path = tmp_path / "t.lance"
    first = commit_at(clock, path, timedelta(0))
    stamps = [commit_at(clock, path, -YEAR) for _ in range(3)]
    assert sorted({first, *stamps}) == [first, *stamps]


def test_nothing_is_asked_of_the_store_in_the_ordinary_case(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lo.append(path, pa.table({"x": [1]}))
    head = lo.dataset(path).manifest
    store = FaultyStore(open_store(str(path)), lambda call: True, mode="error", count="any", times=1000)
    now = datetime.now(UTC)
    assert commit_module.latest_credible(store, head, now) > now
    assert ManifestOptions(now).follow_until is None


def test_one_commit_a_year_ahead_does_not_stop_cleanup(tmp_path: Path, clock: type[_Clock]) -> None:
    path = tmp_path / "t.lance"
    for ahead in (timedelta(0), YEAR, timedelta(0), timedelta(0)):
        commit_at(clock, path, ahead)
    age(path, 30)
    commit_at(clock, path, timedelta(0))
    lo.cleanup(path, older_than=14 * DAY)
    assert [location.version for location in list_versions(open_store(str(path)))] == [5]


@pytest.mark.parametrize("ahead", [DAY, 30 * DAY, -DAY])
@pytest.mark.parametrize(("file_age", "goes"), [(6.9, False), (7.1, True)])
def test_the_age_of_files_is_measured_by_the_clock_of_the_store(
    tmp_path: Path, ahead: timedelta, file_age: float, goes: bool
) -> None:
    path = tmp_path / "t.lance"
    lo.append(path, pa.table({"x": [1]}))
    orphan = path / "data" / "orphan.lance"
    orphan.write_bytes(b"x")
    # By the store, so that this machine is ahead by so much.
    moment = (datetime.now(UTC) - timedelta(days=file_age)).timestamp()
    os.utime(orphan, (moment, moment))
    lo.cleanup(ShiftedStore(open_store(str(path)), ahead))
    assert orphan.exists() is not goes


def test_versions_stay_as_long_by_the_clock_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    for _ in range(3):
        lo.append(path, pa.table({"x": [1]}))
    # Were the host's clock asked, versions of a store that is 20 days behind were 20 days old at once.
    lo.cleanup(ShiftedStore(open_store(str(path)), 20 * DAY), older_than=14 * DAY)
    assert len(list_versions(open_store(str(path)))) == 3


def test_the_clock_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lo.append(path, pa.table({"x": [1]}))
    before = sorted(path.rglob("*"))
    now = store_now(open_store(str(path)))
    assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)
    assert sorted(path.rglob("*")) == before


def test_a_manifest_that_appeared_after_the_list_is_young(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    for _ in range(3):
        lo.append(path, pa.table({"x": [1]}))
    plan = plan_cleanup(
        Line.of(open_store(str(path))),
        CleanupOptions(older_than=DAY),
        now=datetime.now(UTC) + timedelta(hours=25),
    )
    assert [verdict.version for verdict in plan.expired] == [1, 2]
