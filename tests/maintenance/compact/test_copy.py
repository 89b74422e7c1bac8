"""Compaction by copying pages: the same rows as by a rewrite, and where it cannot be done, a reason."""

import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.file.page_copy import copy_pages
from lance_ops.maintenance.compact import copy as module
from lance_ops.maintenance.compact.copy import ends_and_some
from lance_ops.maintenance.compact.groups import Method
from tests.support.interop import data_files, our_dataset, peer_dataset, xs
from tests.support.random_tables import random_tables

pytestmark = pytest.mark.peer

WIDE = 3000
"""Rows of a fragment whose pages are worth copying."""


def table(start: int, rows: int = WIDE) -> pa.Table:
    rng = np.random.default_rng(start)
    return pa.table(
        {
            "id": np.arange(start, start + rows),
            "name": [f"customer {value:08d}" for value in rng.integers(0, 10**8, rows)],
            "value": rng.random(rows),
        }
    )


def create(path: Path, fragments: int = 4, **options) -> str:
    for number in range(fragments):
        mode = "append" if number else "create"
        lance.write_dataset(table(number * WIDE), str(path), mode=mode, **options)
    return str(path)


def plain(rows: pa.Table) -> str:
    return repr(rows.to_pylist())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return create(tmp_path / "t.lance")


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_pages_are_copied_without_what_is_deleted(tmp_path: Path, version: str, stable: bool) -> None:
    uri = create(tmp_path / "t.lance", data_storage_version=version, enable_stable_row_ids=stable)
    lance.dataset(uri).delete("id % 7 = 3 OR id BETWEEN 3500 AND 4500 OR id >= 9000")
    before = lance.dataset(uri).to_table(with_row_id=stable)
    plan = lo.compact(uri, dry_run=True)
    assert [group.method.method for group in plan.groups] == [Method.COPY]
    assert "pages can be copied" in str(plan)
    result = lo.compact(uri)
    assert (result.groups, result.groups_copied, result.fragments_added) == (1, 1, 1)
    assert "pages copied in 1 of 1 group" in result.summary()
    for reader in (lance, lo):
        assert reader.dataset(uri).to_table(with_row_id=stable).equals(before)
    assert not lance.dataset(uri).get_fragments()[0].num_deletions
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_a_group_that_becomes_several_fragments_is_cut_where_a_rewrite_would(
    tmp_path: Path, version: str, stable: bool
) -> None:
    """Within a fragment, within pages, and with deleted rows on both sides of a cut."""
    uri = create(tmp_path / "t.lance", 5, data_storage_version=version, enable_stable_row_ids=stable)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).delete("id % 7 = 3 OR id BETWEEN 3500 AND 4500 OR id >= 14000")
    before = lance.dataset(uri).to_table(with_row_id=stable)
    other = str(tmp_path / "other.lance")
    shutil.copytree(uri, other)
    choices = {"target_rows_per_fragment": 5400, "materialize_deletions_threshold": 0.0}
    assert method_of(uri, **choices) == (Method.COPY, "pages can be copied")
    result = lo.compact(uri, **choices)
    assert (result.groups, result.groups_copied, result.fragments_added) == (1, 1, 2)
    lo.compact(other, method="rewrite", **choices)
    sizes = [[fragment.physical_rows for fragment in lo.dataset(at).fragments] for at in (uri, other)]
    assert sizes[0] == sizes[1]
    for reader in (lance, lo):
        assert reader.dataset(uri).to_table(with_row_id=stable).equals(before)
        assert reader.dataset(uri).to_table(filter="id IN (3, 4600, 13999)")["id"].to_pylist() == [
            4600,
            13999,
        ]
    assert lo.fsck(uri, deep=True).ok


def test_a_large_fragment_is_cut_into_several(tmp_path: Path) -> None:
    uri = create(tmp_path / "t.lance", 1)
    lance.dataset(uri).delete("id < 1000")
    result = lo.compact(uri, target_rows_per_fragment=700, materialize_deletions_threshold=0.0)
    assert (result.groups_copied, result.fragments_added) == (1, 2)
    assert [fragment.physical_rows for fragment in lo.dataset(uri).fragments] == [1000, 1000]
    assert lance.dataset(uri).to_table()["id"].to_pylist() == list(range(1000, WIDE))
    tiny = create(tmp_path / "tiny.lance", 1)
    lance.dataset(tiny).delete("id < 1000")
    method, reason = method_of(tiny, target_rows_per_fragment=10, materialize_deletions_threshold=0.0)
    assert (method, reason.startswith("pages are small")) == (Method.REWRITE, True)


@given(
    rows=st.sampled_from(["2.0", "2.1", "2.2"]).flatmap(
        lambda version: st.tuples(st.just(version), random_tables(version))
    ),
    parts=st.integers(2, 4),
    seed=st.integers(0, 99),
    share=st.sampled_from([0.0, 0.05, 0.6]),
    ours=st.booleans(),
    files=st.integers(1, 3),
)
@settings(max_examples=25, deadline=None)
def test_rows_of_any_type_are_the_same_after_it(
    tmp_path_factory, rows, parts, seed, share, ours, files
) -> None:
    version, values = rows
    values = values.append_column("row", pa.array(np.arange(values.num_rows)))
    uri = str(tmp_path_factory.mktemp("copy") / "t.lance")
    most = max(1, -(-values.num_rows // parts))
    # The peer cannot write all of these; what it can is the matter of `tests/file/page_copy`.
    lo.write_dataset(values, uri, max_rows_per_file=most, data_storage_version=version)
    dead = np.flatnonzero(np.random.default_rng(seed).random(values.num_rows) < share)
    if len(dead):
        lo.delete(uri, f"row IN ({', '.join(map(str, dead))})", max_fraction=1.0)
    before = lo.dataset(uri).to_table()
    result = lo.compact(
        uri,
        method="copy",
        materialize_deletions_threshold=0.0,
        target_rows_per_fragment=max(most + 1, before.num_rows // files),
    )
    assert plain(lo.dataset(uri).to_table()) == plain(before)
    assert result.groups_copied == result.groups or result.notes or not before.num_rows
    assert lo.fsck(uri).ok
    if ours and before.num_rows:
        lo.compact(uri, method="rewrite", materialize_deletions_threshold=0.0)
        assert plain(lo.dataset(uri).to_table()) == plain(before)


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "INVERTED"])
def test_indices_move_along(uri: str, kind: str) -> None:
    column = {"BTREE": "id", "BITMAP": "id", "INVERTED": "name"}[kind]
    lance.dataset(uri).create_scalar_index(column, kind)
    lance.dataset(uri).delete("id % 5 = 1")
    asked = {"full_text_query": "customer"} if kind == "INVERTED" else {"filter": "id > 4000 AND id < 4010"}
    before = lance.dataset(uri).to_table(columns=["id"], **asked)["id"].to_pylist()
    result = lo.compact(uri)
    assert (result.groups_copied, result.rows_indexed_after) == (1, result.rows_indexed_before)
    for reader in (lance, lo):
        found = reader.dataset(uri).to_table(columns=["id"], **asked)["id"].to_pylist()
        assert sorted(found) == sorted(before)


def test_fragments_of_several_files_stay_so(uri: str) -> None:
    lance.dataset(uri).add_columns({"twice": "id * 2"})
    lance.dataset(uri).delete("id % 100 = 1")
    before = lance.dataset(uri).to_table()
    assert lo.compact(uri, materialize_deletions_threshold=0.0).groups_copied == 1
    (fragment,) = lo.dataset(uri).fragments
    assert len(fragment.files) == 2
    assert lance.dataset(uri).to_table().equals(before)
    assert lo.dataset(uri).to_table().equals(before)
    # What follows goes on upon it, on both sides.
    lance.dataset(uri).delete("id = 5")
    lance.write_dataset(lance.dataset(uri).to_table(limit=10), uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    assert lo.dataset(uri).count_rows() == before.num_rows + 9


def test_a_renamed_column_keeps_its_values(uri: str) -> None:
    lance.dataset(uri).alter_columns({"path": "value", "name": "amount"})
    before = lance.dataset(uri).to_table()
    assert lo.compact(uri).groups_copied == 1
    assert lance.dataset(uri).to_table().equals(before)
    assert lo.dataset(uri).to_table().equals(before)


def method_of(uri: str, **options) -> tuple[Method, str]:
    (group,) = lo.compact(uri, dry_run=True, **options).groups
    return group.method.method, group.method.reason


def test_what_cannot_be_copied_is_rewritten_and_the_plan_says_why(tmp_path: Path) -> None:
    uri = create(tmp_path / "t.lance", 5, data_storage_version="2.1")
    assert method_of(uri, method="rewrite") == (Method.REWRITE, "as asked")
    assert method_of(uri, data_storage_version="2.2")[1] == "files of storage version 2.1 become 2.2"
    assert method_of(uri, max_bytes_per_file=10_000)[1] == "one file would exceed 10 kB"
    limited = method_of(uri, max_bytes_per_file=1 << 30, target_rows_per_fragment=7000)
    assert limited == (Method.REWRITE, "it becomes 2 fragments with limited size")
    lance.dataset(uri).drop_columns(["value"])
    lance.dataset(uri).add_columns({"more": "id + 1"})
    lance.write_dataset(lance.dataset(uri).to_table(limit=WIDE), uri, mode="append")
    assert method_of(uri)[1] == "its fragments do not have the same columns in the same files"
    before = lance.dataset(uri).to_table()
    result = lo.compact(uri, method="copy")
    assert result.groups_copied == 0
    assert lance.dataset(uri).to_table().equals(before)


def test_small_pages_are_rewritten_unless_asked(tmp_path: Path) -> None:
    our_dataset(tmp_path / "ours", [10, 10])
    method, reason = method_of(str(tmp_path / "ours"))
    assert (method, reason.startswith("pages are small")) == (Method.REWRITE, True)
    assert method_of(str(tmp_path / "ours"), method="copy") == (Method.COPY, "as asked")
    peer_dataset(tmp_path / "peers", [10, 10])
    before = xs(tmp_path / "peers")
    assert lo.compact(str(tmp_path / "peers"), method="copy").groups_copied == 1
    assert xs(tmp_path / "peers") == before


def test_a_copy_that_is_not_the_same_is_rewritten_and_reported(uri: str, monkeypatch) -> None:
    before = lance.dataset(uri).to_table()
    known = data_files(uri)

    def swapped(store, path, sources):
        return copy_pages(store, path, sources[::-1])

    monkeypatch.setattr(module, "copy_pages", swapped)
    result = lo.compact(uri, runner=lo.LocalRunner(1))
    assert result.groups_copied == 0
    assert any("rewritten, not copied: rows of fragment" in note for note in result.notes)
    assert lance.dataset(uri).to_table().equals(before)
    # The copy is gone, the rewrite is there.
    assert len(data_files(uri) - known) == 1


def test_a_copy_of_fewer_rows_is_rewritten_and_reported(uri: str, monkeypatch) -> None:
    before = lance.dataset(uri).to_table()
    known = data_files(uri)
    monkeypatch.setattr(
        module, "copy_pages", lambda store, path, sources: copy_pages(store, path, sources[1:])
    )
    result = lo.compact(uri, runner=lo.LocalRunner(1))
    assert any("the files have 9,000 rows, expected 12,000" in note for note in result.notes)
    assert lance.dataset(uri).to_table().equals(before)
    assert len(data_files(uri) - known) == 1


def test_the_config_of_the_table_chooses(uri: str) -> None:
    lance.dataset(uri).update_config({"lance.compaction.method": "rewrite"})
    assert method_of(uri) == (Method.REWRITE, "as asked")
    lance.dataset(uri).update_config({"lance.compaction.method": "teleport"})
    with pytest.raises(InvalidArgumentError, match="teleport"):
        lo.compact(uri)


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 100])
def test_a_sample_has_both_ends_and_as_many_between_each_time(count):
    samples = [ends_and_some(np.random.default_rng(seed), count, 4).tolist() for seed in range(20)]
    for sample in samples:
        assert sample == sorted(set(sample))
        assert {sample[0], sample[-1]} == {0, count - 1}
        assert len(sample) == min(count, 6)
    assert count <= 6 or len(set(map(tuple, samples))) > 1
