"""Tables with many data files in each fragment."""

import os
from pathlib import Path

import lance
import pyarrow as pa

import lance_ops as lo

ROWS = 1000
FRAGMENTS = 4


def evolved(
    path: Path, *, version: str = "2.1", stable_row_ids: bool = False, columns: int = 4, indexed: bool = True
) -> str:
    """Write four fragments by pylance, with a data file for each column, a dropped column and deletions."""
    uri = str(path)
    rows = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "text": pa.array([f"x{i % 7}" if i % 5 else None for i in range(ROWS)]),
            "st": pa.array([{"a": i, "b": {"c": str(i), "d": [i, i + 1]}} for i in range(ROWS)]),
            "large": pa.array([os.urandom(60) for _ in range(ROWS)]),
        }
    )
    ds = lance.write_dataset(
        rows,
        uri,
        max_rows_per_file=ROWS // FRAGMENTS,
        data_storage_version=version,
        enable_stable_row_ids=stable_row_ids,
    )
    for number in range(columns):
        ds.add_columns({f"c{number}": f"id * {number}"})
    if indexed:
        ds.create_scalar_index("id", "BTREE")
    ds.delete("id % 10 = 3")
    ds.drop_columns(["large"])
    return uri


def content(uri: str) -> list[dict[str, object]]:
    """Return the rows of the newest version, which both libraries read alike."""
    rows = lance.dataset(uri).to_table().to_pylist()
    assert lo.dataset(uri).to_table().to_pylist() == rows
    return rows


def files_of_fragments(uri: str) -> list[int]:
    """Return the number of data files of each fragment."""
    return [len(fragment.data_files()) for fragment in lance.dataset(uri).get_fragments()]
