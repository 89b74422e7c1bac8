"""Indices whose lookup no longer fits their pages, as compactions by pylance before 4 leave them.

Those dropped deleted rows from the pages and kept the lookup: each row moved to the front by as many places
as rows were dropped before it. The newest pylance believes the lookup and loses rows.
"""

import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.btree.pages import PAGE_ROWS
from lance_ops.storage import open_store
from lance_ops.table.transaction.operations import CreateIndex
from tests.support.commands import lance_ops
from tests.support.table_actions import commit

ROWS = 3 * PAGE_ROWS - 100


def drop_rows(path: Path, dropped: np.ndarray) -> None:
    """Leave rows out of the pages of the only index, and the lookup as it is."""
    (segment,) = lo.dataset(path).indices
    store = open_store(str(path / segment.directory))
    pages = FileReader.open(store, "page_data.lance").read_table()
    kept = pages.filter(pa.array(~np.isin(pages["ids"].to_numpy(), dropped)))
    (path / segment.directory / "page_data.lance").unlink()
    with FileWriter(store, "page_data.lance", Schema.from_arrow(kept.schema), version="2.0") as writer:
        writer.write(kept)
        writer.finish()


@pytest.mark.parametrize("distinct", [2, 5, 30])
@pytest.mark.parametrize("aligned", [False, True], ids=["", "runs that begin with pages"])
def test_what_moved_between_pages_is_not_lost(tmp_path: Path, distinct: int, aligned: bool) -> None:
    rng = np.random.default_rng(distinct)
    values = np.sort(rng.integers(0, distinct, ROWS))
    if aligned:
        for page in (1, 2):
            values[page * PAGE_ROWS :] += 1
    nulls = np.arange(ROWS) < (PAGE_ROWS if aligned else 70)
    path = tmp_path / "sound"
    lo.write_dataset(
        pa.table({"id": np.arange(ROWS), "v": pa.array(values, mask=nulls)}), path, data_storage_version="2.0"
    )
    lo.create_index(path, "v")
    warned = 0
    for trial in (0, 1, 5):
        damaged = tmp_path / f"{trial}"
        shutil.copytree(path, damaged)
        dropped = rng.choice(ROWS, 1 + 4 * trial, replace=False).astype(np.uint64)
        drop_rows(damaged, dropped)
        lo.delete(damaged, f"id IN ({', '.join(map(str, dropped))})")
        dataset = lo.dataset(damaged)
        edges = {int(values[page * PAGE_ROWS + step]) for page in (1, 2) for step in (-1, 0)}
        for sql in ("v IS NULL", *(f"v {op} {value}" for value in edges for op in ("=", "<"))):
            wanted = dataset.count_rows(sql, pruners=())
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                assert dataset.count_rows(sql) == wanted, (trial, sql)
            warned += any(item.category is UnreadableIndexWarning for item in caught)
    assert warned or not aligned


def forget_files(path: Path, name: str) -> None:
    """An entry as releases before 4 make it: it does not say which files the segment has."""
    dataset = lo.dataset(path)
    (old,) = (index for index in dataset.indices if index.name == name)
    new = uuid4()
    shutil.copytree(path / old.directory, path / "_indices" / str(new))
    commit(dataset, CreateIndex((replace(old, uuid=new, files=()),), (old,)))


@pytest.mark.peer
@pytest.mark.parametrize("dropped", [1, PAGE_ROWS + 5], ids=["the same pages", "fewer pages"])
@pytest.mark.parametrize("behind", [False, True], ids=["covered", "with new rows"])
def test_the_upkeep_of_indices_builds_them_anew(tmp_path: Path, dropped: int, behind: bool) -> None:
    path = tmp_path / "t"
    ids = np.arange(ROWS)
    lo.write_dataset(pa.table({"id": ids, "v": pa.array(ids * 2, mask=ids < 70), "w": ids}), path)
    lo.create_index(path, "v")
    drop_rows(path, np.arange(PAGE_ROWS, PAGE_ROWS + dropped))
    forget_files(path, "v_idx")
    lo.delete(path, f"id >= {PAGE_ROWS} AND id < {PAGE_ROWS + dropped}")
    lo.create_index(path, "w")
    if behind:
        lo.append(path, pa.table({"id": [ROWS], "v": [2 * ROWS], "w": [ROWS]}))
    (finding,) = [item for item in lo.fsck(path).findings if "v_idx" in item.message]
    assert "lance-ops index URI v --replace" in str(finding)
    plan = lo.optimize_indices(path, dry_run=True)
    assert "rebuilt: v_idx: pages and lookup have different" in str(plan)
    assert plan.to_dict()["rebuilt"]
    result = lo.optimize_indices(path)
    assert "before release 4" in result.rebuilt[0]
    assert any("rebuilt: v_idx" in line for line in result.remarks())
    assert result.indices == (("v_idx", "w_idx") if behind else ("v_idx",))
    assert lo.fsck(path, deep=True).ok
    assert not lo.optimize_indices(path).changed
    dataset, peer = lo.dataset(path), lance.dataset(str(path))
    for sql in ("v IS NULL", f"v = {2 * (ROWS - 1)}", f"v = {2 * (2 * PAGE_ROWS + 3)}", "v < 9000"):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnreadableIndexWarning)
            assert dataset.count_rows(sql) == dataset.count_rows(sql, pruners=()) == peer.count_rows(sql)


def test_the_command_line_says_why_it_builds_an_index_anew(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lo.write_dataset(pa.table({"id": np.arange(ROWS)}), path)
    lo.create_index(path, "id")
    drop_rows(path, np.arange(5))
    forget_files(path, "id_idx")
    assert "rebuilt: id_idx: pages and lookup" in lance_ops("index", str(path)).output
    assert "every index covers all rows" in lance_ops("index", str(path)).output


def test_indices_that_record_their_files_are_not_read_for_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lo.write_dataset(pa.table({"id": np.arange(ROWS)}), path)
    lo.create_index(path, "id")
    drop_rows(path, np.arange(5))
    assert not lo.optimize_indices(path).changed
    assert not lo.fsck(path, deep=True).ok
