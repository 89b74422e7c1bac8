"""Kinds of damage of manifests and files: fsck finds each, and calls nothing sound damaged."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.maintenance.fsck.findings import Severity
from lance_ops.table.manifest.deletion_vector import DeletionVector, encode_deletion_vector
from lance_ops.table.manifest.fragment import DeletionFileType
from lance_ops.table.manifest.row_ids import encode_row_ids
from tests.support.interop import rows, xs
from tests.support.overlays import ALLOWED, lay
from tests.support.wire import edit_manifest

pytestmark = pytest.mark.peer

BLOBS = [b"small", None, b"p" * 100_000, b"q" * 70_000, b"D" * (5 << 20)]


def blob_table(values: list = BLOBS) -> pa.Table:
    schema = pa.schema([pa.field("i", pa.int64()), lance.blob_field("b")])
    return pa.table({"i": range(len(values)), "b": lance.blob_array(values)}, schema=schema)


def nested_blob_table() -> pa.Table:
    blobs = lance.blob_array(BLOBS)
    field = lance.blob_field("b")
    struct = pa.StructArray.from_arrays(
        [pa.array(range(len(BLOBS))), blobs], fields=[pa.field("n", pa.int64()), field]
    )
    items = pa.ListArray.from_arrays(pa.array([0, 2, len(BLOBS)], pa.int32()), blobs, pa.list_(field))
    schema = pa.schema([pa.field("s", struct.type), pa.field("l", items.type)])
    return pa.table([struct.slice(0, 2), items], schema=schema)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def grow(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"x")


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("damage", [Path.unlink, cut])
@pytest.mark.parametrize("kind", ["packed", "dedicated"])
@pytest.mark.parametrize("writer", [lo.write_dataset, lance.write_dataset])
def test_a_lost_or_cut_side_file_of_blobs_is_found(
    writer: Callable, kind: str, damage: Callable, deep: bool, tmp_path: Path
) -> None:
    uri = tmp_path / "t.lance"
    writer(blob_table(), str(uri), data_storage_version="2.2")
    assert lo.fsck(uri, deep=deep).findings == ()
    small, large = sorted((uri / "data").rglob("*.blob"), key=lambda path: path.stat().st_size)
    file = small if kind == "packed" else large
    damage(file)
    (finding,) = lo.fsck(uri, deep=deep).findings
    assert finding.severity is Severity.ERROR
    assert finding.path == file.relative_to(uri).as_posix()
    assert "field 'b' of fragment 0" in finding.message
    assert "restore the file" in finding.message


def test_a_longer_side_file_and_side_files_of_dropped_columns_are_sound(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(blob_table(), uri, data_storage_version="2.2")
    sides = list((uri / "data").rglob("*.blob"))
    grow(sides[0])
    assert lo.fsck(uri, deep=True).findings == ()
    lo.drop_columns(uri, ["b"])
    sides[0].unlink()
    assert lo.fsck(uri, deep=True).findings == ()


def test_side_files_of_many_fragments_and_of_nested_blobs_are_found(tmp_path: Path) -> None:
    many, nested = tmp_path / "many.lance", tmp_path / "nested.lance"
    lo.write_dataset(blob_table(BLOBS[2:4] * 10), many, data_storage_version="2.2", max_rows_per_file=2)
    assert lo.fsck(many).findings == ()
    for file in sorted((many / "data").rglob("*.blob"))[:3]:
        file.unlink()
    assert len(lo.fsck(many).of("blobs_present")) == 3
    lo.write_dataset(nested_blob_table(), nested, data_storage_version="2.2")
    assert lo.fsck(nested, deep=True).findings == ()
    for file in (nested / "data").rglob("*.blob"):
        cut(file)
    assert {"'l'" in finding.message for finding in lo.fsck(nested).findings} == {True}


def test_an_inline_blob_outside_of_its_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lance_ops.file.v2_1.blob import write_v2

    uri = tmp_path / "t.lance"
    store = write_v2.BlobV2Writer._store
    monkeypatch.setattr(
        write_v2.BlobV2Writer,
        "_store",
        lambda self, value: (lambda kind, at, size, no: (kind, at + 9999, size, no))(*store(self, value)),
    )
    lo.write_dataset(blob_table([b"abc"]), uri, data_storage_version="2.2")
    (finding,) = lo.fsck(uri).findings
    assert "of their data file" in finding.message


@dataclass(frozen=True)
class Damage:
    """What is done to a table of two fragments, in the first of which rows are deleted.

    Attributes:
        say: A part of the finding.
        change: Of the newest manifest.
        files: Of other files, given the root.
        severity: Of the finding.
        deep: Only a deep check finds it.
        options: Of the writer.
    """

    say: str
    change: Callable | None = None
    files: Callable | None = None
    severity: Severity = Severity.ERROR
    deep: bool = False
    options: tuple[tuple[str, object], ...] = (("enable_stable_row_ids", True),)


def set_ids(number: int, ids: list[int], field: str = "inline_row_ids") -> Callable:
    return lambda manifest: setattr(
        manifest.fragments[number], field, encode_row_ids(np.array(ids, np.uint64))
    )


def first_file(change: Callable) -> Callable:
    return lambda manifest: change(manifest.fragments[0].files[0])


def replace_deletions(offsets: list[int], *, count: bool = True) -> Callable:
    def change(root: Path) -> None:
        (file,) = (root / "_deletions").iterdir()
        kind = DeletionFileType.BITMAP if file.suffix == ".bin" else DeletionFileType.ARROW_ARRAY
        file.write_bytes(encode_deletion_vector(DeletionVector.from_offsets(offsets), kind))

    return change


def tag(content: dict) -> Callable:
    def change(root: Path) -> None:
        (root / "_refs" / "tags").mkdir(parents=True, exist_ok=True)
        (root / "_refs" / "tags" / "t.json").write_text(json.dumps({"manifestSize": 1, **content}))

    return change


def branch(content: dict, *, versions: bool = True) -> Callable:
    def change(root: Path) -> None:
        lo.create_branch(root, "b")
        file = root / "_refs" / "branches" / "b.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **content}))
        if not versions:
            shutil.rmtree(root / "tree" / "b")

    return change


def same_id(manifest) -> None:
    manifest.fragments[1].id = manifest.fragments[0].id


def unknown_base(manifest) -> None:
    manifest.fragments[0].files[0].base_id = 7


def say(name: str, attribute: str, value: object) -> Callable:
    """Change a field of the schema."""
    return lambda m: setattr(next(field for field in m.fields if field.name == name), attribute, value)


def nested(name: str, change: Callable) -> Callable:
    """Add a field of the name below another."""

    def add(manifest) -> None:
        field = manifest.fields.add()
        field.CopyFrom(manifest.fields[1])
        field.name, field.id, field.parent_id = name, 9, 0
        change(manifest)

    return add


def without_column(manifest) -> None:
    manifest.fields[0].nullable = False
    file = manifest.fragments[1].files[0]
    del file.fields[0], file.column_indices[0]


DAMAGES = {
    "another type of numbers": Damage(
        "is double by the manifest, but column 0 of the file is int64",
        say("x", "logical_type", "double"),
        deep=True,
    ),
    "numbers for strings": Damage(
        "is int64 by the manifest, but column 1 of the file is string",
        say("s", "logical_type", "int64"),
        deep=True,
    ),
    "strings for numbers": Damage(
        "is string by the manifest, but column 2 of the file is double",
        say("f", "logical_type", "string"),
        deep=True,
    ),
    "a list without items": Damage(
        "'s' of type 'list' must have one child", say("s", "logical_type", "list")
    ),
    "a number with children": Damage(
        "'x' of type 'int64' cannot have children", nested("child", lambda _: None)
    ),
    "a map without entries": Damage(
        "'x' of type 'map' must have entries", nested("entries", say("x", "logical_type", "map"))
    ),
    "two columns of a name": Damage("2 columns have the name 'x'", say("s", "name", "x")),
    "a negative field id": Damage("has the id -5", say("s", "id", -5)),
    "no values of a column that is not nullable": Damage("has no values of column 'x'", without_column),
    "a fragment without files": Damage("no data files", lambda m: m.fragments[1].ClearField("files")),
    "fragments in another order": Damage("order of their ids", lambda m: m.fragments.reverse()),
    "a column beyond the file": Damage(
        "in column 9 by the manifest, but the file has 3",
        first_file(lambda f: f.column_indices.__setitem__(1, 9)),
        deep=True,
    ),
    "next_row_id too low": Damage(
        "next_row_id is 3, but fragment 1 has row id 39", lambda m: setattr(m, "next_row_id", 3)
    ),
    "next_row_id one too low": Damage(
        "next_row_id is 39, but fragment 1 has row id 39", lambda m: setattr(m, "next_row_id", 39)
    ),
    "equal ids in two fragments": Damage("fragments 0 and 1 have row id 10", set_ids(1, list(range(10, 30)))),
    "one equal id in two fragments": Damage(
        "fragments 0 and 1 have row id 12", set_ids(1, [12, *range(20, 39)])
    ),
    "equal ids in one fragment": Damage(
        "rows of fragment 1 have row id 25", set_ids(1, [*range(20, 39), 25])
    ),
    "fewer ids than rows": Damage("(expected 20, got 19)", set_ids(1, list(range(20, 39)))),
    "more ids than rows": Damage("(expected 20, got 21)", set_ids(1, list(range(20, 41)))),
    "fewer created versions than rows": Damage(
        "(expected 20, got 40)",
        lambda m: m.fragments[1].__setattr__(
            "inline_created_at_versions", m.fragments[1].inline_created_at_versions * 2
        ),
    ),
    "fewer rows than the file": Damage(
        "20 rows, expected 21", lambda m: setattr(m.fragments[1], "physical_rows", 21), deep=True, options=()
    ),
    "one fragment id twice": Damage("two fragments have the same id", same_id, options=()),
    "max_fragment_id too low": Damage("max_fragment_id", lambda m: setattr(m, "max_fragment_id", 0)),
    "a base that is not declared": Damage("base 7, which the manifest does not declare", unknown_base),
    "a path that leaves the root": Damage("..", first_file(lambda f: setattr(f, "path", "../../x.lance"))),
    "deleted rows beyond the fragment": Damage(
        "deletions of fragment 0", files=replace_deletions([0, 1, 99])
    ),
    "more deleted rows than recorded": Damage(
        "deletions of fragment 0", files=replace_deletions([0, 1, 2, 3])
    ),
    "a tag of a missing version": Damage("tag 't' names version 99", files=tag({"version": 99})),
    "a tag of a missing branch": Damage(
        "tag 't' names version 1 of branch 'gone'", files=tag({"version": 1, "branch": "gone"})
    ),
    "a tag that cannot be read": Damage("t.json", files=tag({"version": "one"})),
    "a branch without versions": Damage("branch 'b' has no versions", files=branch({}, versions=False)),
    "a branch without its parent": Damage(
        "'gone', which is missing", files=branch({"parentBranch": "gone"}), severity=Severity.WARNING
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_kind_of_damage_is_found(name: str, tmp_path: Path) -> None:
    damage, uri = DAMAGES[name], tmp_path / "t.lance"
    lo.write_dataset(
        rows(0, 40), uri, data_storage_version="2.2", max_rows_per_file=20, **dict(damage.options)
    )
    lo.delete(uri, "x < 3")
    assert lo.fsck(uri, deep=True).findings == ()
    if damage.change is not None:
        edit_manifest(uri, damage.change)
    if damage.files is not None:
        damage.files(uri)
    for deep in {damage.deep, True}:
        result = lo.fsck(uri, deep=deep)
        found = [finding for finding in result.findings if damage.say in f"{finding.message} {finding.path}"]
        assert {finding.severity for finding in found} == {damage.severity}, result.findings
        assert result.ok is (damage.severity is not Severity.ERROR)


@pytest.mark.parametrize("recorded", [False, True])
def test_half_an_overlay_file_is_found(
    recorded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOWED, "1")
    uri = tmp_path / "t.lance"
    lance.write_dataset(rows(0, 10), str(uri), data_storage_version="2.2")
    before = set((uri / "data").iterdir())
    lay(str(uri), pa.table({"f": [0.5, 0.25]}), [2], [3, 4])
    (file,) = set((uri / "data").iterdir()) - before
    assert lo.fsck(uri, deep=True).findings == ()
    if not recorded:
        edit_manifest(uri, lambda m: m.fragments[0].overlays[0].data_file.ClearField("file_size_bytes"))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert lo.fsck(uri).ok is not recorded
    assert not lo.fsck(uri, deep=True).ok


def test_an_overlay_of_other_rows_than_it_covers_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOWED, "1")
    uri = tmp_path / "t.lance"
    lance.write_dataset(rows(0, 10), str(uri), data_storage_version="2.2")
    lay(str(uri), pa.table({"f": [0.5, 0.25]}), [2], [3, 4])
    three = lo.table.manifest.deletion_vector.DeletionVector.from_offsets([1, 2, 3]).bitmap.serialize()
    edit_manifest(uri, lambda m: setattr(m.fragments[0].overlays[0], "shared_offset_bitmap", bytes(three)))
    (finding,) = lo.fsck(uri, deep=True).findings
    assert "2 rows, expected 3 in fragment 0" in finding.message


@pytest.mark.parametrize("write", ["append", "merge_insert", "update"])
def test_no_row_id_is_given_out_twice_where_next_row_id_is_too_low(write: str, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(rows(0, 10), uri, max_rows_per_file=5, enable_stable_row_ids=True)
    edit_manifest(uri, lambda manifest: setattr(manifest, "next_row_id", 3))
    if write == "append":
        lo.append(uri, rows(10, 15))
    elif write == "merge_insert":
        lo.merge_insert(uri, rows(8, 15), on=["x"], when_matched="update_all", when_not_matched="insert_all")
    else:
        lo.update(uri, {"f": "f + 1"}, "x > 3")
        lo.append(uri, rows(10, 15))
    lance.write_dataset(rows(15, 20), str(uri), mode="append")
    for dataset in (lo.dataset(uri), lance.dataset(str(uri))):
        ids = dataset.to_table(with_row_id=True)["_rowid"].to_pylist()
        assert sorted(ids) == list(range(20))
    assert lo.fsck(uri, deep=True).findings == ()
    assert sorted(xs(uri)) == list(range(20))


def test_rows_that_moved_and_versions_that_were_restored_are_sound(tmp_path: Path) -> None:
    """An updated row has its id in two fragments, and is deleted in one of them."""
    uri = tmp_path / "t.lance"
    lo.write_dataset(rows(0, 40), uri, max_rows_per_file=20, enable_stable_row_ids=True)
    lo.update(uri, {"f": "1.5"}, "x % 3 = 0")
    lance.dataset(str(uri)).update({"s": "'peer'"}, where="x % 4 = 0")
    assert lo.fsck(uri, deep=True).findings == ()
    lo.compact(uri)
    lo.restore(uri, 2)
    lo.append(uri, rows(40, 50))
    lo.create_tag(uri, "kept", 2)
    lo.create_branch(uri, "side")
    assert lo.fsck(uri, deep=True).findings == ()
