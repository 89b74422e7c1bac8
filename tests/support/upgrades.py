"""Tables in the middle of a storage upgrade or with spilled row lineage, and operations of both sides."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lance_ops as lo
from lance_ops.maintenance.metadata.actions import drop_columns, restore
from tests.support.interop import rows

SPILL = {"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "16"}
ROW_VERSIONS = ("_row_created_at_version", "_row_last_updated_at_version")


def _halfway_by_append(uri: str) -> None:
    lance.write_dataset(rows(0, 60), uri, data_storage_version="2.0", max_rows_per_file=20)
    lance.write_dataset(rows(60, 90), uri, mode="append", data_storage_version="2.2")
    lance.write_dataset(rows(90, 100), uri, mode="append", data_storage_version="2.1")


def _halfway_by_compaction(uri: str) -> None:
    lance.write_dataset(rows(0, 100), uri, data_storage_version="2.0", max_rows_per_file=20)
    lance.dataset(uri).delete("x % 10 = 3")
    lance.dataset(uri).optimize.compact_files(
        data_storage_version="2.2", excluded_fragment_ids=[3, 4], target_rows_per_fragment=40
    )


def _halfway_with_columns(uri: str) -> None:
    """Single fragments have files of several versions."""
    lance.write_dataset(rows(0, 60), uri, data_storage_version="2.0", max_rows_per_file=20)
    lance.write_dataset(rows(60, 100), uri, mode="append", data_storage_version="2.2")
    lance.dataset(uri).add_columns({"y": "x + 1"})


def _halfway_by_us(uri: str) -> None:
    lo.write_dataset(rows(0, 60), uri, data_storage_version="2.0", max_rows_per_file=20)
    lo.append(uri, rows(60, 100), data_storage_version="2.2")


def _spilled(uri: str, version: str = "2.2") -> None:
    lance.write_dataset(
        rows(0, 90), uri, data_storage_version=version, max_rows_per_file=30, enable_stable_row_ids=True
    )
    lance.dataset(uri).update_config(SPILL)
    lance.dataset(uri).update({"s": "'updated'"}, where="x % 4 = 1")
    source = rows(80, 100)
    lance.dataset(uri).merge_insert("x").when_matched_update_all().when_not_matched_insert_all().execute(
        source
    )
    lance.dataset(uri).delete("x % 10 = 3")


def _spilled_and_compacted(uri: str) -> None:
    """Hidden columns lie in the files of the user columns."""
    _spilled(uri)
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).update({"s": "'again'"}, where="x % 5 = 2")


def _spilled_halfway(uri: str) -> None:
    _spilled(uri, "2.0")
    lance.write_dataset(rows(100, 120), uri, mode="append", data_storage_version="2.2")
    lance.dataset(uri).update({"s": "'again'"}, where="x % 5 = 2", data_storage_version="2.1")


STATES: dict[str, Callable[[str], None]] = {
    "append": _halfway_by_append,
    "compaction": _halfway_by_compaction,
    "columns": _halfway_with_columns,
    "ours": _halfway_by_us,
    "spilled": _spilled,
    "spilled compacted": _spilled_and_compacted,
    "spilled halfway": _spilled_halfway,
}
"""Makers of tables; what the flags say follows from the name."""


@dataclass(frozen=True)
class Operation:
    """One operation, as either side does it. Both give the same rows.

    Attributes:
        ours: With lance_ops.
        peers: With the peer.
        is_same_layout: The files of both have the same versions and rows.
    """

    ours: Callable[[str], Any]
    peers: Callable[[str], Any]
    is_same_layout: bool = True


def _peer(action: Callable[[Any], Any]) -> Callable[[str], Any]:
    return lambda uri: action(lance.dataset(uri))


OPERATIONS = {
    "append": Operation(
        lambda uri: lo.append(uri, more_rows(uri)),
        lambda uri: lance.write_dataset(more_rows(uri), uri, mode="append"),
    ),
    "append 2.1": Operation(
        lambda uri: lo.append(uri, more_rows(uri), data_storage_version="2.1"),
        lambda uri: lance.write_dataset(more_rows(uri), uri, mode="append", data_storage_version="2.1"),
    ),
    "delete": Operation(
        lambda uri: lo.delete(uri, "x % 3 = 1"), _peer(lambda dataset: dataset.delete("x % 3 = 1"))
    ),
    "delete fragments": Operation(
        lambda uri: lo.delete(uri, "x >= 40"), _peer(lambda dataset: dataset.delete("x >= 40"))
    ),
    "index": Operation(
        lambda uri: lo.create_index(uri, "x"),
        _peer(lambda dataset: dataset.create_scalar_index("x", "BTREE")),
    ),
    "compact": Operation(lo.compact, _peer(lambda dataset: dataset.optimize.compact_files())),
    "migrate": Operation(
        lambda uri: lo.compact(uri, data_storage_version="2.2"),
        _peer(lambda dataset: dataset.optimize.compact_files(data_storage_version="2.2")),
        is_same_layout=False,
    ),
    "config": Operation(
        lambda uri: lo.update_config(uri, {"a": "b"}),
        _peer(lambda dataset: dataset.update_config({"a": "b"})),
    ),
    "drop column": Operation(
        lambda uri: drop_columns(uri, ["f"]), _peer(lambda dataset: dataset.drop_columns(["f"]))
    ),
    "restore": Operation(lambda uri: restore(uri, 1), lambda uri: lance.dataset(uri, version=1).restore()),
    "overwrite": Operation(
        lambda uri: lo.write_dataset(rows(0, 10), uri, mode="overwrite"),
        lambda uri: lance.write_dataset(rows(0, 10), uri, mode="overwrite"),
    ),
    "tag": Operation(
        lambda uri: lo.create_tag(uri, "t"),
        _peer(lambda dataset: dataset.tags.create("t", dataset.version)),
    ),
    "cleanup": Operation(
        lambda uri: lo.cleanup(uri, older_than=timedelta(0), retain_versions=1),
        _peer(lambda dataset: dataset.cleanup_old_versions(timedelta(0), delete_unverified=False)),
    ),
}


def more_rows(uri: str) -> pa.Table:
    """Ten rows of the schema that the table has now."""
    table = rows(1000, 1010)
    if "y" in lance.dataset(uri).schema.names:
        table = table.append_column("y", pa.array(range(10), pa.int64()))
    return table


def flags(uri: str) -> tuple[int, int]:
    """Reader and writer flags of the newest version."""
    manifest = lo.dataset(uri).manifest
    return manifest.reader_flags, manifest.writer_flags


def layout(uri: str) -> Counter[tuple[str, int]]:
    """How many fragments have user columns of which versions, and how many live rows."""
    return Counter(
        (
            "+".join(
                sorted({file.storage_version for file in fragment.files if any(f >= 0 for f in file.fields)})
            ),
            fragment.num_rows,
        )
        for fragment in lo.dataset(uri).fragments
    )


def content(uri: str, *, by: str, row_ids: bool = True) -> list[dict[str, Any]]:
    """All rows with their ids and versions, in the order of x.

    Args:
        uri: The dataset.
        by: Who reads, "ours" or "peer".
        row_ids: Compare `_rowid` as well; without stable ones, they are places, which compaction changes.
    """
    open_ = lo.dataset if by == "ours" else lance.dataset
    dataset = open_(uri)
    columns = [*dataset.schema.names, *(("_rowid",) if row_ids else ()), *ROW_VERSIONS]
    table = dataset.to_table(columns=columns)
    return sorted(table.to_pylist(), key=lambda row: row["x"])


def copy(source: Path | str, target: Path | str) -> str:
    """A copy of a dataset that changes on its own."""
    shutil.copytree(source, target)
    return str(target)
