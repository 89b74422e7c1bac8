"""Indices whose lookup no longer fits their pages, as compactions by pylance before 4 leave them.

Those dropped deleted rows from the pages and kept the lookup: each row moved to the front by as many places
as rows were dropped before it. The newest pylance believes the lookup and loses rows.
"""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.file.reader import FileReader
from lance_ops.file.schema import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.btree.pages import PAGE_ROWS
from lance_ops.storage import open_store

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
