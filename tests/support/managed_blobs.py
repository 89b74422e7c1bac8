"""Tables with managed blobs (feature flag 16384), which pylance 14 reads and does not write."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import lance
import pyarrow as pa

import lance_ops as lo
from lance_ops.file.v2_1.blob import write_v2
from tests.support.wire import edit_manifest

FLAG = 16384
SIZE = 100_000


def blobs(start: int, count: int) -> pa.Table:
    """Rows with blobs in side files; number 2 has none."""
    schema = pa.schema([pa.field("i", pa.int64()), lance.blob_field("b")])
    values = [None if number == 2 else bytes([number]) * SIZE for number in range(start, start + count)]
    return pa.table({"i": range(start, start + count), "b": lance.blob_array(values)}, schema=schema)


def set_flag(uri: Path) -> None:
    """Set the flag in the newest manifest."""

    def change(manifest: Any) -> None:
        manifest.reader_feature_flags |= FLAG
        manifest.writer_feature_flags |= FLAG

    edit_manifest(uri, change)


def bind(uri: Path, base_id: int, base: Path, *, is_root: bool = True) -> None:
    """Declare a base in the newest manifest."""

    def change(manifest: Any) -> None:
        if base_id not in {item.id for item in manifest.base_paths}:
            manifest.base_paths.add(id=base_id, path=str(base), is_dataset_root=is_root)
        manifest.reader_feature_flags |= 16
        manifest.writer_feature_flags |= 16

    edit_manifest(uri, change)


def write_managed(
    uri: Path, table: pa.Table, name: str, *, base: Path | None = None, base_id: int = 1, is_root: bool = True
) -> None:
    """Append rows, or begin a table with them, whose blobs lie in one object for each column of blobs.

    Args:
        uri: The table.
        table: One fragment of rows, see `blobs`.
        name: Of the object, e.g. "_blobs/a.blob"; of the second column "_blobs/a.blob.2.blob", and so on.
        base: Where its base lies; the table when None.
        base_id: Of the base.
        is_root: Whether the base is declared as the root of a dataset.
    """
    write = write_v2.BlobV2Writer.write
    base = base or uri

    def named(number: int | None) -> str:
        return f"{name}.{number}.blob" if number and number > 1 else name

    def rewritten(self: Any, array: pa.Array) -> pa.Array:
        found = write(self, array)
        columns = [
            pa.array([4] * len(found), pa.uint8()),
            found.field(1),
            found.field(2),
            pa.array([base_id] * len(found), pa.uint32()),
            pa.array([named(number) for number in found.field(3).to_pylist()]),
        ]
        return pa.StructArray.from_arrays(columns, fields=list(found.type), mask=found.is_null())

    before = set((uri / "data").rglob("*.blob")) if uri.exists() else set()
    mode = "append" if uri.exists() else "create"
    with patch.object(write_v2.BlobV2Writer, "write", rewritten):
        lo.write_dataset(table, uri, mode=mode, data_storage_version="2.2")
    (base / name).parent.mkdir(parents=True, exist_ok=True)
    for side in set((uri / "data").rglob("*.blob")) - before:
        side.rename(base / named(int(side.stem[::-1], 2)))
    set_flag(uri)
    bind(uri, base_id, base, is_root=is_root)
