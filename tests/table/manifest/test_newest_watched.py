"""The newest version of a long history, known by what the kernel tells, is the one that a listing finds."""

import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import CorruptManifestError, DatasetNotFoundError
from lance_ops.storage import open_store
from lance_ops.storage.local import store as local
from lance_ops.storage.local.store import LocalStore
from lance_ops.table.manifest import newest_watched
from lance_ops.table.manifest.listing import latest
from lance_ops.table.manifest.naming import NamingScheme, manifest_name, parse_manifest_name
from tests.safety.profile import examples

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="folders are listed elsewhere")


@pytest.fixture(autouse=True)
def _every_folder_is_large(monkeypatch):
    monkeypatch.setattr(local, "_WATCHED_FROM", 0)


@pytest.fixture
def listings(monkeypatch):
    """How often the names of the manifests were listed."""
    count = []
    before = LocalStore.list_names

    def counted(self, folder):
        count.append(folder)
        return before(self, folder)

    monkeypatch.setattr(LocalStore, "list_names", counted)
    return count


def expected(folder: Path) -> int | type[Exception]:
    """What a reader finds who looks at every name."""
    names = os.listdir(folder) if folder.is_dir() else []
    found = [parsed for parsed in map(parse_manifest_name, names) if parsed and parsed[1] is not None]
    if not found:
        return DatasetNotFoundError
    if len({scheme for _, scheme in found}) > 1:
        return CorruptManifestError
    return max(version for version, _ in found)


def answer(store) -> int | type[Exception]:
    try:
        return latest(store).version
    except (DatasetNotFoundError, CorruptManifestError) as error:
        return type(error)


NUMBERS = st.integers(1, 12)
CHANGES = st.one_of(
    st.tuples(
        st.sampled_from(["put", "link", "rename", "remove", "v1", "detached", "temporary", "away"]), NUMBERS
    ),
    st.tuples(st.sampled_from(["commit", "clean", "removed", "made anew", "swapped", "clock", "fork"])),
    # Others, and ourselves, look all the time.
    st.tuples(st.just("look")),
)


def act(folder: Path, what: str, number: int = 0) -> None:
    """What anybody may do in the folder of the manifests, whoever it is."""
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / manifest_name(number, NamingScheme.V2)
    present = sorted(version for name in os.listdir(folder) if (version := _version(name)))
    newest = present[-1] if present else 0
    if what == "put":
        path.touch()
    elif what in ("link", "rename"):
        staged = folder / f"{number}.tmp"
        staged.touch()
        if what == "rename":
            staged.rename(path)
        elif not path.exists():
            os.link(staged, path)
            staged.unlink()
    elif what == "remove":
        path.unlink(missing_ok=True)
    elif what == "v1":
        (folder / manifest_name(number, NamingScheme.V1)).touch()
    elif what == "detached":
        (folder / f"d{2**63 + number}.manifest").touch()
    elif what == "temporary":
        (folder / "latest_version_hint.json").write_text(f'{{"version":{number}}}')
    elif what == "away" and path.exists():
        path.rename(folder.parent / path.name)
    elif what == "commit":
        (folder / manifest_name(newest + 1, NamingScheme.V2)).touch()
    elif what == "clean":
        for version in present[:-1]:
            (folder / manifest_name(version, NamingScheme.V2)).unlink()
    elif what == "removed":
        shutil.rmtree(folder)
    elif what == "made anew":
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / manifest_name(1, NamingScheme.V2)).touch()
    elif what == "swapped":
        other = folder.parent / "other"
        other.mkdir()
        (other / manifest_name(2, NamingScheme.V2)).touch()
        folder.rename(folder.parent / "gone")
        other.rename(folder)
        shutil.rmtree(folder.parent / "gone")
    elif what == "clock":
        # Whatever the stamps of the folder say, nobody looks at them.
        os.utime(folder, (0, 0))
    elif what == "fork":
        newest_watched._after_fork()


def _version(name: str) -> int | None:
    parsed = parse_manifest_name(name)
    return parsed[0] if parsed and parsed[1] is NamingScheme.V2 else None


@given(changes=st.lists(CHANGES, max_size=30))
@examples(300)
def test_after_any_changes_the_newest_version_is_the_one_that_a_listing_finds(changes):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "_versions"
        store = open_store(place)
        for change in changes:
            if change == ("look",):
                assert answer(store) == expected(folder)
            else:
                act(folder, *change)
        assert answer(store) == expected(folder)


STEPS = st.sampled_from(
    ["ours", "keyed", "peer", "restore", "peer restore", "cleanup", "peer cleanup", "delete", "anew", "tag"]
)


@pytest.mark.peer
@given(steps=st.lists(STEPS, min_size=3, max_size=10))
@examples(15)
def test_commits_between_those_of_others_lose_nothing(steps):
    with tempfile.TemporaryDirectory() as place:
        uri = f"{place}/t"
        lo.append(uri, pa.table({"i": [0]}))
        expected_rows = {1: [0]}
        rows = [0]
        for number, step in enumerate(steps, 1):
            new = pa.table({"i": [number]})
            before = latest(open_store(uri)).version
            if step == "ours":
                lo.append(uri, new)
            elif step == "keyed":
                lo.append(uri, new, job_key=str(number))
            elif step == "peer":
                lance.write_dataset(new, uri, mode="append")
            elif step in ("restore", "peer restore"):
                oldest = min(info.version for info in lo.dataset(uri).versions())
                if step == "restore":
                    lo.restore(uri, oldest)
                else:
                    lance.dataset(uri, version=oldest).restore()
                rows = expected_rows[oldest]
            elif step == "cleanup":
                lo.cleanup(uri, retain_versions=1)
            elif step == "peer cleanup":
                lance.dataset(uri).cleanup_old_versions(
                    older_than=timedelta(0), error_if_tagged_old_versions=False
                )
            elif step == "delete":
                lo.delete(uri, "i = 0")
                rows = [row for row in rows if row]
            elif step == "tag":
                lo.create_tag(uri, f"t{number}")
            else:
                shutil.rmtree(uri)
                lo.append(uri, new)
                rows, expected_rows = [number], {}
            if step in ("ours", "keyed", "peer"):
                rows = [*rows, number]
            version = latest(open_store(uri)).version
            assert version == lance.dataset(uri).version
            assert step == "anew" or version >= before
            expected_rows[version] = rows
            assert sorted(lo.dataset(uri).to_table()["i"].to_pylist()) == sorted(rows)


def test_a_process_lists_a_long_history_once(tmp_path, listings):
    uri = str(tmp_path / "t")
    lo.append(uri, pa.table({"i": [0]}))
    listings.clear()
    newest_watched._watched.clear()
    for number in range(5):
        lo.append(uri, pa.table({"i": [number]}), job_key=str(number) if number % 2 else None)
        lo.dataset(uri)
    lo.delete(uri, "i = 0")
    assert listings == ["_versions"]


def test_a_version_that_passed_ours_by_is_noticed(tmp_path):
    uri = str(tmp_path / "t")
    lo.append(uri, pa.table({"i": [0]}))
    stale = lo.dataset(uri)
    # Others commit the next version and one more, and remove the next one again.
    for number in (1, 2):
        lo.append(uri, pa.table({"i": [number]}))
    lo.create_tag(uri, "keeps", 1)
    lo.cleanup(uri, retain_versions=1)
    assert {info.version for info in stale.versions()} == {1, 3}
    lo.append(stale, pa.table({"i": [3]}))
    assert lo.dataset(uri).to_table()["i"].to_pylist() == [0, 1, 2, 3]


def _append_many(uri: str, start: int, number: int) -> None:
    local._WATCHED_FROM = 0
    for value in range(start, start + number):
        lo.append(uri, pa.table({"i": [value]}))


def test_writers_in_several_processes_and_threads_lose_nothing(tmp_path):
    uri = str(tmp_path / "t")
    lo.append(uri, pa.table({"i": [-1]}))
    context = multiprocessing.get_context("spawn")
    workers = [
        *(context.Process(target=_append_many, args=(uri, 100 * n, 15)) for n in range(2)),
        *(threading.Thread(target=_append_many, args=(uri, 100 * n, 15)) for n in range(2, 4)),
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    wanted = [-1, *(100 * n + value for n in range(4) for value in range(15))]
    assert sorted(lo.dataset(uri).to_table()["i"].to_pylist()) == wanted


def test_as_many_datasets_as_wanted_are_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(newest_watched, "_MOST_WATCHED", 2)
    newest_watched._watched.clear()
    for turn in (1, 2):
        for number in range(4):
            lo.append(str(tmp_path / str(number)), pa.table({"i": [0]}))
            assert latest(open_store(tmp_path / str(number))).version == turn
            assert len(newest_watched._watched) <= 2
