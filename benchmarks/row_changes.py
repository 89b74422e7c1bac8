"""The cases of changed rows and columns: update, upsert by a key, column by SQL, cast, change feed."""

from functools import partial
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import lance_ops as lo
from benchmarks.pairing import Case

ROWS = 2_000_000
FRAGMENTS = 10
MERGED = 100_000


def rows(count: int, *, seed: int = 1) -> pa.Table:
    """Rows of six columns: a key that counts, numbers, texts of 100,000 values, a category, a time."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": pa.array(np.arange(count)),
            "x": pa.array(rng.integers(0, 1000, count), pa.int32()),
            "f": pa.array(rng.random(count)),
            "s": pa.array(np.char.add("name-", rng.integers(0, 100_000, count).astype(str))),
            "c": pa.array(np.array(["red", "green", "blue", "grey"])[rng.integers(0, 4, count)]),
            "t": pa.array(rng.integers(0, 10**15, count), pa.timestamp("us")),
        }
    )


def changes() -> pa.Table:
    """Rows of which half have a key that is there, in no order."""
    rng = np.random.default_rng(3)
    half = MERGED // 2
    keys = np.concatenate([rng.choice(ROWS, half, replace=False), np.arange(ROWS, ROWS + MERGED - half)])
    return rows(MERGED, seed=5).set_column(0, "id", pa.array(rng.permutation(keys)))


def prepare(path: Path, *, stable: bool = False, indexed: bool = False) -> None:
    """The table, as the peer writes it."""
    per_file = ROWS // FRAGMENTS
    table = rows(ROWS)
    lance.write_dataset(table, str(path), max_rows_per_file=per_file, enable_stable_row_ids=stable)
    if indexed:
        lance.dataset(str(path)).create_scalar_index("id", "BTREE")


def _merge_ours(path: str, *, data: pa.Table) -> None:
    lo.merge_insert(path, data, "id", when_matched="update_all", when_not_matched="insert_all")


def _merge_peer(path: str, *, data: pa.Table) -> None:
    merge = lance.dataset(path).merge_insert("id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute(data)


def _update_ours(path: str) -> None:
    lo.update(path, {"x": "x + 1"}, "id % 10 = 3")


def _update_peer(path: str) -> None:
    lance.dataset(path).update({"x": "x + 1"}, "id % 10 = 3")


def prepare_changed(path: Path) -> None:
    """The table with stable row ids, a tenth of it updated."""
    prepare(path, stable=True)
    _update_peer(str(path))


def _add_ours(path: str) -> None:
    lo.add_columns(path, {"y": "x * 2 + 1"})


def _add_peer(path: str) -> None:
    lance.dataset(path).add_columns({"y": "x * 2 + 1"})


def _cast_ours(path: str) -> None:
    lo.alter_columns(path, {"path": "x", "data_type": pa.int64()})


def _cast_peer(path: str) -> None:
    lance.dataset(path).alter_columns({"path": "x", "data_type": pa.int64()})


def _feed_ours(path: str) -> None:
    # The peer has neither deleted rows nor old values.
    found = sum(batch.num_rows for batch in lo.dataset(path).changes(since=1))
    assert found == 2 * ROWS // 10


def _feed_ours_new(path: str) -> None:
    # What the peer tells: rows as they are now.
    feed = lo.dataset(path).changes(since=1, change_types=["insert", "update_postimage"])
    assert sum(batch.num_rows for batch in feed) == ROWS // 10


def _feed_peer(path: str) -> None:
    delta = lance.dataset(path).delta(compared_against=1)
    found = sum(
        batch.num_rows for rows in (delta.get_inserted_rows(), delta.get_updated_rows()) for batch in rows
    )
    assert found == ROWS // 10


def cases() -> list[Case]:
    """All cases."""
    data = changes()
    merge_ours, merge_peer = partial(_merge_ours, data=data), partial(_merge_peer, data=data)
    stable, indexed = partial(prepare, stable=True), partial(prepare, indexed=True)
    of, merged = "2 M rows of 6 columns in 10 fragments", "upsert 100,000 rows, half of them new, into"
    return [
        Case("update", f"update a tenth of {of}", prepare, _update_ours, _update_peer),
        Case(
            "update-stable",
            "update a tenth of the same with stable row ids",
            stable,
            _update_ours,
            _update_peer,
        ),
        Case("merge", f"{merged} {of}", prepare, merge_ours, merge_peer),
        Case("merge-index", f"{merged} the same with a BTREE on the key", indexed, merge_ours, merge_peer),
        Case("add-column", f"add a column by SQL to {of}", prepare, _add_ours, _add_peer),
        Case("cast", f"cast a column of {of} to int64", prepare, _cast_ours, _cast_peer),
        Case(
            "changes",
            "change feed of a tenth of the same, updated (pylance: without the old values)",
            prepare_changed,
            _feed_ours,
            _feed_peer,
            reads_only=True,
        ),
        Case(
            "changes-new",
            "the same change feed, with the new values alone on both sides",
            prepare_changed,
            _feed_ours_new,
            _feed_peer,
            reads_only=True,
        ),
        Case("merge-stable", f"{merged} the same with stable row ids", stable, merge_ours, merge_peer),
    ]
