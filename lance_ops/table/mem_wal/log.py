"""Log entries: rows that a writer has stored durably and not yet flushed to a generation.

Each entry is an Arrow stream with the epoch of its writer in the metadata of the schema. An entry without
rows fences earlier writers. Source: MemWAL specification, "WAL Entry Format".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_ops.errors import CorruptFileError, FileMissingError
from lance_ops.storage import Store
from lance_ops.table.mem_wal.shards import Shard, number_in, read_shard

FIELD_ID = b"lance:field_id"
"""Metadata of a column of an entry: the id of its field."""

_NAME = re.compile(r"([01]{64})\.arrow")
_EPOCH = b"writer_epoch"
_FENCE = b"fence_sentinel"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry.

    Attributes:
        position: Position in the log, from 1.
        path: File, relative to the root of the table.
        size: Bytes of the file.
    """

    position: int
    path: str
    size: int


def entries_to_replay(store: Store, shard: Shard) -> tuple[LogEntry, ...]:
    """List the entries that no generation covers, in order.

    Raises:
        FileMissingError: An entry before the last one is missing.
    """
    found = []
    for item in store.list(f"{shard.folder}/wal"):
        position = number_in(_NAME, item.path.rsplit("/", 1)[-1])
        if position is not None and position > shard.replayed:
            found.append(LogEntry(position, item.path, item.size))
    found.sort(key=lambda entry: entry.position)
    for expected, entry in enumerate(found, shard.replayed + 1):
        if entry.position != expected:
            raise FileMissingError(
                f"log entry {expected} of shard {shard.id} is missing, but not entry {found[-1].position}",
                path=f"{store.uri}/{shard.folder}/wal",
                field="position",
                hint="restore the file from a copy of the table: its rows are nowhere else",
            )
    return tuple(found)


def read_entries(store: Store, shard: Shard, entries: Sequence[LogEntry]) -> list[pa.Table]:
    """Read the rows of entries, one table for each; no rows and no columns for a fence.

    Raises:
        CorruptFileError: An entry is cut off or damaged, or its epoch is missing or newer than that of the
            shard.
    """
    epoch = shard.writer_epoch
    tables = []
    for entry in entries:
        table = _read(store, entry)
        found = _epoch_of(store, entry, table)
        if found > epoch:
            # The shard may have been claimed since its manifest was read.
            newest = read_shard(store, shard.id)
            epoch = epoch if newest is None else newest.writer_epoch
        if found > epoch:
            raise CorruptFileError(
                f"the log entry has writer epoch {found}, but the shard has only reached epoch {epoch}",
                path=f"{store.uri}/{entry.path}",
                field="writer_epoch",
                hint="a manifest of the shard was lost, or the entry belongs to another shard",
            )
        tables.append(table)
    return tables


def _read(store: Store, entry: LogEntry) -> pa.Table:
    path = f"{store.uri}/{entry.path}"
    data = store.read(entry.path)
    try:
        with pa.ipc.open_stream(data) as stream:
            table = stream.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(
            f"the log entry of {data.size} bytes cannot be read: {error}",
            path=path,
            hint="restore the file from a copy of the table; if its writer got no confirmation of these "
            "rows, remove it",
        ) from error
    # A stream that ends after a whole batch reads without an error: the end marker tells the difference.
    if data.slice(max(0, data.size - 8)).to_pybytes() not in _ENDS:
        raise CorruptFileError(
            f"the log entry of {data.size} bytes ends without the end of the stream",
            path=path,
            hint="restore the file from a copy of the table",
        )
    metadata = table.schema.metadata or {}
    return table if _FENCE not in metadata else pa.table({}).replace_schema_metadata(metadata)


_ENDS = (b"\xff\xff\xff\xff\x00\x00\x00\x00",)


def _epoch_of(store: Store, entry: LogEntry, table: pa.Table) -> int:
    text = (table.schema.metadata or {}).get(_EPOCH, b"")
    if not text.isdigit():
        raise CorruptFileError(
            f"the log entry has no writer epoch, but {text!r}",
            path=f"{store.uri}/{entry.path}",
            field="writer_epoch",
        )
    return int(text)
