"""Fsck of MemWAL: every row that log writers hold for the table can be read."""

from collections.abc import Iterator

from lance_ops.errors import FormatError, NotFoundError
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.table.dataset import Dataset
from lance_ops.table.mem_wal.state import read_state

CHECK = "mem_wal_readable"


def check_mem_wal(dataset: Dataset) -> Iterator[Finding]:
    """Check that the shards of MemWAL are complete: manifests, generations and log entries."""
    state = read_state(dataset)
    if state is None:
        return
    for item in state.shards:
        for generation in item.generations:
            try:
                Dataset.open(dataset.store.child(generation.path), storage_options=dataset.storage_options)
            except (FormatError, NotFoundError) as error:
                message = f"generation {generation.number} of shard {item.shard.id}: {error.message}"
                yield Finding(CHECK, Severity.ERROR, message, generation.path)
    state.count()
