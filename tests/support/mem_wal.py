"""Tables with MemWAL that pylance writes, and pylance's own reading of them."""

import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.mem_wal import LsmScanner, ShardSnapshot

import lance_ops as lo
from lance_ops.storage import open_store
from lance_ops.table.mem_wal.shards import Shard, list_shards
from lance_ops.table.transaction.apply_mem_wal import merged_generations

PRIMARY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), False, metadata=PRIMARY),
        pa.field("v", pa.int64()),
        pa.field("s", pa.string()),
    ]
)
Rows = Mapping[int, int]
"""Value of `v` by `id`."""


def table(rows: Rows, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows in the columns of a schema; `s` follows from `v`."""
    columns = {"id": list(rows), "v": list(rows.values()), "s": [f"s{value}" for value in rows.values()]}
    return pa.table(
        [pa.array(columns.get(field.name, [None] * len(rows)), field.type) for field in schema], schema=schema
    )


def keys(ids: Iterable[int]) -> pa.Table:
    """Keys to delete."""
    return pa.table({"id": pa.array(list(ids), pa.int64())})


def create(uri: Path, rows: Rows, **options: Any) -> None:
    """Make a table with MemWAL."""
    lance.write_dataset(table(rows), str(uri), **options)
    lance.dataset(str(uri)).initialize_mem_wal(unsharded=True)


def writer(uri: Path, shard: str, rows: int = 8) -> Any:
    """Open pylance's writer of a shard, on the newest version."""
    return lance.dataset(str(uri)).mem_wal_writer(shard, max_memtable_rows=rows, max_wal_flush_interval_ms=1)


def new_shard() -> str:
    """Id of a new shard."""
    return str(uuid.uuid4())


def shards(uri: Path) -> list[Shard]:
    """Manifests of the shards."""
    return list_shards(open_store(str(uri)))


def as_rows(found: pa.Table) -> dict[int, Any]:
    """`v` by `id`; fails if a key is there twice."""
    ids = found.column("id").to_pylist()
    assert len(ids) == len(set(ids)), f"a key is there twice: {sorted(ids)}"
    return dict(zip(ids, found.column("v").to_pylist(), strict=True))


def read_all(uri: Path) -> dict[int, Any]:
    """What lance_ops reads of the table and MemWAL."""
    return as_rows(lo.dataset(str(uri)).to_table(mem_wal=True))


def has_key_indices(uri: Path) -> bool:
    """Return whether pylance wrote the key index of each generation.

    It lists a generation before it writes this file, and closing a writer does not wait for it. Without the
    file its scanner fails, or returns rows that later generations supersede.
    """
    wanted = [uri / item.path for shard in shards(uri) for item in shard.generations]
    deadline = time.monotonic() + 2
    while not all((path / "_pk_index" / "page_lookup.lance").exists() for path in wanted):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def peer_agrees(uri: Path, rows: Rows) -> bool:
    """Return whether pylance reads these rows of the table and its generations, if it can read them."""
    return not has_key_indices(uri) or as_rows(peer_read(uri)) == rows


def peer_read(uri: Path) -> pa.Table:
    """What pylance reads of the table and of the generations that are not merged."""
    merged = merged_generations(lo.dataset(str(uri)).snapshot().manifest.indices)
    snapshots = []
    for shard in shards(uri):
        snapshot = ShardSnapshot(str(shard.id)).with_current_generation(shard.next_generation)
        for item in shard.generations:
            if item.number > merged.get(shard.id, 0):
                snapshot = snapshot.with_sstable(item.number, item.path.rsplit("/", 1)[-1])
        snapshots.append(snapshot)
    return LsmScanner.from_snapshots(lance.dataset(str(uri)), snapshots).to_table()


def settle(opened: Any) -> None:
    """Wait until pylance's writer has flushed what is full: until then its own scanner misses rows."""
    deadline = time.monotonic() + 20
    while opened.memtable_stats()["frozen_count"]:
        assert time.monotonic() < deadline, opened.memtable_stats()
        time.sleep(0.005)
