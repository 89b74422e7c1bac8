"""`lance.auto_cleanup.*` in a table's config: what our commits clean up is what the peer's do."""

import logging
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.cleanup.auto import AutoCleanup, parse_duration
from tests.support.interop import our_dataset

PREFIX = "lance.auto_cleanup."
COMMITS = 10

CONFIGS = {
    "age": {"interval": "3", "older_than": "0s"},
    "number": {"interval": "3", "retain_versions": "2"},
    "a larger number": {"interval": "4", "retain_versions": "3"},
    "only the interval": {"interval": "3"},
    "after every commit": {"interval": "0", "retain_versions": "4"},
    "interval one": {"interval": "1", "retain_versions": "1"},
    "both": {"interval": "3", "older_than": "0s", "retain_versions": "3"},
    "both, and too young": {"interval": "3", "older_than": "14 days", "retain_versions": "3"},
    "no interval": {"older_than": "0s"},
    "interval that is no number": {"interval": "x", "retain_versions": "4"},
    "negative interval": {"interval": "-3", "older_than": "0s"},
    "age that is none": {"interval": "3", "older_than": "nonsense"},
    "no version at all": {"interval": "3", "retain_versions": "0"},
    "branches": {"interval": "3", "older_than": "0s", "referenced_branch": "true"},
}


def versions(path: Path) -> list[int]:
    return [info.version for info in lo.dataset(path).versions()]


def start(path: Path, config: dict[str, str]) -> None:
    lance.write_dataset(pa.table({"x": [0]}), str(path))
    lance.dataset(str(path)).update_config({PREFIX + key: value for key, value in config.items()})


@pytest.mark.peer
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_what_goes_is_what_goes_after_commits_of_the_peer(tmp_path: Path, config: dict[str, str]) -> None:
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    start(ours, config)
    start(theirs, config)
    assert versions(ours) == versions(theirs)
    for number in range(COMMITS):
        table = pa.table({"x": [number]})
        lo.append(ours, table)
        lance.write_dataset(table, str(theirs), mode="append")
        assert versions(ours) == versions(theirs), number
        assert len(list((ours / "_transactions").iterdir())) == len(
            list((theirs / "_transactions").iterdir())
        )
    assert lance.dataset(str(ours)).count_rows() == COMMITS + 1


def test_every_operation_is_followed_by_it(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10, 10])
    lo.update_config(path, {f"{PREFIX}interval": "1"})
    for operation in (
        lambda: lo.append(path, lo.dataset(path).to_table()),
        lambda: lo.create_index(path, "x"),
        lambda: lo.delete(path, "x = 3"),
        lambda: lo.append(path, lo.dataset(path).to_table()),
        lambda: lo.optimize_indices(path),
        lambda: lo.compact(path),
        lambda: lo.drop_index(path, "x_idx"),
        lambda: lo.write_dataset(lo.dataset(path).to_table(), path, mode="overwrite"),
        lambda: lo.replace_where(path, lo.dataset(path).to_table(), "x IS NOT NULL"),
    ):
        before = lo.dataset(path).version
        operation()
        now = lo.dataset(path).version
        assert now > before
        assert versions(path) == [now - 1, now]
    assert lo.fsck(path, deep=True).ok


def test_a_compaction_in_several_commits_is_not_disturbed(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10] * 8)
    lo.update_config(path, {f"{PREFIX}interval": "1"})
    result = lo.compact(path, target_rows_per_fragment=20, commit_every=1)
    assert result.commits > 1
    assert result.conflicts == ()
    assert len(versions(path)) == 2


def test_the_second_run_of_a_job_and_a_dry_run_clean_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10])
    lo.append(path, lo.dataset(path).to_table(), job_key="once")
    lo.update_config(path, {f"{PREFIX}interval": "1"})
    before = versions(path)
    lo.append(path, lo.dataset(path).to_table(), job_key="once")
    lo.delete(path, "x = 1", dry_run=True)
    lo.delete(path, "x = 1000")
    assert versions(path) == before


def test_a_tag_stays_and_does_not_stop_it(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10, 10])
    lo.create_tag(path, "keep", 1)
    lo.update_config(path, {f"{PREFIX}interval": "4"})
    lo.append(path, lo.dataset(path).to_table())
    assert versions(path) == [1, 3, 4]


def test_what_goes_wrong_is_logged_and_the_commit_stands(tmp_path: Path, caplog) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10])
    lo.update_config(path, {f"{PREFIX}interval": "three"})
    with caplog.at_level(logging.WARNING, logger="lance_ops.auto_cleanup"):
        assert lo.append(path, lo.dataset(path).to_table()).version == 3
    assert "'three' is not a number" in caplog.text
    assert lo.dataset(path).count_rows() == 20


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("0s", timedelta(0)),
        ("14d", timedelta(days=14)),
        ("2 weeks", timedelta(weeks=2)),
        ("1h 30m", timedelta(minutes=90)),
        ("1h30min5s", timedelta(minutes=90, seconds=5)),
        ("500ms", timedelta(milliseconds=500)),
        ("1M", timedelta(seconds=2_630_016)),
        ("9999999 years", timedelta.max),
    ],
)
def test_durations(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", " ", "5", "d", "5 fortnights", "1d x", "-1d", "1.5d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not a duration"):
        parse_duration(text)


def test_nothing_is_asked_for_without_an_interval() -> None:
    assert AutoCleanup.of({}) is None
    assert AutoCleanup.of({f"{PREFIX}retain_versions": "3"}) is None
