"""Of many fragments only those become objects that an operation touches: others stay numbers and bytes."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.maintenance.compact.groups import Coverage
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file import read as manifest_file
from lance_ops.table.manifest.file.recurring import recurring
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.fragment_list import FragmentList
from lance_ops.table.transaction.operations import Append
from tests.support.table_actions import commit

MANY = 200
FEW = 8
ROWS = 10


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of many fragments, all with links to the same file."""
    path = tmp_path_factory.mktemp("many") / "t.lance"
    lo.write_dataset(pa.table({"id": list(range(ROWS)), "s": [f"x{n}" for n in range(ROWS)]}), path)
    dataset = Dataset.open(str(path))
    (fragment,) = dataset.fragments
    (file,) = fragment.files
    copies = []
    for _ in range(MANY - 1):
        name = f"{uuid.uuid4().hex}.lance"
        os.link(path / "data" / file.path, path / "data" / name)
        copies.append(Fragment(0, (type(file)(name, *_traits(file)),), ROWS))
    commit(dataset.store, Append(tuple(copies)))
    return path


def _traits(file) -> tuple:
    return file.fields, file.column_indices, file.major, file.minor, file.size_bytes


@pytest.fixture
def table(template: Path, tmp_path: Path) -> Path:
    path = tmp_path / "t.lance"
    for found in template.rglob("*"):
        target = path / found.relative_to(template)
        target.mkdir(parents=True, exist_ok=True) if found.is_dir() else os.link(found, target)
    return path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of objects made of fragments in manifests; all manifests are read as if they were large."""
    monkeypatch.setattr(manifest_file, "_SMALL_LIST", 0)
    monkeypatch.setattr(recurring, "get", lambda path, serialised: None)
    count = [0]
    inner = Fragment.from_bytes.__func__

    def counted(cls: type[Fragment], data: bytes) -> Fragment:
        count[0] += 1
        return inner(cls, data)

    monkeypatch.setattr(Fragment, "from_bytes", classmethod(counted))
    return count


ADDRESS = (100 << 32) + 7
OPERATIONS: dict[str, Callable[[str], object]] = {
    "count": lambda path: lo.dataset(path).count_rows(),
    "scan one": lambda path: lo.dataset(path).to_table(filter="id = 7", fragments=[100]),
    "first rows": lambda path: lo.dataset(path).to_table(limit=15),
    "rows behind": lambda path: lo.dataset(path).to_table(limit=5, offset=MANY * ROWS - 10),
    "by id": lambda path: lo.dataset(path).to_table(filter=f"_rowid = {ADDRESS}"),
    "by address": lambda path: lo.dataset(path).to_table(filter=f"_rowaddr IN ({ADDRESS}, 5) AND id < 8"),
    "take": lambda path: lo.dataset(path).take([0, 1000, MANY * ROWS - 1]),
    "delete one": lambda path: lo.delete(path, f"_rowid = {ADDRESS}"),
    "append": lambda path: lo.append(path, pa.table({"id": [1], "s": ["a"]})),
    "plan": lambda path: lo.compact(path, dry_run=True),
    "health": lambda path: lo.measure_health(path),
    # An object for each group of the plan, too.
    "compact some": lambda path: lo.compact(path, target_rows_per_fragment=500, max_source_fragments=50),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_only_touched_fragments_become_objects(name: str, table: Path, made: list[int]) -> None:
    OPERATIONS[name](str(table))
    dataset = Dataset.open(str(table))
    assert isinstance(dataset.fragments, FragmentList)
    most = 2 * 50 + FEW if name == "compact some" else FEW
    assert made[0] <= most, f"{made[0]} objects for {name}"


def test_results_are_those_of_objects_and_of_the_peer(table: Path, made: list[int]) -> None:
    ours = lo.dataset(table)
    theirs = lance.dataset(str(table))
    for where in (
        f"_rowid = {ADDRESS}",
        f"_rowid > {ADDRESS} AND _rowid <= {ADDRESS + (2 << 32)}",
        f"_rowid IN ({ADDRESS}, 3, {(199 << 32) + 2}, {(700 << 32)})",
        f"_rowid < {1 << 32} OR _rowid >= {(199 << 32) + 5}",
        f"NOT (_rowid > {1 << 32}) AND id > 3",
        f"_rowid = {ADDRESS} OR id = 3",
    ):
        found = ours.to_table(filter=where, with_row_id=True)
        assert found.equals(theirs.to_table(filter=where, with_row_id=True)), where
    assert ours.to_table(limit=5, offset=997).equals(theirs.to_table(limit=5, offset=997))
    lo.delete(table, f"_rowid >= {5 << 32} AND _rowid < {(6 << 32) + 4}")
    lo.compact(table, target_rows_per_fragment=20, max_source_fragments=20)
    lo.append(table, pa.table({"id": [100], "s": ["new"]}))
    now = lance.dataset(str(table))
    assert now.count_rows() == MANY * ROWS - 14 + 1
    assert now.to_table().sort_by("id").equals(lo.dataset(table).to_table().sort_by("id"))
    now.delete("id = 5")
    assert lo.dataset(table).count_rows("id = 5") == 0
    assert lo.fsck(table).findings == ()
    assert Coverage(Dataset.open(str(table))).of(lo.dataset(table).fragments[0]) == frozenset()
