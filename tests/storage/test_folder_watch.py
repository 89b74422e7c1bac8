"""What the kernel tells of a folder."""

import ctypes
import multiprocessing
import os
import sys

import pytest

from lance_ops.storage import folder_watch, open_store
from lance_ops.storage.folder_watch import Change, watch_folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="folders are listed elsewhere")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "watched").mkdir()
    return tmp_path / "watched"


@pytest.fixture
def watch(folder):
    found = watch_folder(str(folder))
    assert found is not None, "the temporary folder lies on no file system of this machine alone"
    yield found
    found.close()


def test_names_that_are_made_linked_renamed_and_removed_are_told_in_order(folder, watch):
    (folder / "a").touch()
    os.link(folder / "a", folder / "b")
    (folder / "a").rename(folder / "c")
    (folder / "b").unlink()
    assert watch.changes() == [
        Change("a", appeared=True),
        Change("b", appeared=True),
        Change("a", appeared=False),
        Change("c", appeared=True),
        Change("b", appeared=False),
    ]
    assert watch.changes() == []


def test_what_is_written_into_a_file_is_no_change_of_names(folder, watch):
    (folder / "a").write_text("1")
    assert watch.changes() == [Change("a", appeared=True)]
    (folder / "a").write_text("2")
    os.utime(folder, (0, 0))
    assert watch.changes() == []


def test_several_watches_of_one_folder_hear_the_same(folder, watch, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    other = watch_folder(str(tmp_path / "link"))
    (folder / "a").touch()
    assert other.changes() == watch.changes() == [Change("a", appeared=True)]
    other.close()
    (folder / "b").touch()
    assert watch.changes() == [Change("b", appeared=True)]
    assert other.changes() is None


def remove(folder):
    folder.rmdir()


def replace_by_a_new_one(folder):
    folder.rmdir()
    folder.mkdir()


def swap(folder):
    (folder.parent / "other").mkdir()
    folder.rename(folder.parent / "away")
    (folder.parent / "other").rename(folder)


def swap_the_parent(folder):
    parent, other = folder.parent, folder.parent.parent / "other"
    (other / folder.name).mkdir(parents=True)
    parent.rename(parent.parent / "away")
    other.rename(parent)


@pytest.mark.parametrize("change", [remove, replace_by_a_new_one, swap, swap_the_parent])
def test_a_folder_that_is_removed_or_replaced_ends_the_watch(tmp_path, change):
    folder = tmp_path / "parent" / "watched"
    folder.mkdir(parents=True)
    watch = watch_folder(str(folder))
    change(folder)
    assert watch.changes() is None
    assert watch.changes() is None


def test_more_changes_than_the_kernel_keeps_end_the_watch(folder, watch):
    with open("/proc/sys/fs/inotify/max_queued_events") as limit:
        most = int(limit.read())
    if most > 1 << 17:
        pytest.skip("the queue of this machine is very long")
    for number in range(most // 2 + 1):
        (folder / str(number)).touch()
        (folder / str(number)).unlink()
    assert watch.changes() is None


def test_changes_that_nobody_asks_for_are_not_kept_for_ever(folder, watch, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_watch, "_MOST_PENDING", 10)
    asked = watch_folder(str(tmp_path))
    for number in range(12):
        (folder / str(number)).touch()
    assert asked.changes() == []
    assert len(watch.pending) == 10
    assert watch.changes() is None
    asked.close()


def _in_child(watch, folder, answers):
    own = watch_folder(str(folder))
    (folder / "of the child").touch()
    answers.put((watch.changes(), own.changes()))


def test_a_fork_takes_nothing_from_its_parent(folder, watch):
    context = multiprocessing.get_context("fork")
    (folder / "before").touch()
    answers = context.Queue()
    child = context.Process(target=_in_child, args=(watch, folder, answers))
    child.start()
    assert answers.get(timeout=60) == (None, [Change("of the child", appeared=True)])
    child.join()
    assert watch.changes() == [Change("before", appeared=True), Change("of the child", appeared=True)]


def test_what_other_processes_do_is_told(folder, watch):
    child = multiprocessing.get_context("spawn").Process(target=os.mkdir, args=(folder / "made",))
    child.start()
    child.join()
    assert watch.changes() == [Change("made", appeared=True)]


def test_no_folder_and_no_file_is_watched(tmp_path):
    (tmp_path / "file").touch()
    assert watch_folder(str(tmp_path / "file")) is None
    assert watch_folder(str(tmp_path / "none")) is None


def test_file_systems_that_others_may_change_are_not_watched():
    assert watch_folder("/proc/self/task") is None


def test_small_folders_are_not_watched(tmp_path):
    (tmp_path / "f").mkdir()
    assert open_store(tmp_path).watch_folder("f") is None
    assert open_store(tmp_path).watch_folder("none") is None


def test_where_the_system_refuses_folders_are_not_watched(folder, monkeypatch):
    monkeypatch.setattr(folder_watch, "_current", None)

    class Without:
        pass

    monkeypatch.setattr(ctypes, "CDLL", lambda _name: Without())
    assert watch_folder(str(folder)) is None
