"""Kinds by (type, version): what a segment holds, and what happens to one that holds something else."""

import warnings
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.index.registry import all_kinds, kind_by_name, kind_of
from lance_ops.index.upkeep.remap import build_segment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.index_versions import INDEX_VERSIONS, RowNames
from lance_ops.table.transaction.operations import CreateIndex
from tests.support.table_actions import commit


def entry(kind: str, version: int) -> IndexMetadata:
    return IndexMetadata(uuid4(), "i", (0,), 1, frozenset(), f"/lance.table.{kind}", index_version=version)


def test_every_kind_is_in_the_table_and_every_row_of_it_has_a_kind() -> None:
    kinds = {kind.type_url.rsplit(".", 1)[-1].lower() for kind in all_kinds()}
    assert kinds == set(INDEX_VERSIONS)


@pytest.mark.parametrize("kind", sorted(set(INDEX_VERSIONS) - {"jsonindexdetails", "vectorindexdetails"}))
def test_the_table_says_what_is_known_and_what_it_holds(kind: str) -> None:
    versions = INDEX_VERSIONS[kind]
    for version, names in versions.names.items():
        segment = entry(kind, version)
        found = kind_of(segment)
        assert found is not None
        assert found.holds_addresses(segment, stable_row_ids=False)
        assert found.holds_addresses(segment, stable_row_ids=True) == (names is RowNames.ADDRESSES)
        row_ids = names is RowNames.IDS
        written = found.index_version(stable_row_ids=True, row_ids=row_ids)
        assert versions.names[written] is names
    assert kind_of(entry(kind, max(versions.names) + 1)) is None


def stable_table(path: Path) -> None:
    table = pa.table({"x": pa.array(range(300), pa.int64()), "s": [f"text {x % 9}" for x in range(300)]})
    table = table.append_column("l", pa.array([[x % 5, x % 3] for x in range(300)]))
    lo.write_dataset(table, path, max_rows_per_file=100, enable_stable_row_ids=True)
    # Ids and addresses part: the rows of the first fragment move to a new one.
    lo.delete(path, "x < 50")
    lo.compact(path, target_rows_per_fragment=100)


@pytest.mark.peer
@pytest.mark.parametrize(
    ("kind", "column", "condition"),
    [
        ("BTREE", "x", "x >= 250"),
        ("BITMAP", "x", "x >= 250"),
        ("LABEL_LIST", "l", "array_has(l, 4)"),
        ("NGRAM", "s", "contains(s, 'text 8')"),
    ],
)
@pytest.mark.parametrize("holds", [RowNames.IDS, RowNames.ADDRESSES])
def test_a_version_that_says_other_than_the_files_hold_is_refused(
    tmp_path: Path, kind: str, column: str, condition: str, holds: RowNames
) -> None:
    path = tmp_path / "t.lance"
    stable_table(path)
    before = lo.dataset(path).to_table(filter=condition)
    lo.create_index(path, column, kind, name="i")
    (segment,) = lo.dataset(path).indices
    versions = INDEX_VERSIONS[segment.kind or ""]
    if holds is RowNames.ADDRESSES:
        dataset = lo.dataset(path)
        right = build_segment(
            dataset,
            kind_by_name(kind),
            column,
            "i",
            segment_id=uuid4(),
            merged=(),
            beside=(),
            fragments=dataset.fragments,
            rows_per_task=1000,
            row_ids=False,
            parameters={},
            run=lambda function, tasks, message: [function(task) for task in tasks],
        )
        commit(lo.dataset(path), CreateIndex((right,), (segment,)))
        segment = right
    assert lo.fsck(path, deep=True).ok
    assert lo.dataset(path).to_table(filter=condition).equals(before)
    assert lance.dataset(str(path)).to_table(filter=condition).num_rows == before.num_rows
    other = RowNames.ADDRESSES if holds is RowNames.IDS else RowNames.IDS
    wrong = replace(segment, index_version=versions.to_write(other))
    commit(lo.dataset(path), CreateIndex((replace(wrong, uuid=_copied(path, segment)),), (segment,)))

    found = lo.fsck(path)
    assert not found.ok
    assert "i" in str(found)
    if holds is RowNames.IDS:
        # Small numbers are addresses, too: only a look at the rows tells.
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreadableIndexWarning)
        assert lo.dataset(path).to_table(filter=condition).num_rows == before.num_rows


def _copied(path: Path, segment: IndexMetadata):
    """A copy of the files of a segment under a new id."""
    fresh = uuid4()
    store = lo.dataset(path).store
    for info in list(store.list(segment.directory)):
        store.put(info.path.replace(str(segment.uuid), str(fresh)), store.read(info.path))
    return fresh
