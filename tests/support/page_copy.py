"""Files to copy page by page, and what the copy has to hold."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter

from lance_ops.errors import CorruptFileError
from lance_ops.file.page_copy import DEFAULT_RULE, CopySource, MergeRule, copy_pages
from lance_ops.file.reader import FileReader
from lance_ops.file.writer import WrittenFile
from lance_ops.storage import Store, open_store

DELETIONS = ("none", "scattered", "run", "all", "most", "edges")


def deleted_rows(pattern: str, count: int, seed: int = 3) -> np.ndarray | None:
    """Rows to delete: as numbers, or as a mask.

    Args:
        pattern: One of `DELETIONS`.
        count: Rows of the file.
        seed: The same seed gives the same rows.
    """
    rng = np.random.default_rng(seed)
    mask = np.zeros(count, dtype=bool)
    if pattern == "none":
        return None
    if pattern == "scattered":
        return np.flatnonzero(rng.random(count) < 0.1)
    if pattern == "run":
        mask[count // 4 : count // 2] = True
        return mask
    if pattern == "all":
        return np.arange(count)
    if pattern == "most":
        return np.flatnonzero(rng.random(count) < 0.95)
    mask[:2] = mask[-3:] = True
    return mask


def split(array: pa.Array, parts: int = 2) -> list[pa.Array]:
    """An array in as many pieces of its own memory; the first is half as long as the others."""
    size = -(-2 * len(array) // (2 * parts - 1))
    cuts = [0, *range(size // 2, len(array), max(size, 1)), len(array)][: parts + 1]
    cuts[-1] = len(array)
    if pa.types.is_null(array.type):
        return [pa.nulls(stop - start) for start, stop in pairwise(cuts)]
    # The peer panics at slices of structs.
    return [array.take(pa.array(np.arange(start, stop))) for start, stop in pairwise(cuts)]


def write_peer_files(
    folder: Path, tables: Sequence[pa.Table], version: str, *, batches: int = 1
) -> list[str]:
    """Write each table as a file of the peer, with a page for each batch if it is told to flush."""
    names = []
    for number, table in enumerate(tables):
        names.append(f"source-{number}.lance")
        with LanceFileWriter(str(folder / names[-1]), table.schema, version=version) as writer:
            rows = -(-table.num_rows // batches)
            for start in range(0, table.num_rows, max(rows, 1)):
                writer.write_batch(table.slice(start, rows))
    return names


def peer_rows(path: Path) -> list[dict]:
    """The rows that the peer reads."""
    reader = LanceFileReader(str(path))
    return reader.read_all().to_table().to_pylist() if reader.num_rows() else []


def keep(rows: list, deleted: np.ndarray | None) -> list:
    """The rows that are not deleted."""
    if deleted is None:
        return rows
    mask = np.ones(len(rows), dtype=bool)
    mask[deleted] = False
    return [row for row, stays in zip(rows, mask.tolist(), strict=True) if stays]


def copy_and_check(
    folder: Path,
    names: Sequence[str],
    deletions: Sequence[np.ndarray | None],
    *,
    rule: MergeRule = DEFAULT_RULE,
    expected: list[list[dict]] | None = None,
) -> WrittenFile:
    """Copy files and compare what both sides read from the copy with the rows that stay.

    Args:
        folder: Where the files are, and the copy goes as `copy.lance`.
        names: Of the files.
        deletions: Deleted rows of each.
        rule: Which pages are put together.
        expected: Rows of each file; those that the peer reads when None.
    """
    store = open_store(folder, {"fsync": "false"})
    if expected is None:
        expected = [peer_rows(folder / name) for name in names]
    rows = [row for own, gone in zip(expected, deletions, strict=True) for row in keep(own, gone)]
    sources = [CopySource(store, name, deleted=gone) for name, gone in zip(names, deletions, strict=True)]
    written = copy_pages(store, "copy.lance", sources, rule=rule)
    assert written.num_rows == len(rows)
    assert written.size_bytes == (folder / "copy.lance").stat().st_size
    ours = FileReader.open(store, "copy.lance")
    # Of NaN and signed zeros texts alone are equal.
    text = repr(rows)
    assert repr(ours.read_table().to_pylist()) == text
    assert repr(peer_rows(folder / "copy.lance")) == text
    if rows:
        picked = np.unique(np.random.default_rng(1).integers(0, len(rows), 9))
        wanted = [rows[number] for number in picked]
        assert repr(ours.take(picked).to_pylist()) == repr(wanted)
        peer = LanceFileReader(str(folder / "copy.lance")).take_rows(picked.tolist())
        assert repr(peer.to_table().to_pylist()) == repr(wanted)
    return written


def pages(store: Store, path: str) -> Iterator[tuple[int, object, list[bytes]]]:
    """Column, page and buffers of each page of a file."""
    reader = FileReader.open(store, path)
    for column in range(reader.num_columns):
        for page in reader.column_metadata(column).pages:
            yield column, page, [store.read(path, *buffer).to_pybytes() for buffer in page.buffers]


def is_damaged(error: Exception) -> bool:
    """Whether an error says that the bytes are wrong."""
    return isinstance(error, CorruptFileError)
