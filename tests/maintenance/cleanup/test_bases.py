"""Cleanup of clones and of tables with further base paths: their own files go, those of others stay."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import CleanupRefusedError
from lance_ops.maintenance.cleanup.files import may_share_files
from lance_ops.maintenance.cleanup.places import below
from lance_ops.table.manifest.model import BasePath
from tests.support.fake_s3 import FakeS3
from tests.support.interop import data_files, rows, xs
from tests.support.wire import edit_manifest

pytestmark = pytest.mark.peer

AT_ONCE = timedelta(0)


def source(root: Path) -> Path:
    uri = root / "source.lance"
    lance.write_dataset(rows(0, 20), str(uri), max_rows_per_file=10)
    lance.dataset(str(uri)).create_scalar_index("x", "BTREE")
    lance.dataset(str(uri)).delete("x = 3")
    lance.dataset(str(uri)).tags.create("kept", 1)
    return uri


def their_clone(root: Path) -> Path:
    lance.dataset(str(source(root))).shallow_clone(str(root / "clone.lance"), 3)
    return root / "clone.lance"


def our_clone(root: Path) -> Path:
    lo.shallow_clone(source(root), root / "clone.lance")
    return root / "clone.lance"


def clone_of_a_clone(root: Path) -> Path:
    first = lance.dataset(str(our_clone(root)))
    first.shallow_clone(str(root / "second.lance"), first.version)
    return root / "second.lance"


def with_a_base(is_root: bool) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        uri = source(root)
        (root / "more").mkdir()
        lance.dataset(str(uri)).add_bases([lance.DatasetBasePath(str(root / "more"), "more", is_root)])
        lance.write_dataset(rows(200, 210), str(uri), mode="append", target_bases=["more"])
        return uri

    return make


TABLES = {
    "a clone by pylance": their_clone,
    "a clone by lance_ops": our_clone,
    "a clone of a clone": clone_of_a_clone,
    "a flat base": with_a_base(False),
    "a base with folders": with_a_base(True),
}


def go_on(uri: Path) -> None:
    """Versions that use files of the base, own files, both, and then none of the files before."""
    lance.write_dataset(rows(100, 110), str(uri), mode="append")
    lo.delete(uri, "x = 5")
    lo.append(uri, rows(110, 120))
    lo.create_tag(uri, "middle", lo.dataset(uri).version)
    lance.dataset(str(uri)).delete("x = 105")
    lo.compact(uri)
    lo.optimize_indices(uri)
    lo.append(uri, rows(120, 125))
    lo.compact(uri)


def everything(uri: Path) -> dict[int, list[int]]:
    """The rows of every version that is there, as both libraries read them."""
    found = {}
    for info in lo.dataset(uri).versions():
        ours = lo.dataset(uri, version=info.version).to_table(["x"])["x"].to_pylist()
        assert lance.dataset(str(uri), version=info.version).to_table(["x"])["x"].to_pylist() == ours
        found[info.version] = ours
    return found


@pytest.mark.parametrize("name", TABLES)
def test_what_goes_is_what_the_peer_removes_and_every_version_left_is_whole(
    name: str, tmp_path: Path
) -> None:
    uri = TABLES[name](tmp_path)
    go_on(uri)
    others = {
        path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and uri not in path.parents
    }
    before = everything(uri)
    head, tagged = max(before), lo.dataset(uri).tags["middle"].version
    copy = tmp_path / "copy.lance"
    shutil.copytree(uri, copy)
    lance.dataset(str(copy)).cleanup_old_versions(older_than=AT_ONCE, error_if_tagged_old_versions=False)

    plan = lo.cleanup(uri, older_than=AT_ONCE, retain_versions=1, dry_run=True)
    assert "files in other base paths are kept" in str(plan)
    result = lo.cleanup(uri, older_than=AT_ONCE, retain_versions=1)
    assert result.complete
    assert result.data_files_removed > 0
    after = everything(uri)
    assert {head, tagged} <= set(after) < set(before)
    assert after == {version: before[version] for version in after}
    assert data_files(uri) == data_files(copy)
    for path, content in others.items():
        assert path.read_bytes() == content
    assert lo.fsck(uri, deep=True).findings == ()
    # Both go on.
    lo.append(uri, rows(300, 305))
    lance.dataset(str(uri)).delete("x = 300")
    assert xs(uri) == [*before[head], 301, 302, 303, 304]


def test_index_files_that_the_peer_names_in_the_wrong_base_stay(tmp_path: Path) -> None:
    clone = their_clone(tmp_path)
    before = data_files(clone)
    lance.dataset(str(clone)).optimize.compact_files()
    remapped = {path for path in data_files(clone) - before if path.startswith("_indices")}
    lo.append(clone, rows(20, 30))
    lo.cleanup(clone, older_than=AT_ONCE, retain_versions=1, delete_unverified=True)
    assert remapped <= data_files(clone)
    assert xs(clone) == [x for x in range(30) if x != 3]


def test_source_and_clone_can_both_be_cleaned(tmp_path: Path) -> None:
    clone = our_clone(tmp_path)
    uri = tmp_path / "source.lance"
    go_on(clone)
    go_on(uri)
    before = everything(clone)
    for root in (clone, uri, clone):
        lo.cleanup(root, older_than=AT_ONCE, retain_versions=1)
    assert everything(clone)[max(before)] == before[max(before)]
    assert len(everything(uri)) >= 3
    assert lo.fsck(clone, deep=True).ok
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.parametrize(
    ("base", "is_root", "shares"),
    [
        ("/lake/t.lance", True, False),
        ("/lake/t.lance", False, True),
        ("/lake/t.lance/data", False, True),
        ("/lake/t.lance/data/x", True, True),
        ("/lake", False, True),
        ("/", False, True),
        ("/lake", True, False),
        ("/lake/source.lance", True, False),
        ("/lake/t.lance2", False, False),
        ("/lake/more", False, False),
        ("more", False, True),
        ("s3://bucket/lake/t.lance", True, False),
    ],
)
def test_a_base_that_may_hold_own_files_is_told(base: str, is_root: bool, shares: bool) -> None:
    assert may_share_files(BasePath(1, base, is_root), "/lake/t.lance") is shares


@pytest.mark.parametrize("base", ["az://c/t", "abfs://c/t", "abfss://c@a.dfs.core.windows.net/t/data"])
@pytest.mark.parametrize("root", ["az://c/t", "abfss://c/t", "wasbs://c@a.blob.core.windows.net/t"])
def test_all_names_of_an_azure_container_are_one_place(base: str, root: str) -> None:
    assert may_share_files(BasePath(1, base, False), root)
    assert not may_share_files(BasePath(1, base, False), root.replace("//c", "//other"))


@pytest.mark.parametrize(
    ("base", "root"),
    [
        ("s3://b/a b/t", "s3://b/a%20b/t"),
        ("s3://b/a%20b/%74", "s3a://b/a b/t/"),
        ("gs://b/%c3%bc", "gcs://b/\N{LATIN SMALL LETTER U WITH DIAERESIS}"),
        ("abfss://c@a.dfs.core.windows.net/x%20y", "az://c/x y"),
        ("memory:///x/t", "memory://x/t"),
        ("simplecache::s3://b/t", "s3://b/t"),
        ("file:///lake/a%20b", "/lake/a b"),
    ],
)
def test_all_spellings_of_a_place_are_one(base: str, root: str) -> None:
    assert (below(base, root), below(root, base)) == ("", "")
    assert below(f"{base.rstrip('/')}/data", root) == "data/"
    assert below(f"{base.rstrip('/')}2", root) is None


@pytest.mark.parametrize("spelling", ["s3://b/a b/t", "s3://b/a%20b/%74"])
def test_files_of_a_clone_that_spells_its_source_otherwise_stay(spelling: str) -> None:
    uri, clone = "s3://b/a%20b/t", "s3://b/clone"
    with FakeS3() as server:
        options = {"storage_options": server.options}
        lo.write_dataset(rows(0, 5), uri, **options)
        lance.dataset(spelling, **options).shallow_clone(clone, 1, **options)
        lo.write_dataset(rows(5, 6), uri, mode="overwrite", **options)
        lo.cleanup(uri, older_than=AT_ONCE, retain_versions=1, clones=[clone], **options)
        assert lo.dataset(clone, **options).to_table().num_rows == 5
        lo.cleanup(uri, older_than=AT_ONCE, retain_versions=1, **options)
        assert lo.dataset(uri, **options).to_table().num_rows == 1


def test_a_table_in_the_data_folder_of_its_base_shares_files() -> None:
    assert may_share_files(BasePath(1, "/lake/a.lance", True), "/lake/a.lance/data/t.lance")
    assert not may_share_files(BasePath(1, "/lake/a.lance", True), "/lake/a.lance/tree/b")


@pytest.mark.parametrize("where", ["t.lance/data", ".", "link/data"])
def test_a_base_over_own_files_makes_it_refuse(where: str, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(rows(0, 5), uri)
    lo.write_dataset(rows(5, 10), uri, mode="overwrite")
    (tmp_path / "link").symlink_to(uri)

    def add(manifest):
        manifest.base_paths.add(id=1, path=str(tmp_path / where), is_dataset_root=where == "link/data")
        manifest.reader_feature_flags |= 16
        manifest.writer_feature_flags |= 16

    edit_manifest(uri, add)
    files = data_files(uri)
    with pytest.raises(CleanupRefusedError, match="base that is within or contains its own files"):
        lo.cleanup(uri, older_than=AT_ONCE, retain_versions=1)
    assert data_files(uri) == files
