"""Small datasets for the tests of operations, written by us or by the peer, and how to read them back."""

from collections.abc import Sequence
from pathlib import Path

import lance
import pyarrow as pa

import lance_ops as lo

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string()), ("f", pa.float64())])


def rows(start: int, stop: int) -> pa.Table:
    """Rows that tell themselves apart: x counts, s and f follow from it, with nulls in both."""
    xs = range(start, stop)
    return pa.table(
        {
            "x": list(xs),
            "s": [None if x % 7 == 3 else f"row {x}" for x in xs],
            "f": [None if x % 5 == 4 else x / 4 for x in xs],
        },
        schema=SCHEMA,
    )


def peer_dataset(uri: Path | str, sizes: Sequence[int], **options) -> None:
    """A dataset of the peer with one fragment of each size."""
    start = 0
    for number, size in enumerate(sizes):
        mode = "append" if number else "create"
        table = rows(start, start + size)
        lance.write_dataset(table, str(uri), mode=mode, data_storage_version="2.0", **options)
        start += size


def our_dataset(uri: Path | str, sizes: Sequence[int], **options) -> None:
    """The same, written by us."""
    start = 0
    for number, size in enumerate(sizes):
        lo.write_dataset(rows(start, start + size), uri, mode="append" if number else "create", **options)
        start += size


def peer_table(uri: Path | str, **scan) -> pa.Table:
    """What the peer reads, after it found nothing wrong with the dataset."""
    dataset = lance.dataset(str(uri))
    dataset.validate()
    return dataset.to_table(**scan)


def xs(uri: Path | str) -> list[int]:
    """Column x as both sides read it, in the order of rows."""
    ours = lo.dataset(uri).to_table(columns=["x"])["x"].to_pylist()
    assert peer_table(uri, columns=["x"])["x"].to_pylist() == ours
    return ours


def fragment_sizes(uri: Path | str) -> dict[int, int]:
    """Live rows of each fragment, as the peer says."""
    return {item.fragment_id: item.count_rows() for item in lance.dataset(str(uri)).get_fragments()}


def data_files(uri: Path | str) -> set[str]:
    """Every file below the folders whose files a manifest refers to."""
    root = Path(uri)
    return {
        str(path.relative_to(root))
        for folder in ("data", "_deletions", "_indices")
        for path in (root / folder).rglob("*")
        if path.is_file()
    }
