"""The cases: what maintenance of a table consists of."""

from functools import partial
from pathlib import Path
from types import ModuleType

import lance
import numpy as np
import pyarrow as pa

import lance_ops as lo
from benchmarks.pairing import Case

STORAGE_VERSION = "2.2"
BIG_ROWS = 4_000_000
WIDE_COLUMNS = 1_000


def rows(count: int, *, seed: int = 7) -> pa.Table:
    """Rows of about 40 bytes: a key, numbers, a short string of 10,000 values, and a category."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": pa.array(rng.permutation(count)),
            "amount": pa.array(rng.random(count)),
            "name": pa.array([f"customer {value:05d}" for value in rng.integers(0, 10_000, count)]),
            "kind": pa.array(rng.integers(0, 7, count), pa.int32()),
        }
    )


def write(path: Path, table: pa.Table, fragments: int = 1) -> None:
    """Write a table as so many fragments in one commit."""
    per_file = -(-table.num_rows // fragments)
    lance.write_dataset(table, str(path), data_storage_version=STORAGE_VERSION, max_rows_per_file=per_file)


def prepare_big(path: Path) -> None:
    """The big table in 40 fragments."""
    write(path, rows(BIG_ROWS), 40)


def prepare_deleted(path: Path) -> None:
    """The big table with a seventh of the rows deleted."""
    prepare_big(path)
    lance.dataset(str(path)).delete("kind = 3")


def prepare_indexed(path: Path) -> None:
    """The same with a BTREE on `id`, which knows the deleted rows."""
    prepare_big(path)
    dataset = lance.dataset(str(path))
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("kind = 3")


def prepare_many_versions(path: Path) -> None:
    """A table of 2,000 small appends, as a stream leaves it."""
    table = rows(100)
    lance.write_dataset(table, str(path), data_storage_version=STORAGE_VERSION)
    for _ in range(1_999):
        lance.write_dataset(table, str(path), mode="append", data_storage_version=STORAGE_VERSION)


def prepare_many_deletions(path: Path) -> None:
    """The same with some rows deleted of each fragment."""
    prepare_many_versions(path)
    lance.dataset(str(path)).delete("kind = 3")


def prepare_many_stable(path: Path) -> None:
    """A table of 2,000 small appends with stable row ids."""
    table = rows(100)
    for _ in range(2_000):
        lance.write_dataset(
            table,
            str(path),
            mode="append",
            data_storage_version=STORAGE_VERSION,
            enable_stable_row_ids=True,
        )


def prepare_small(path: Path) -> None:
    """One fragment of 100 rows."""
    write(path, rows(100))


def wide_row() -> pa.Table:
    """One row of 1,000 columns of integers."""
    return pa.table({f"column {number}": [number] for number in range(WIDE_COLUMNS)})


def prepare_wide(path: Path) -> None:
    """A table of 1,000 columns and two fragments of one row."""
    for _ in range(2):
        lance.write_dataset(wide_row(), str(path), mode="append", data_storage_version=STORAGE_VERSION)


def _scan_often(path: str, *, module: ModuleType, times: int) -> None:
    for _ in range(times):
        module.dataset(path).to_table()


def _nothing(path: Path) -> None:
    del path


def _append_small_ours(path: str, *, table: pa.Table, times: int, fsync: bool = True) -> None:
    for _ in range(times):
        lo.append(path, table, storage_options={"fsync": str(fsync).lower()})


def _append_small_peer(path: str, *, table: pa.Table, times: int) -> None:
    for _ in range(times):
        lance.write_dataset(table, path, mode="append")


def _cleanup_peer(path: str) -> None:
    lance.dataset(path).cleanup_old_versions(retain_versions=10)


def cases() -> list[Case]:
    """All cases, cheap ones first."""
    million = rows(1_000_000)
    small = rows(100)
    wide = wide_row()
    picked = np.random.default_rng(11).choice(BIG_ROWS, 1_000, replace=False)
    return [
        Case(
            "append",
            "append 1 M rows to a new dataset",
            _nothing,
            lambda path: lo.write_dataset(million, path, data_storage_version=STORAGE_VERSION),
            lambda path: lance.write_dataset(million, path, data_storage_version=STORAGE_VERSION),
        ),
        Case(
            "commits",
            "commit rate: 100 appends of 100 rows, one after the other",
            prepare_small,
            partial(_append_small_ours, table=small, times=100),
            partial(_append_small_peer, table=small, times=100),
        ),
        Case(
            "commits-unflushed",
            "the same, with neither side flushing to the disk",
            prepare_small,
            partial(_append_small_ours, table=small, times=100, fsync=False),
            partial(_append_small_peer, table=small, times=100),
        ),
        Case(
            "append-wide",
            "10 appends of one row of 1,000 columns, one after the other",
            prepare_wide,
            partial(_append_small_ours, table=wide, times=10),
            partial(_append_small_peer, table=wide, times=10),
        ),
        Case(
            "scan-wide",
            "open and scan two fragments of one row of 1,000 columns, 10 times",
            prepare_wide,
            partial(_scan_often, module=lo, times=10),
            partial(_scan_often, module=lance, times=10),
            reads_only=True,
        ),
        Case(
            "scan",
            "scan 4 M rows, all columns, into one table",
            prepare_big,
            lambda path: lo.dataset(path).to_table(),
            lambda path: lance.dataset(path).to_table(),
            reads_only=True,
        ),
        Case(
            "filter",
            "scan 4 M rows with a filter that keeps 1 in 700",
            prepare_big,
            lambda path: lo.dataset(path).to_table(
                columns=["id", "name"], filter="kind = 3 AND amount < 0.01"
            ),
            lambda path: lance.dataset(path).to_table(
                columns=["id", "name"], filter="kind = 3 AND amount < 0.01"
            ),
            reads_only=True,
        ),
        Case(
            "delete",
            "delete a tenth of 4 M rows by predicate",
            prepare_big,
            lambda path: lo.delete(path, "amount < 0.1"),
            lambda path: lance.dataset(path).delete("amount < 0.1"),
        ),
        Case(
            "compact",
            "compact 40 fragments of 4 M rows, a seventh deleted, into 4",
            prepare_deleted,
            lambda path: lo.compact(path),
            lambda path: lance.dataset(path).optimize.compact_files(),
        ),
        Case(
            "compact-small",
            "compact 2,000 fragments of 100 rows into 1",
            prepare_many_versions,
            lambda path: lo.compact(path),
            lambda path: lance.dataset(path).optimize.compact_files(),
        ),
        Case(
            "compact-index",
            "compact 40 fragments of 4 M rows, a seventh deleted, with a BTREE that keeps its coverage",
            prepare_indexed,
            lambda path: lo.compact(path),
            lambda path: lance.dataset(path).optimize.compact_files(),
        ),
        Case(
            "open-small",
            "open a dataset of 2,000 fragments and count its rows",
            prepare_many_versions,
            lambda path: lo.dataset(path).count_rows(),
            lambda path: lance.dataset(path).count_rows(),
            reads_only=True,
        ),
        Case(
            "scan-small",
            "scan 2,000 fragments of 100 rows into one table",
            prepare_many_versions,
            lambda path: lo.dataset(path).to_table(),
            lambda path: lance.dataset(path).to_table(),
            reads_only=True,
        ),
        Case(
            "scan-small-deleted",
            "the same, a seventh of the rows deleted, each fragment with a deletion file",
            prepare_many_deletions,
            lambda path: lo.dataset(path).to_table(),
            lambda path: lance.dataset(path).to_table(),
            reads_only=True,
        ),
        Case(
            "scan-small-row-ids",
            "scan 2,000 fragments of 100 rows with stable row ids into one table, with row ids",
            prepare_many_stable,
            lambda path: lo.dataset(path).to_table(with_row_id=True),
            lambda path: lance.dataset(path).to_table(with_row_id=True),
            reads_only=True,
        ),
        Case(
            "take",
            "take 1,000 random rows of 4 M",
            prepare_big,
            lambda path: lo.dataset(path).take(picked),
            lambda path: lance.dataset(path).take(picked),
            reads_only=True,
        ),
        Case(
            "index",
            "build a BTREE on 4 M integers",
            prepare_big,
            lambda path: lo.create_index(path, "id"),
            lambda path: lance.dataset(path).create_scalar_index("id", "BTREE"),
        ),
        Case(
            "index-strings",
            "build a BTREE on 4 M short strings",
            prepare_big,
            lambda path: lo.create_index(path, "name"),
            lambda path: lance.dataset(path).create_scalar_index("name", "BTREE"),
        ),
        Case(
            "versions",
            "list 2,000 versions",
            prepare_many_versions,
            lambda path: lo.dataset(path).versions(),
            lambda path: lance.dataset(path).versions(),
            reads_only=True,
        ),
        Case(
            "cleanup",
            "clean up 2,000 versions, keep 10",
            prepare_many_versions,
            lambda path: lo.cleanup(path, retain_versions=10),
            _cleanup_peer,
        ),
    ]
