"""Manifest names are migrated both ways: broken off anywhere, beside writers, none is passed over."""

import os
import shutil

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptManifestError, DatasetNotFoundError, InvalidArgumentError
from lance_ops.storage import open_store
from lance_ops.table.commit.committer import follow_renaming
from lance_ops.table.manifest.listing import ManifestLocation, NamingScheme, manifest_path
from tests.support.faulty_store import FaultyStore, InjectedCrash, crash_moments

V1, V2 = NamingScheme.V1, NamingScheme.V2


@pytest.fixture
def uri(tmp_path):
    """Four versions of V1 names."""
    uri = str(tmp_path / "t.lance")
    for number in range(4):
        table, mode = pa.table({"x": [number]}), "append" if number else "create"
        lance.write_dataset(table, uri, mode=mode, enable_v2_manifest_paths=False)
    return uri


def names(uri):
    return {name for name in os.listdir(f"{uri}/_versions") if name.endswith(".manifest")}


def names_of(scheme, *versions):
    return {manifest_path(number, scheme).rpartition("/")[2] for number in versions}


def test_names_are_migrated_there_and_back(uri):
    before = lo.dataset(uri).to_table()
    assert lo.migrate_manifest_paths(uri, dry_run=True).manifests == 4
    done = lo.migrate_manifest_paths(uri)
    assert (done.manifests, done.version, names(uri)) == (4, 4, names_of(V2, 1, 2, 3, 4))
    assert lo.migrate_manifest_paths(uri).manifests == 0
    for number in (2, 4):
        assert lo.dataset(uri, number).count_rows() == lance.dataset(uri, number).count_rows() == number
    lance.write_dataset(pa.table({"x": [4]}), uri, mode="append")
    lo.append(uri, pa.table({"x": [5]}))
    assert names(uri) == names_of(V2, 1, 2, 3, 4, 5, 6)
    assert lo.migrate_manifest_paths(uri, "v1").manifests == 6
    assert names(uri) == names_of(V1, 1, 2, 3, 4, 5, 6)
    lo.append(uri, pa.table({"x": [6]}))
    lance.write_dataset(pa.table({"x": [7]}), uri, mode="append")
    assert names(uri) == names_of(V1, *range(1, 9))
    assert lo.dataset(uri).to_table().slice(0, 4).equals(before)
    assert lo.dataset(uri).to_table().equals(lance.dataset(uri).to_table())


def seen(look, path):
    """The newest version, or that the mixture is refused."""
    try:
        return look(path)
    except (CorruptManifestError, ValueError) as error:
        return "refused" if "naming scheme" in str(error) else error


@pytest.mark.parametrize("wanted", ["v1", "v2"])
def test_a_run_that_was_broken_off_anywhere_hides_nothing_and_is_finished_by_the_next(uri, tmp_path, wanted):
    if wanted == "v1":
        lance.dataset(uri).migrate_manifest_paths_v2()
    copy = str(tmp_path / "whole")
    shutil.copytree(uri, copy)
    whole = FaultyStore(open_store(copy))
    lo.migrate_manifest_paths(whole, wanted)
    assert whole.counted >= 8
    for fail_at, when in crash_moments(range(1, whole.counted + 1)):
        copy = str(tmp_path / f"{fail_at}-{when}")
        shutil.copytree(uri, copy)
        store = FaultyStore(open_store(copy), fail_at, when=when)
        with pytest.raises(InjectedCrash):
            lo.migrate_manifest_paths(store, wanted)
        assert seen(lambda path: lo.dataset(path).version, copy) in (4, "refused")
        assert seen(lambda path: lance.dataset(path).version, copy) in (4, "refused")
        lo.migrate_manifest_paths(copy, wanted)
        assert names(copy) == names_of(V1 if wanted == "v1" else V2, 1, 2, 3, 4)
        assert lo.dataset(copy).to_table().equals(lance.dataset(copy).to_table())
        assert lo.dataset(copy).count_rows() == 4


def test_a_version_that_comes_meanwhile_gets_its_new_name(uri):
    store = open_store(uri)
    acts = [3, 5]

    class Busy:
        def __getattr__(self, name):
            return getattr(store, name)

        def delete(self, path):
            if acts:
                # A writer that had listed the folder before stores its version under the old name.
                other = shutil.copytree(uri, f"{uri}-{acts.pop()}", dirs_exist_ok=True)
                newest = max(int(name.split(".")[0]) for name in names(uri) if len(name) < 20)
                for name in names_of(V2, *range(1, 9)):
                    if os.path.exists(f"{other}/_versions/{name}"):
                        os.remove(f"{other}/_versions/{name}")
                lance.write_dataset(pa.table({"x": [9]}), other, mode="append")
                for folder in ("data", "_transactions"):
                    shutil.copytree(f"{other}/{folder}", f"{uri}/{folder}", dirs_exist_ok=True)
                shutil.copy(f"{other}/_versions/{newest + 1}.manifest", f"{uri}/_versions")
            store.delete(path)

    lo.migrate_manifest_paths(Busy())
    assert names(uri) == names_of(V2, *range(1, 7))
    assert lo.dataset(uri).to_table()["x"].to_pylist() == [0, 1, 2, 3, 9, 9]


def test_two_manifests_that_claim_one_version_are_named_and_left_alone(uri):
    lo.migrate_manifest_paths(uri)
    shutil.copy(f"{uri}/{manifest_path(3, V2)}", f"{uri}/_versions/4.manifest")
    before = names(uri)
    with pytest.raises(CorruptManifestError, match="claim version 4"):
        lo.migrate_manifest_paths(uri)
    assert names(uri) == before
    with pytest.raises(CorruptManifestError, match="migrate-paths"):
        lo.dataset(uri)


def test_a_commit_of_ours_under_an_old_name_moves_along_or_gives_way(uri):
    store = open_store(uri)
    data = bytes(store.read("_versions/4.manifest"))
    lo.migrate_manifest_paths(uri)
    late = ManifestLocation(5, manifest_path(5, V1), scheme=V1)
    store.put(late.path, data)
    moved = follow_renaming(store, late, data)
    assert moved is not None
    assert (moved.path, moved.scheme) == (manifest_path(5, V2), V2)
    assert names(uri) == names_of(V2, 1, 2, 3, 4, 5)
    store.put(late.path, data + b"other")
    assert follow_renaming(store, late, data + b"other") is None
    assert names(uri) == names_of(V2, 1, 2, 3, 4, 5)


def test_branches_are_migrated_too_and_detached_versions_stay(uri):
    lo.create_branch(uri, "b")
    branch = lo.dataset(uri, ("b", None))
    lo.append(branch, pa.table({"x": [10]}))
    made = lo.commit(lo.dataset(uri), lo.operations.ReserveFragments(1), detached=True)
    lo.migrate_manifest_paths(uri, "v1")
    lo.migrate_manifest_paths(uri, "v2")
    assert lo.dataset(uri, ("b", None)).count_rows() == 5
    assert lo.dataset(uri, made.version).count_rows() == 4
    assert f"d{made.version}.manifest" in names(uri)


def test_what_makes_no_sense_is_refused(uri, tmp_path):
    with pytest.raises(InvalidArgumentError):
        lo.migrate_manifest_paths(uri, "v3")
    with pytest.raises(DatasetNotFoundError):
        lo.migrate_manifest_paths(str(tmp_path / "nothing"))
