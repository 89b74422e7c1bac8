"""What only local files can get wrong: crashes, races of processes, links, maps, the disk itself."""

import contextlib
import errno
import gc
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import (
    AlreadyExistsError,
    CorruptFileError,
    FileMissingError,
    InvalidArgumentError,
    NotFlushedError,
    PermissionDeniedError,
    StorageError,
    StorageFullError,
)
from lance_ops.storage import is_temporary, open_store, range_copy
from lance_ops.storage.local import atomic_file
from lance_ops.storage.local import store as local
from tests.support.flushes import FlushSeam

CONTENT = b"whole" * 1000


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "root", {"fsync": "false"})


def visible(store):
    return [info.path for info in store.list("") if not is_temporary(info.path)]


def run_python(code, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], capture_output=True, timeout=60, **options
    )


# Crashes


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("call", "step"),
    [
        ("put if absent", "atomic_file.flush_data"),
        ("put if absent", "os.link"),
        ("put if absent", "os.unlink"),
        ("put if absent", "atomic_file.flush_folder"),
        ("put", "os.replace"),
        ("writer", "atomic_file.flush_data"),
        ("writer", "os.replace"),
        ("copy", "os.link"),
    ],
)
def test_a_killed_process_leaves_the_file_absent_or_whole(tmp_path, call, step, moment):
    store = open_store(tmp_path)
    store.put("source", CONTENT)
    if step == "atomic_file.flush_folder":
        # Folders that the store makes are flushed before the file is there.
        (tmp_path / "new" / "folder").mkdir(parents=True)
    code = """
        import os, signal, sys
        from lance_ops.storage import open_store
        from lance_ops.storage.local import atomic_file
        root, call, step, moment = sys.argv[1:]
        store = open_store(root)
        owners = {"os": os, "atomic_file": atomic_file}
        owner, name = owners[step.split(".")[0]], step.split(".")[1]
        original = getattr(owner, name)
        def killed(*arguments, **options):
            if moment == "after":
                original(*arguments, **options)
            os.kill(os.getpid(), signal.SIGKILL)
        setattr(owner, name, killed)
        content = b"whole" * 1000
        if call == "writer":
            with store.open_writer("new/folder/file") as writer:
                for start in range(0, len(content), 100):
                    writer.write(content[start : start + 100])
        elif call == "copy":
            store.copy("source", "new/folder/file", if_absent=True)
        else:
            store.put("new/folder/file", content, if_absent=call.endswith("absent"))
    """
    result = run_python(code, str(tmp_path), call, step, moment)
    assert result.returncode == -signal.SIGKILL, result.stderr.decode()
    for info in store.list("new"):
        if info.path == "new/folder/file":
            assert store.read("new/folder/file").to_pybytes() == CONTENT
        else:
            assert is_temporary(info.path)
    done = "new/folder/file" in visible(store)
    named = (step, moment) in {("os.link", "after"), ("os.replace", "after")}
    named |= step in ("os.unlink", "atomic_file.flush_folder")
    assert done == named
    # And nothing that the dead process left stands in the way of the next one.
    if done:
        with pytest.raises(AlreadyExistsError):
            store.put("new/folder/file", b"other", if_absent=True)
    else:
        store.put("new/folder/file", b"other", if_absent=True)
        assert store.read("new/folder/file").to_pybytes() == b"other"


@pytest.mark.slow
def test_of_racing_processes_exactly_one_wins(tmp_path):
    code = """
        import sys
        from lance_ops.errors import AlreadyExistsError
        from lance_ops.storage import open_store
        store = open_store(sys.argv[1], {"fsync": "false"})
        print("ready", flush=True)
        sys.stdin.readline()
        for key in range(200):
            try:
                store.put(f"v/{key}", sys.argv[2].encode() * 500, if_absent=True)
            except AlreadyExistsError:
                continue
            print(key)
    """
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = {}
    for number, racer in enumerate(racers):
        output, _ = racer.communicate(timeout=60)
        for line in output.split():
            assert int(line) not in won
            won[int(line)] = number
    assert sorted(won) == list(range(200))
    store = open_store(tmp_path)
    for key, number in won.items():
        assert store.read(f"v/{key}").to_pybytes() == str(number).encode() * 500
    assert len(visible(store)) == len(list(store.list(""))) == 200


# Durability


@pytest.fixture
def steps(monkeypatch):
    """The system calls that matter for durability, in their order."""
    recorded = []

    def record(owner, name, describe):
        original = getattr(owner, name)

        def wrapper(*arguments, **options):
            result = original(*arguments, **options)
            recorded.append(describe(*arguments))
            return result

        monkeypatch.setattr(owner, name, wrapper)

    def short(path):
        name = os.path.basename(path)
        return "temporary" if is_temporary(name) else name

    def note(path):
        recorded.append(("flush folder" if os.path.isdir(path) else "flush", short(path)))

    FlushSeam(monkeypatch, after=note)
    record(os, "link", lambda source, target: ("link", short(target)))
    record(os, "replace", lambda source, target: ("replace", short(target)))
    record(os, "mkdir", lambda folder: ("mkdir", short(folder)))
    record(os, "unlink", lambda path: ("unlink", short(path)))
    return recorded


def test_bytes_reach_the_disk_before_the_name_and_the_name_before_the_return(tmp_path, steps):
    store = open_store(tmp_path)
    store.put("file", b"1", if_absent=True)
    assert steps[:4] == [
        ("flush", "temporary"),
        ("link", "file"),
        ("unlink", "temporary"),
        ("flush folder", tmp_path.name),
    ]
    steps.clear()
    store.put("file", b"2")
    assert steps[:3] == [("flush", "temporary"), ("replace", "file"), ("flush folder", tmp_path.name)]
    steps.clear()
    with store.open_writer("file") as writer:
        writer.write(b"3")
        assert steps == []
    assert steps[:3] == [("flush", "temporary"), ("replace", "file"), ("flush folder", tmp_path.name)]


def test_new_folders_are_flushed_before_the_first_name_in_them(tmp_path, steps):
    open_store(tmp_path / "root").put("a/b/file", b"1")
    assert steps[:3] == [("mkdir", "root"), ("mkdir", "a"), ("mkdir", "b")]
    assert sorted(steps[3:7]) == [
        ("flush", "temporary"),
        ("flush folder", "a"),
        ("flush folder", "root"),
        ("flush folder", tmp_path.name),
    ]
    assert steps[7:9] == [("replace", "file"), ("flush folder", "b")]


def test_what_may_wait_is_flushed_before_the_next_durable_name(tmp_path, steps):
    store = open_store(tmp_path)
    store.put("a/first", b"1", durable="later")
    store.put("a/second", b"2", durable="later")
    store.put("a/hint", b"3", durable="never")
    store.put("b/manifest", b"4", if_absent=True)
    before = [step for step in steps[: steps.index(("link", "manifest"))] if step[0].startswith("flush")]
    assert sorted(before) == [
        ("flush", "first"),
        ("flush", "second"),
        ("flush", "temporary"),
        ("flush folder", "a"),
        ("flush folder", tmp_path.name),
    ]
    steps.clear()
    store.put("b/manifest", b"5")
    assert steps == [("flush", "temporary"), ("replace", "manifest"), ("flush folder", "b")]


def test_of_an_empty_file_only_the_name_is_flushed(tmp_path, steps):
    store = open_store(tmp_path)
    store.put("a/note", b"", durable="later")
    steps.clear()
    store.put("a/manifest", b"1")
    assert ("flush folder", "a") in steps[: steps.index(("replace", "manifest"))]
    assert ("flush", "note") not in steps


def test_what_may_be_torn_is_written_over_without_a_new_file(tmp_path, steps):
    store = open_store(tmp_path)
    store.put("a/hint", b"123", durable="never")
    before = (tmp_path / "a/hint").stat().st_ino
    steps.clear()
    for content in (b"45", b"", b"6789"):
        store.put("a/hint", content, durable="never")
        assert bytes(store.read("a/hint")) == content
    assert steps == []
    assert (tmp_path / "a/hint").stat().st_ino == before


def test_what_has_another_name_is_replaced_not_written_over(tmp_path):
    store = open_store(tmp_path)
    store.put("hint", b"123", durable="never")
    os.link(tmp_path / "hint", tmp_path / "copy")
    store.put("hint", b"4", durable="never")
    (tmp_path / "link").symlink_to(tmp_path / "copy")
    store.put("link", b"5", durable="never")
    assert [bytes(store.read(name)) for name in ("hint", "copy", "link")] == [b"4", b"123", b"5"]


def test_a_large_file_that_may_wait_is_on_the_disk_before_the_next_durable_name(tmp_path, monkeypatch):
    asked, flushed, at_link = threading.Event(), [], []
    link = os.link

    def wait(path):
        # Its own thread is at it: whoever stores the manifest waits for that.
        if path.endswith("large"):
            assert asked.wait(60)
        else:
            asked.set()

    FlushSeam(monkeypatch, before=wait, after=flushed.append)
    monkeypatch.setattr(os, "link", lambda source, target: (at_link.extend(flushed), link(source, target)))
    store = open_store(tmp_path)
    with store.open_writer("a/large", durable="later") as writer:
        writer.write(bytes(1 << 20))
    assert visible(store) == ["a/large"]
    store.put("b/manifest", b"1", if_absent=True)
    assert {str(tmp_path / "a/large"), str(tmp_path / "a")} < set(at_link)
    assert any(is_temporary(os.path.basename(path)) for path in at_link)


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_lost_file_stands_in_the_way_until_it_is_deleted(tmp_path, monkeypatch, size):
    store = open_store(tmp_path)
    with monkeypatch.context() as patch:
        FlushSeam(patch, before=fail_for("first"))
        store.put("a/first", bytes(size), durable="later")
        with pytest.raises(NotFlushedError, match="a/first"):
            store.put("b/manifest", b"2", if_absent=True)
    with pytest.raises(NotFlushedError, match="a/first"):
        store.put("b/manifest", b"2", if_absent=True)
    store.delete("a/first")
    store.put("b/manifest", b"2", if_absent=True)
    assert visible(store) == ["b/manifest"]


def test_a_lost_file_that_was_deleted_does_not_stand_in_the_way(tmp_path, monkeypatch):
    store = open_store(tmp_path)
    FlushSeam(monkeypatch, before=fail_for("first"))
    store.put("a/first", b"1", durable="later")
    store.delete("a/first")
    store.put("b/manifest", b"2", if_absent=True)
    assert visible(store) == ["b/manifest"]


def test_where_no_thread_can_be_had_files_are_flushed_all_the_same(tmp_path, steps, monkeypatch):
    class NoThreads:
        def submit(self, *arguments):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(atomic_file, "_pool", NoThreads)
    store = open_store(tmp_path)
    store.put("a/small", b"1", durable="later")
    store.put("a/large", bytes(1 << 20), durable="later")
    store.put("b/manifest", b"2", if_absent=True)
    named = steps.index(("link", "manifest"))
    assert {("flush", "small"), ("flush", "large"), ("flush folder", "a")} < set(steps[:named])


def test_a_folder_is_flushed_once_however_many_names_are_new_in_it(tmp_path, steps):
    store = open_store(tmp_path)
    for name in "abcdef":
        store.put(f"data/{name}", b"1", durable="later")
    store.put("manifest", b"2", if_absent=True)
    assert steps.count(("flush folder", "data")) == 1


def test_a_commit_that_was_interrupted_while_it_waited_can_be_repeated(tmp_path, monkeypatch, steps):
    """As Ctrl-C does."""
    store = open_store(tmp_path)
    store.put("a/first", CONTENT, durable="later")

    original = atomic_file.flush_data

    def interrupt(descriptor):
        # Python interrupts the main thread only; others may still be flushing what was written before.
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        original(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(atomic_file, "flush_data", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.put("manifest", CONTENT)
    steps.clear()
    store.put("manifest", CONTENT)
    assert ("flush folder", "a") in steps[: steps.index(("replace", "manifest"))]


def test_a_manifest_waits_for_flushes_that_another_thread_began(tmp_path, monkeypatch):
    """Both name files that were written before, whichever of them flushes the folder."""
    may_end, begun, flushed, at_link = threading.Event(), threading.Event(), [], []

    def before(path):
        if path == str(tmp_path / "data"):
            begun.set()
            assert may_end.wait(60)

    store = open_store(tmp_path)
    store.put("data/file", b"1", durable="later")
    link = os.link
    FlushSeam(monkeypatch, before=before, after=flushed.append)
    monkeypatch.setattr(os, "link", lambda *names: (at_link.append([*flushed]), link(*names)))
    first = threading.Thread(target=store.put, args=("v/1", b"1"), kwargs={"if_absent": True})
    second = threading.Thread(target=store.put, args=("v/2", b"2"), kwargs={"if_absent": True})
    first.start()
    assert begun.wait(60)
    second.start()
    may_end.set()
    first.join()
    second.join()
    assert [str(tmp_path / "data") in names for names in at_link] == [True, True]


def _put_in_child(store, answers):
    store.put("a/of the child", b"1")
    answers.put(store.list_names("a"))


def test_a_fork_does_not_wait_for_the_threads_of_its_parent(tmp_path):
    # In a process of its own: threads that other tests left behind, gRPC's say, may hold what a child needs.
    process = multiprocessing.get_context("spawn").Process(target=_fork_beside_threads, args=(str(tmp_path),))
    process.start()
    process.join(240)
    process.kill()
    assert process.exitcode == 0


def _fork_beside_threads(root):
    with pytest.MonkeyPatch.context() as patch:
        _fork_while_files_are_flushed(open_store(root), patch)


def _fork_while_files_are_flushed(store, monkeypatch):
    store.put("b/first", b"1")
    parent, begun, may_end = os.getpid(), threading.Event(), threading.Event()
    flushed = multiprocessing.get_context("fork").Queue()

    def flush(path):
        if os.path.basename(path) not in ("small", "large"):
            return
        if os.getpid() == parent:
            begun.set()
            assert may_end.wait(60)
        flushed.put((os.getpid() == parent, os.path.basename(path)))

    FlushSeam(monkeypatch, before=flush)
    store.put("a/small", b"1", durable="later")
    store.put("a/large", bytes(1 << 20), durable="later")
    assert begun.wait(60)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_put_in_child, args=(store, answers), daemon=True)
    # Somebody may be at work with the store just now.
    with store._pending._lock:
        child.start()
    try:
        assert set(answers.get(timeout=60)) == {"small", "large", "of the child"}
        # What the child makes visible may rest on what its parent wrote. A thread of the child sends this.
        assert {flushed.get(timeout=60) for _ in range(2)} == {(False, "small"), (False, "large")}
    finally:
        child.kill()
        child.join()
    may_end.set()
    store.put("a/of the parent", b"1")
    assert {flushed.get(timeout=60) for _ in range(2)} == {(True, "small"), (True, "large")}


def test_a_folder_that_could_not_be_flushed_is_flushed_next_time(tmp_path, steps, monkeypatch):
    store = open_store(tmp_path)
    store.put("a/first", b"1", durable="later")
    with monkeypatch.context() as patch:
        FlushSeam(patch, before=fail_for("a"))
        with pytest.raises(StorageError):
            store.put("b/manifest", b"2", if_absent=True)
    steps.clear()
    store.put("b/manifest", b"2", if_absent=True)
    assert ("flush folder", "a") in steps[: steps.index(("link", "manifest"))]


def test_after_a_file_that_waited_was_lost_nothing_gets_its_name(tmp_path, monkeypatch):
    store = open_store(tmp_path)
    with monkeypatch.context() as patch:
        FlushSeam(patch, before=fail_for("first"))
        store.put("a/first", b"1", durable="later")
        with pytest.raises(StorageError):
            store.put("b/manifest", b"2", if_absent=True)
    # The system reports a loss once: that the next flush succeeds proves nothing, in a child neither.
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_put_in_child, args=(store, answers), daemon=True)
    child.start()
    child.join(60)
    child.kill()
    assert child.exitcode == 1
    for _ in range(2):
        with pytest.raises(StorageError):
            store.put("b/manifest", b"2", if_absent=True)
    assert not store.exists("b/manifest")
    anew = open_store(tmp_path)
    anew.put("a/first", b"1", durable="later")
    anew.put("b/manifest", b"2", if_absent=True)


def test_many_files_that_wait_do_not_keep_many_descriptors(tmp_path):
    def held() -> int:
        # Other tests may leave descriptors that are closed while this one counts.
        links = []
        for descriptor in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        return sum(link.startswith(str(tmp_path)) for link in links)

    store = open_store(tmp_path)
    for number in range(100):
        store.put(f"a/{number}", b"1", durable="later")
    assert held() < 20
    store.put("b/manifest", b"2")
    assert held() == 0


def test_a_folder_that_is_gone_needs_no_flush(tmp_path):
    store = open_store(tmp_path)
    store.put("a/x/file", b"1", durable="never")
    shutil.rmtree(tmp_path / "a")
    store.put("b/file", b"2")
    assert visible(store) == ["b/file"]


def test_an_expendable_file_is_not_flushed_but_its_new_folder_is(tmp_path, steps):
    store = open_store(tmp_path)
    store.put("a/hint", b"1", durable="never")
    assert bytes(store.read("a/hint")) == b"1"
    store.put("a/file", b"1")
    assert ("flush folder", tmp_path.name) in steps[: steps.index(("replace", "file"))]
    assert ("flush", "hint") not in steps


def test_a_listing_can_start_after_a_name_that_a_folder_is_the_beginning_of(store):
    for path in ("a/x", "a-b", "a-c", "b"):
        store.put(path, b"1")
    assert [info.path for info in store.list("", start_after="a-b")] == ["a-c", "a/x", "b"]
    assert [info.path for info in store.list("", start_after="a/w")] == ["a/x", "b"]
    assert [info.path for info in store.list("", start_after="a/x")] == ["b"]


def test_without_fsync_nothing_is_flushed(store, steps):
    store.put("a/b", b"1", if_absent=True)
    store.put("a/b", b"2")
    assert not [step for step in steps if step[0].startswith("flush")]
    with pytest.raises(InvalidArgumentError, match="fsync"):
        open_store("/x", {"fsync": "perhaps"})


# The disk and the file system


def fail_for(wanted, number=errno.EIO):
    def fail(path):
        if os.path.basename(path) == wanted:
            raise OSError(number, os.strerror(number))

    return fail


def fail_with(number):
    def fail(*arguments, **options):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("place", ["flush", "flush with others", "open"])
def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path, monkeypatch, number, place):
    store = open_store(tmp_path)
    store.put("data/old", b"1")
    if place == "open":
        monkeypatch.setattr(atomic_file, "open", fail_with(number), raising=False)
    else:
        FlushSeam(
            monkeypatch, before=lambda path: is_temporary(os.path.basename(path)) and fail_with(number)()
        )
    if place == "flush with others":
        store.put("data/other", b"1", durable="later")
    for call in [
        lambda: store.put("data/x", b"1"),
        lambda: store.put("data/x", b"1", if_absent=True),
        lambda: store.open_writer("data/x").close(),
        lambda: store.copy("data/old", "data/x"),
    ]:
        with pytest.raises(StorageFullError, match="data/x"):
            call()
    monkeypatch.undo()
    left = ["data/old", "data/other"] if place == "flush with others" else ["data/old"]
    assert [info.path for info in store.list("")] == left


def test_a_real_full_device_is_reported(tmp_path):
    # /dev/full answers every write with "no space left", also to root.
    store = open_store(tmp_path)
    writer = store.open_writer("x")
    os.dup2(os.open("/dev/full", os.O_WRONLY), writer._file.fileno())
    with pytest.raises(StorageFullError):
        writer.write(bytes(2 << 20))
    writer.abort()
    assert list(store.list("")) == []
    gc.collect()


def test_a_file_that_misses_what_could_not_be_written_never_gets_its_name(store, monkeypatch):
    store.put("a", b"1")
    writer = store.open_writer("a")
    monkeypatch.setattr(os, "writev", fail_with(errno.ENOSPC))
    with pytest.raises(StorageFullError):
        writer.write(bytes(2 << 20))
    monkeypatch.undo()
    with pytest.raises(StorageError):
        writer.close()
    assert [info.path for info in store.list("")] == ["a"]
    assert store.read("a").to_pybytes() == b"1"


@pytest.mark.parametrize("most", [100, 1 << 20])
@pytest.mark.parametrize("reserves", [True, False])
def test_pieces_of_any_size_are_written_in_their_order(store, monkeypatch, most, reserves):
    writev, asked = os.writev, []

    def writev_a_little(descriptor, pieces):
        return writev(descriptor, [bytes(piece[:most]) for piece in pieces if piece][:1])

    def fallocate(*arguments):
        asked.append(arguments[1:])
        return 0 if reserves else -1

    monkeypatch.setattr(atomic_file, "_fallocate", fallocate)
    if most < 1 << 20:
        monkeypatch.setattr(os, "writev", writev_a_little)
    pieces = [b"a" * 10, b"b" * 70_000, b"", b"c" * 100, b"d" * 300_000, b"e"] * 3
    with store.open_writer("a") as writer:
        for piece in pieces:
            writer.write(memoryview(bytearray(piece)))
    assert store.read("a").to_pybytes() == b"".join(pieces)
    assert asked[0] == (1, 70_010, 300_100)
    assert len(asked) == (3 if reserves else 1)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENAMETOOLONG])
def test_other_failures_of_the_disk_are_storage_errors(store, monkeypatch, number):
    store.put("a", b"1")
    monkeypatch.setattr(os, "replace", fail_with(number))
    with pytest.raises(StorageError, match=os.strerror(number)) as caught:
        store.put("a", b"2")
    assert type(caught.value) is StorageError
    assert store.read("a").to_pybytes() == b"1"


def test_access_is_denied_with_the_path(tmp_path):
    code = """
        import os, pickle, sys
        from lance_ops.errors import LanceOpsError
        from lance_ops.storage import open_store
        if os.geteuid() == 0:
            os.seteuid(65534)
        store = open_store(sys.argv[1])
        for call in [
            lambda: store.read("closed/a"),
            lambda: store.read_ranges("closed/a", [(0, 1)]),
            lambda: store.exists("closed/a"),
            lambda: store.read("unreadable"),
            lambda: store.copy("unreadable", "open/x"),
            lambda: store.put("closed/b", b""),
            lambda: store.open_writer("new folder/b"),
            lambda: store.delete("closed/a"),
            lambda: list(store.list("closed")),
        ]:
            try:
                call()
                print("nothing raised")
            except LanceOpsError as error:
                print(type(error).__name__, error.path.removeprefix(sys.argv[1]))
    """
    root = tmp_path / "root"
    (root / "closed").mkdir(parents=True)
    (root / "open").mkdir()
    (root / "open").chmod(0o777)
    (root / "closed" / "a").write_bytes(b"1")
    (root / "unreadable").write_bytes(b"1")
    (root / "unreadable").chmod(0)
    (root / "closed").chmod(0)
    root.chmod(0o555)
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.stat().st_uid == os.getuid() and str(folder).startswith("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o111)
    try:
        result = run_python(code, str(root))
    finally:
        root.chmod(0o755)
        (root / "closed").chmod(0o755)
    assert result.stdout.decode().splitlines() == [
        "PermissionDeniedError /closed/a",
        "PermissionDeniedError /closed/a",
        "PermissionDeniedError /closed/a",
        "PermissionDeniedError /unreadable",
        "PermissionDeniedError /unreadable",
        "PermissionDeniedError /closed/b",
        "PermissionDeniedError /new folder/b",
        "PermissionDeniedError /closed/a",
        "PermissionDeniedError /closed",
    ], result.stderr.decode()


def test_permission_errors_are_typed():
    with pytest.raises(PermissionDeniedError):
        raise local.translate_os_error(PermissionError(errno.EROFS, "read-only"), "/x", reading=False)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_put_if_absent_works_without_hard_links(store, monkeypatch, number):
    monkeypatch.setattr(os, "link", fail_with(number))
    store.put("a", CONTENT, if_absent=True)
    assert store.read("a").to_pybytes() == CONTENT
    with pytest.raises(AlreadyExistsError):
        store.put("a", b"2", if_absent=True)
    assert [info.path for info in store.list("")] == ["a"]
    monkeypatch.setattr(atomic_file.shutil, "copyfileobj", fail_with(errno.ENOSPC))
    with pytest.raises(StorageFullError):
        store.put("b", b"1", if_absent=True)
    assert [info.path for info in store.list("")] == ["a"]


def test_a_link_whose_answer_was_lost_counts_as_done(store, monkeypatch):
    link = os.link

    def link_twice(source, target):
        link(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", link_twice)
    store.put("a", b"1", if_absent=True)
    assert store.read("a").to_pybytes() == b"1"


def test_a_folder_pruned_while_a_writer_starts_is_made_again(store, monkeypatch):
    mkdir, removed = os.mkdir, []

    def mkdir_and_prune(path):
        mkdir(path)
        if path.endswith("folder") and len(removed) < 3:
            removed.append(path)
            os.rmdir(path)

    monkeypatch.setattr(os, "mkdir", mkdir_and_prune)
    store.put("a/folder/x", b"1")
    assert len(removed) == 3
    assert store.exists("a/folder/x")


def test_folders_pruned_one_above_the_other_while_a_writer_starts_are_made_again(store, monkeypatch):
    mkdir, removed = os.mkdir, []

    def prune_and_mkdir(path):
        if path.endswith("folder") and len(removed) < 3:
            removed.append(path)
            os.rmdir(os.path.dirname(path))
        mkdir(path)

    monkeypatch.setattr(os, "mkdir", prune_and_mkdir)
    store.put("a/b/folder/x", b"1")
    assert len(removed) == 3
    assert store.exists("a/b/folder/x")


def test_a_file_in_the_place_of_a_folder_is_a_storage_error(store):
    store.put("a", b"1")
    for call in [
        lambda: store.put("a/b", b""),
        lambda: store.put("a/b/c", b""),
        lambda: store.open_writer("a/b"),
    ]:
        with pytest.raises(StorageError):
            call()
    store.put("d/x", b"1")
    with pytest.raises(StorageError):
        store.put("d", b"1")
    assert visible(store) == ["a", "d/x"]


def test_files_get_the_mode_that_the_umask_allows(store):
    old = os.umask(0o027)
    try:
        store.put("a", b"1", if_absent=True)
    finally:
        os.umask(old)
    assert os.stat(f"{store.uri}/a").st_mode & 0o777 == 0o640


# Reading


def test_large_reads_are_maps_and_keep_no_descriptor(store):
    store.put("a", os.urandom(9 << 20))
    before = len(os.listdir("/proc/self/fd"))
    allocated = pa.total_allocated_bytes()
    buffers = [store.read("a") for _ in range(20)]
    buffers += store.read_ranges("a", [(1, 8 << 20), (5, 10)])
    assert pa.total_allocated_bytes() == allocated
    assert len(os.listdir("/proc/self/fd")) == before
    assert np.array_equal(
        np.frombuffer(buffers[-2], np.uint8), np.frombuffer(buffers[0], np.uint8)[1 : 1 + (8 << 20)]
    )


def test_small_reads_fetch_no_more_than_needed(store):
    store.put("a", os.urandom(4 << 20))
    (first, second) = store.read_ranges("a", [(0, 10), (3 << 20, 10)])
    assert first.parent is None or first.parent.size <= 10
    assert second.size == 10


def test_a_file_that_shrinks_while_it_is_read_is_an_error(store, monkeypatch):
    store.put("a", bytes(9 << 20))
    real = os.stat(f"{store.uri}/a")
    os.truncate(f"{store.uri}/a", 100)
    monkeypatch.setattr(local, "stat_file", lambda full: real)
    for length in [9 << 20, 3 << 20, 1000]:
        with pytest.raises(CorruptFileError, match="shrank"):
            store.read("a", 0, length)
    with pytest.raises(CorruptFileError, match="shrank"):
        open_store(store.uri, {"memory_map": "false"}).read("a")


def test_what_is_no_regular_file_is_missing(store):
    store.put("d/x", b"1")
    os.mkfifo(f"{store.uri}/pipe")
    for path in ["pipe", "d"]:
        with pytest.raises(FileMissingError):
            store.read(path)
        # Of so few bytes nobody asks first what is there.
        with pytest.raises(FileMissingError):
            store.read(path, 0, 1)
        assert not store.exists(path)
    assert visible(store) == ["d/x"]


# Listing and deleting


def test_links_are_not_followed_out_of_the_root(store, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"1")
    store.put("inside/x", b"12")
    root = tmp_path / "root"
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "out.file").symlink_to(tmp_path / "outside" / "x")
    (root / "in.file").symlink_to(root / "inside" / "x")
    (root / "broken").symlink_to(root / "nothing")
    (root / "loop").symlink_to(root)
    assert [(info.path, info.size) for info in store.list("")] == [("in.file", 2), ("inside/x", 2)]
    assert store.list_dirs("") == ["inside"]


def test_a_root_that_is_a_link_is_followed(store, tmp_path):
    store.put("a/b", b"1")
    (tmp_path / "link").symlink_to("root")
    assert visible(open_store(tmp_path / "link")) == ["a/b"]


def test_a_file_that_vanishes_while_listing_is_left_out(store):
    for name in "abc":
        store.put(name, b"")
    listing = store.list("")
    assert next(listing).path == "a"
    store.delete("b")
    assert [info.path for info in listing] == ["c"]


def test_empty_folders_go_with_their_last_file_except_at_the_top(store):
    for name in ["data/x", "_indices/1/a", "_indices/1/b", "_indices/2/c"]:
        store.put(name, b"")
    store.delete_many(["data/x", "_indices/1/a", "_indices/1/b"])
    assert sorted(os.listdir(store.uri)) == ["_indices", "data"]
    assert os.listdir(f"{store.uri}/_indices") == ["2"]


def test_listing_shows_unfinished_writes_under_temporary_names(store):
    writer = store.open_writer("data/x")
    (found,) = store.list("")
    assert is_temporary(found.path)
    assert found.path.startswith("data/")
    writer.abort()


# Copies of ranges


@pytest.fixture(params=[False, True], ids=["by_buffer", "by_kernel"])
def copying_system(request, monkeypatch):
    monkeypatch.setattr(range_copy, "_system_copies", lambda device: request.param)


def test_ranges_are_copied_in_both_ways(store, copying_system):
    store.put("a", CONTENT * 200)
    with store.open_writer("b") as writer:
        writer.write(b"head")
        writer.copy_from(store, "a", [(2, 900_000), (10, 1), (5, 0)])
        writer.write(b"tail")
    expected = b"head" + (CONTENT * 200)[2:900_002] + CONTENT[10:11] + b"tail"
    assert store.read("b").to_pybytes() == expected


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EINVAL, errno.ENOSYS])
@pytest.mark.parametrize("copied_before", [0, 7])
def test_ranges_are_copied_where_the_kernel_cannot(store, monkeypatch, code, copied_before):
    copy, calls = os.copy_file_range, []

    def refuse(source, target, count, offset):
        calls.append(offset)
        if len(calls) == 1 and copied_before:
            return copy(source, target, copied_before, offset)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(range_copy, "_system_copies", lambda device: True)
    monkeypatch.setattr(os, "copy_file_range", refuse)
    store.put("a", CONTENT)
    with store.open_writer("b") as writer:
        writer.write(b"head")
        writer.copy_from(store, "a", [(2, 3000), (10, 1)])
        writer.write(b"tail")
    assert calls
    assert store.read("b").to_pybytes() == b"head" + CONTENT[2:3002] + CONTENT[10:11] + b"tail"


@pytest.mark.parametrize("call", ["copy_file_range", "write"])
def test_a_full_disk_is_named_when_ranges_are_copied(store, monkeypatch, call):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(range_copy, "_system_copies", lambda device: call == "copy_file_range")
    store.put("a", CONTENT)
    monkeypatch.setattr(os, call, full)
    with pytest.raises(StorageFullError), store.open_writer("b") as writer:
        writer.copy_from(store, "a", [(0, 10)])
    assert visible(store) == ["a"]


def test_a_file_that_shrinks_while_it_is_copied_is_an_error(store, monkeypatch):
    monkeypatch.setattr(os, "preadv", lambda *arguments: 0)
    store.put("a", CONTENT)
    with pytest.raises(CorruptFileError, match="shrank"), store.open_writer("b") as writer:
        writer.copy_from(store, "a", [(0, 10)])
    assert visible(store) == ["a"]


def test_the_kernel_copies_only_where_a_file_system_gains_by_it(tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    mounts.write_text("1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:44 / /x rw shared:1 - nfs4 host:/ rw\nodd -\n")
    monkeypatch.setattr(range_copy, "_MOUNTS", str(mounts))
    range_copy._system_copies.cache_clear()
    assert not range_copy._system_copies(os.makedev(8, 1))
    assert range_copy._system_copies(os.makedev(0, 44))
    assert not range_copy._system_copies(os.makedev(9, 9))
    range_copy._system_copies.cache_clear()
