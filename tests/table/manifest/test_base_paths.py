"""Where files lie, and paths that try to leave."""

import pickle

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptManifestError, InvalidArgumentError, PathEscapeError
from lance_ops.storage import open_store
from lance_ops.table.manifest.base_paths import Bases, branch_root
from lance_ops.table.manifest.fragment import ExternalFile
from lance_ops.table.manifest.model import BasePath
from tests.support.faulty_store import FaultyStore
from tests.support.table_values import data_file, fragment, index


def bases(store, *more):
    return Bases(store, more)


def test_files_of_the_root_lie_in_their_folders(tmp_path):
    store = open_store(tmp_path)
    found = bases(store)
    assert found.data_path(data_file("a")) == (store, "data/a.lance")
    segment = index("i", {0})
    assert found.index_directory(segment) == (store, f"_indices/{segment.uuid}")
    reference = fragment(3, deleted=2).deletion_file
    assert found.deletion_path(3, reference) == (store, "_deletions/3-1-2.arrow")
    assert found.external_path(ExternalFile("x/y", 0, 1)) == (store, "x/y")


def test_another_base_has_the_same_folders_only_if_it_is_a_dataset_root(tmp_path):
    root = open_store(tmp_path / "here")
    there, flat = str(tmp_path / "there"), str(tmp_path / "flat")
    found = bases(root, BasePath(0, there, True), BasePath(4, flat, False))
    paths = {}
    for base_id in (0, 4):
        file = data_file("a")
        store, path = found.data_path(type(file)(**{**_fields(file), "base_id": base_id}))
        paths[base_id] = (store.uri, path)
    assert paths == {0: (there, "data/a.lance"), 4: (flat, "a.lance")}
    assert found.store_for(0) is found.store_for(0)
    assert pickle.loads(pickle.dumps(found)).store_for(4).uri == flat


def test_a_base_may_be_a_local_uri_with_one_slash_and_no_other_scheme_with_one(tmp_path):
    root = open_store(tmp_path / "here")
    found = bases(root, BasePath(1, f"file:{tmp_path}/there", True), BasePath(2, "s3:/bucket/x", True))
    assert found.store_for(1).uri == str(tmp_path / "there")
    assert found.uris == {1: f"file://{tmp_path}/there"}
    with pytest.raises(InvalidArgumentError, match="starts with s3:"):
        found.store_for(2)


def _fields(value):
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def test_a_base_that_is_not_declared_is_a_damaged_manifest(tmp_path):
    file = data_file("a")
    with pytest.raises(CorruptManifestError, match="base 9"):
        bases(open_store(tmp_path)).data_path(type(file)(**{**_fields(file), "base_id": 9}))


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/etc/passwd", "s3://b/x", "C:/x", "a\\..\\b", "", ".", "a//b", "a\0b"]
)
def test_paths_that_leave_are_refused_before_any_request(tmp_path, path):
    store = FaultyStore(open_store(tmp_path), count="any")
    found = bases(store)
    file = data_file("a")
    with pytest.raises(PathEscapeError):
        found.data_path(type(file)(**{**_fields(file), "path": path}))
    with pytest.raises(PathEscapeError):
        found.external_path(ExternalFile(path, 0, 1))
    assert store.calls == []


@pytest.mark.parametrize("path", ["relative", "../up", ""])
def test_the_path_of_a_base_must_be_absolute(tmp_path, path):
    with pytest.raises(PathEscapeError, match="base 1"):
        bases(open_store(tmp_path), BasePath(1, path, True)).store_for(1)


def test_the_root_of_a_branch_is_found_from_its_name():
    assert branch_root("/d/t.lance/tree/team/exp", "team/exp") == "/d/t.lance"
    assert branch_root("/d/t.lance", None) == "/d/t.lance"
    with pytest.raises(InvalidArgumentError):
        branch_root("/d/copy", "exp")


@pytest.mark.parametrize("path", ["t.lance", "./t.lance", "lake/t.lance", "lake//t.lance/"])
@pytest.mark.parametrize("branch", ["side", "team/exp", "tree/side"])
def test_a_relative_base_of_a_branch_is_its_main_root(tmp_path, path, branch):
    root = open_store(tmp_path / "lake" / "t.lance" / "tree" / branch)
    found = bases(root, BasePath(1, path, True)).store_for(1)
    assert found.uri == open_store(tmp_path / "lake" / "t.lance").uri


@pytest.mark.parametrize("path", ["other.lance", "ake/t.lance", "../t.lance", "x/../t.lance", "lake", ""])
def test_other_relative_bases_of_a_branch_are_refused(tmp_path, path):
    root = open_store(tmp_path / "lake" / "t.lance" / "tree" / "side")
    with pytest.raises(PathEscapeError, match="base 1"):
        bases(root, BasePath(1, path, True)).store_for(1)
    with pytest.raises(PathEscapeError, match="base 1"):
        bases(root, BasePath(1, "t.lance", False)).store_for(1)


@pytest.mark.peer
def test_a_branch_that_pylance_made_of_a_relative_path_is_read_and_changed(tmp_path, monkeypatch):
    import lance

    monkeypatch.chdir(tmp_path)
    made = lance.write_dataset(pa.table({"a": range(9)}), "t.lance").create_branch("side")
    made.delete("a > 6")
    monkeypatch.chdir(tmp_path.parent)
    branch = str(tmp_path / "t.lance" / "tree" / "side")
    assert lo.dataset(branch).count_rows() == 7
    lo.delete(branch, "a = 3")
    lo.append(branch, pa.table({"a": [40]}))
    lo.compact(branch)
    assert lo.fsck(branch, deep=True).ok
    expected = [0, 1, 2, 4, 5, 6, 40]
    assert lo.dataset(branch).to_table()["a"].to_pylist() == expected
    monkeypatch.chdir(tmp_path)
    assert lance.dataset(branch).to_table()["a"].to_pylist() == expected
    assert lance.dataset("t.lance").count_rows() == 9
