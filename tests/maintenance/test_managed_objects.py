"""Objects of managed blobs: cleanup removes what no kept version names, and clones have their own."""

import contextlib
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from itertools import count, islice
from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import (
    CleanupRefusedError,
    FileMissingError,
    LanceOpsError,
    RetryableCommitConflictError,
    UnsupportedError,
    VersionNotFoundError,
)
from lance_ops.storage import Store, open_store, retry
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.hiding_store import HideOnce, HidingStore
from tests.support.interleaving import one_switch, run_schedule
from tests.support.managed_blobs import SIZE, blobs, write_managed
from tests.support.wire import edit_manifest

pytestmark = pytest.mark.peer

HEAD = 5
Actor = Callable[..., object]
NOW = {"older_than": timedelta(0), "retain_versions": 1}


def numbers(uri: Path | Store, version: object = None) -> list[int]:
    """The rows of a version, whose blobs have the right bytes."""
    table = lo.dataset(uri, version).to_table()
    found = table["i"].to_pylist()
    values = [None if row is None else row["data"] for row in table["b"].to_pylist()]
    assert values == [None if number == 2 else bytes([number]) * SIZE for number in found]
    return found


def objects(uri: Path) -> set[str]:
    return {str(path.relative_to(uri)) for path in uri.rglob("*.blob")}


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    """Versions 1 and 2 have objects a and b, version 4 is compacted by value, version 5 has object c."""
    uri = tmp_path / "t.lance"
    write_managed(uri, blobs(0, 2), "_blobs/a.blob")
    write_managed(uri, blobs(2, 2), "_blobs/b.blob")
    lo.compact(uri)
    write_managed(uri, blobs(4, 2), "_blobs/c.blob")
    assert lo.dataset(uri).version == HEAD
    return uri


def test_objects_that_no_kept_version_names_go(uri: Path) -> None:
    (side,) = (path for path in objects(uri) if path.startswith("data/"))
    plan = lo.cleanup(uri, **NOW, dry_run=True)
    reasons = {item.path: (item.victim, item.reason) for item in plan.files if item.kind == "blob"}
    assert reasons["_blobs/a.blob"] == (True, "used only by expired versions, last by version 3")
    assert reasons["_blobs/c.blob"] == (False, f"used by version {HEAD}")
    result = lo.cleanup(uri, **NOW)
    assert result.complete
    assert result.notes == ()
    assert objects(uri) == {"_blobs/c.blob", side}
    assert numbers(uri) == [0, 1, 2, 3, 4, 5]
    assert lo.fsck(uri, deep=True).findings == ()
    theirs = lance.dataset(str(uri)).to_table(blob_handling="all_binary")
    assert theirs["b"].to_pylist() == [None if n == 2 else bytes([n]) * SIZE for n in range(6)]


@pytest.mark.parametrize("by", ["tag", "branch", "clone", "named clone", "retained", "pin"])
def test_objects_that_a_kept_version_names_stay(uri: Path, tmp_path: Path, by: str) -> None:
    options: dict[str, object] = dict(NOW)
    where: tuple[Path, object] = (uri, 2)
    if by == "tag":
        lo.create_tag(uri, "kept", 2)
    elif by == "branch":
        where = (uri, ("side", None))
        lo.create_branch(uri, "side", 2)
        lo.delete(lo.dataset(uri, ("side", None)), "i = 9")
    elif by in ("clone", "named clone"):
        where = (tmp_path / "c.lance", None)
        lo.shallow_clone(uri, where[0], 2)
        if by == "named clone":
            for name in lo.dataset(uri).tags:
                lo.delete_tag(uri, name)
            options["clones"] = [where[0]]
    elif by == "retained":
        options["retain_versions"] = lo.dataset(uri).version - 1
    else:
        from lance_ops.table.history.pins import pinned

        holding = pinned(open_store(uri), 2, "a test")
        holding.__enter__()
    assert lo.cleanup(uri, **options).complete
    assert {"_blobs/a.blob", "_blobs/b.blob", "_blobs/c.blob"} <= objects(uri)
    assert numbers(*where) == [0, 1, 2, 3]
    assert numbers(uri) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("drop", [lo.drop_columns, lambda uri, names: lance.dataset(uri).drop_columns(names)])
def test_objects_of_a_column_that_newer_versions_dropped_stay(tmp_path: Path, drop: Actor) -> None:
    uri = tmp_path / "t.lance"
    table = blobs(0, 2)
    write_managed(uri, table.append_column(table.field(1).with_name("c"), table["b"]), "_blobs/a.blob")
    lo.create_tag(uri, "kept", 1)
    drop(str(uri), ["c"])
    lo.cleanup(uri, **NOW, delete_unverified=True)
    assert objects(uri) == {"_blobs/a.blob", "_blobs/a.blob.2.blob"}
    assert lo.dataset(uri, 1).to_table()["c"].to_pylist()[1]["data"] == bytes([1]) * SIZE
    lo.delete_tag(uri, "kept")
    lo.cleanup(uri, **NOW)
    assert objects(uri) == {"_blobs/a.blob"}
    assert numbers(uri) == [0, 1]


@pytest.mark.parametrize("name", ["_indices/u/a.blob", "_blobs/a%20b.blob", "data/x.lance"])
def test_an_object_may_have_any_name(tmp_path: Path, name: str) -> None:
    uri = tmp_path / "t.lance"
    write_managed(uri, blobs(0, 1), name)
    lo.create_tag(uri, "kept", 1)
    lo.delete(uri, "i = 0")
    lo.cleanup(uri, **NOW, delete_unverified=True)
    assert numbers(uri, 1) == [0]
    lo.delete_tag(uri, "kept")
    lo.cleanup(uri, **NOW, delete_unverified=True)
    assert not (uri / name).exists()


@pytest.mark.parametrize("link", ["folder", "file", "base"])
def test_an_object_behind_links_within_the_dataset_stays(tmp_path: Path, link: str) -> None:
    uri, base = tmp_path / "t.lance", tmp_path / "other"
    write_managed(uri, blobs(0, 1), "_blobs/s/a.blob", base=base if link == "base" else None)
    found = (base if link == "base" else uri) / "_blobs/s"
    real = uri / "_blobs/real"
    if link == "file":
        real.mkdir()
        (found / "a.blob").rename(real / "b.blob")
        (found / "a.blob").symlink_to(real / "b.blob")
    else:
        real.parent.mkdir(exist_ok=True)
        found.rename(real)
        found.symlink_to(real)
    lo.create_tag(uri, "kept", 1)
    lo.delete(uri, "i = 0")
    lo.cleanup(uri, **NOW, delete_unverified=True)
    assert numbers(uri, 1) == [0]


@pytest.mark.parametrize("spelling", ["file://{}", "{}/", "s3://access-point{}"])
def test_an_object_stays_whatever_its_base_is_called(tmp_path: Path, spelling: str) -> None:
    uri = tmp_path / "t%41.lance"
    write_managed(uri, blobs(0, 1), "_blobs/a.blob")
    edit_manifest(uri, lambda manifest: setattr(manifest.base_paths[0], "path", spelling.format(uri)))
    lo.create_tag(uri, "kept", 1)
    lo.delete(uri, "i = 0")
    lo.cleanup(uri, **NOW, delete_unverified=True)
    assert objects(uri) == {"_blobs/a.blob"}


def test_objects_of_nobody_wait_for_their_grace(uri: Path) -> None:
    for name, age in (("young", 0), ("old", 8 * 86_400)):
        path = uri / "_blobs" / f"{name}.blob"
        path.write_bytes(b"x")
        then = path.stat().st_mtime - age
        os.utime(path, (then, then))
    (uri / "_blobs" / "note.txt").write_text("stays")
    lo.cleanup(uri, **NOW)
    assert objects(uri) >= {"_blobs/young.blob"}
    assert "_blobs/old.blob" not in objects(uri)
    lo.cleanup(uri, **NOW, delete_unverified=True)
    assert "_blobs/young.blob" not in objects(uri)
    assert (uri / "_blobs" / "note.txt").exists()
    assert numbers(uri) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_unreadable_references_keep_every_object_and_say_so(uri: Path, damage: str) -> None:
    lo.create_tag(uri, "kept", 1)
    (file,) = (uri / "data" / item.path for item in lo.dataset(uri, 1).fragments[0].files)
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(data[: len(data) // 2])
    before = objects(uri)
    result = lo.cleanup(uri, **NOW, delete_unverified=True)
    assert objects(uri) == before
    assert any("every object of managed blobs was kept" in note for note in result.notes)
    assert "version 1" in " ".join(result.notes)
    file.write_bytes(data)
    # Nothing tells any more that an expired version named it, so that it waits for its grace.
    lo.cleanup(uri, **NOW)
    assert objects(uri) == before
    result = lo.cleanup(uri, **NOW, delete_unverified=True)
    assert (result.notes, objects(uri) & {"_blobs/a.blob", "_blobs/b.blob"}) == ((), {"_blobs/a.blob"})
    assert numbers(uri, 1) == [0, 1]


def test_no_cleanup_of_the_official_library_comes_between(uri: Path) -> None:
    lo.create_tag(uri, "kept", 2)
    with contextlib.suppress(OSError, ValueError):
        lance.dataset(str(uri)).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert numbers(uri, 2) == [0, 1, 2, 3]
    lo.cleanup(uri, **NOW)
    assert numbers(uri, 2) == [0, 1, 2, 3]
    assert numbers(uri) == [0, 1, 2, 3, 4, 5]
    assert lance.dataset(str(uri)).count_rows() == 6


def test_a_cleanup_that_is_killed_at_any_call_loses_nothing(uri: Path, tmp_path: Path) -> None:
    lo.create_tag(uri, "kept", 1)
    copy = tmp_path / "before"
    shutil.copytree(uri, copy)
    for call in range(1, 400, 3):
        shutil.rmtree(uri)
        shutil.copytree(copy, uri)
        store = FaultyStore(open_store(uri), call, when="before" if call % 2 else "after")
        with contextlib.suppress(InjectedCrash):
            lo.cleanup(store, **NOW)
        if call % 4 == 1 or not store.fired:
            assert numbers(uri, 1) == [0, 1]
            assert numbers(uri) == [0, 1, 2, 3, 4, 5]
        assert {"_blobs/a.blob", "_blobs/c.blob"} <= objects(uri)
        lo.cleanup(uri, **NOW)
        assert "_blobs/b.blob" not in objects(uri)
        assert {"_blobs/a.blob", "_blobs/c.blob"} <= objects(uri)
        if not store.fired:
            return
    pytest.fail("there are more calls than expected")


def test_an_object_or_file_that_is_hidden_once_is_no_reason_to_delete(
    uri: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry.time, "sleep", lambda seconds: None)
    lo.create_tag(uri, "kept", 1)
    copy = tmp_path / "before"
    shutil.copytree(uri, copy)
    for number in count(1, 7):
        shutil.rmtree(uri)
        shutil.copytree(copy, uri)
        hides = HideOnce(number)
        with contextlib.suppress(LanceOpsError):
            lo.cleanup(HidingStore(open_store(uri), hides), **NOW, delete_unverified=True)
        assert {"_blobs/a.blob", "_blobs/c.blob"} <= objects(uri), hides.looks[number - 1 : number]
        if not hides.fired:
            break
    assert numbers(uri, 1) == [0, 1]


OTHERS: dict[str, Actor] = {
    "append": lambda store: lo.append(store, blobs(6, 1)),
    "tag": lambda store: lo.create_tag(store, "late", 2),
    "restore": lambda store: lo.restore(store, 2),
    "compact": lambda store: lo.compact(store, target_rows_per_fragment=100),
    "branch": lambda store: lo.create_branch(lo.dataset(store), "late", 2),
    "cleanup": lambda store: lo.cleanup(store, **NOW),
}


@pytest.mark.parametrize("name", OTHERS)
def test_cleanup_beside_others_keeps_what_any_version_names(name: str, uri: Path, tmp_path: Path) -> None:
    copy = tmp_path / "before"
    shutil.copytree(uri, copy)

    def clean(store: Store) -> object:
        return lo.cleanup(store, **NOW)

    def changes(call: str, path: str) -> bool:
        return call != "read" or "_refs" in path or "_lance_ops" in path

    for schedule in islice(one_switch(40, 40), 0, None, 19):
        shutil.rmtree(uri)
        shutil.copytree(copy, uri)
        runs = run_schedule([clean, OTHERS[name]], open_store(uri), schedule, counts=changes)
        refused = (
            CleanupRefusedError,
            RetryableCommitConflictError,
            VersionNotFoundError,
        )
        for run in runs:
            assert run.error is None or isinstance(run.error, refused), repr(run.error)
        for info in lo.dataset(uri).versions():
            numbers(uri, info.version)
        if name == "branch" and runs[1].error is None:
            assert numbers(uri, ("late", None)) == [0, 1, 2, 3]


@pytest.mark.parametrize("place", ["root", "elsewhere"])
def test_a_deep_clone_has_its_own_objects(tmp_path: Path, place: str) -> None:
    uri, clone = tmp_path / "t.lance", tmp_path / "c.lance"
    base = tmp_path / "other" if place == "elsewhere" else uri
    for start, name in ((0, "a"), (2, "b"), (4, "c")):
        write_managed(uri, blobs(start, 2), f"_blobs/{name}.blob", base=base, base_id=3)
    lo.delete(uri, "i >= 4")
    (base / "_blobs/c.blob").unlink()
    assert lo.fsck(uri, deep=True).findings == ()
    lo.deep_clone(uri, clone)
    shutil.rmtree(uri)
    if base != uri:
        shutil.rmtree(base)
    assert numbers(clone) == [0, 1, 2, 3]
    assert objects(clone) == {"_blobs/a.blob", "_blobs/b.blob"}
    assert lo.fsck(clone, deep=True).findings == ()
    theirs = lance.dataset(str(clone)).to_table(blob_handling="all_binary")
    assert theirs["b"].to_pylist() == [bytes([0]) * SIZE, bytes([1]) * SIZE, None, bytes([3]) * SIZE]
    lo.append(clone, blobs(6, 1))
    lo.compact(clone, strategy="rows")
    assert lo.cleanup(clone, **NOW).complete
    assert numbers(clone) == [0, 1, 2, 3, 6]
    assert not objects(clone) & {"_blobs/a.blob", "_blobs/b.blob"}


def test_a_deep_clone_that_fails_takes_its_objects_back(uri: Path, tmp_path: Path) -> None:
    clone = tmp_path / "c.lance"
    (uri / "_blobs/c.blob").rename(tmp_path / "c.blob")
    with pytest.raises(FileMissingError):
        lo.deep_clone(uri, clone)
    assert not [path for path in clone.rglob("*") if path.is_file()]
    (tmp_path / "c.blob").rename(uri / "_blobs/c.blob")
    lo.deep_clone(uri, clone)
    assert numbers(clone) == [0, 1, 2, 3, 4, 5]


def test_a_base_of_managed_and_external_blobs_cannot_be_copied(tmp_path: Path) -> None:
    uri, base = tmp_path / "t.lance", tmp_path / "other"
    write_managed(uri, blobs(0, 2), "_blobs/a.blob", base=base, base_id=3, is_root=False)
    (base / "b.bin").write_bytes(bytes([7]) * SIZE)
    table = blobs(7, 1)
    external = lance.blob_array([lance.Blob.from_uri(f"file://{base}/b.bin")])
    lo.append(uri, table.set_column(1, table.field(1), external))
    assert lo.dataset(uri).count_rows() == 3
    with pytest.raises(UnsupportedError, match="base 3 has managed blobs"):
        lo.deep_clone(uri, tmp_path / "c.lance")
    assert not (tmp_path / "c.lance" / "data").exists()
