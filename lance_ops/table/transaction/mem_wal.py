"""MemWAL index: details of a table into which log writers merge generations of rows.

An entry of `index_catchup` records the generation up to which an index has the rows. Readers and garbage
collectors rely on it, so an entry must not outlive a change of its index; a missing one means not caught up.
Source: transaction specification, MemWAL; pylance derives the entries again with each commit.
"""

from collections.abc import Sequence
from dataclasses import replace

from google.protobuf.message import DecodeError

from lance_ops.pb import mem_wal_pb2
from lance_ops.table.manifest.index_metadata import IndexMetadata

MEM_WAL_INDEX = "__lance_mem_wal"


def drop_stale_catchup(
    before: Sequence[IndexMetadata], after: tuple[IndexMetadata, ...]
) -> tuple[IndexMetadata, ...]:
    """Remove catch-up progress of indices that a commit dropped, rebuilt, extended, remapped or renamed.

    Args:
        before: Segments of the head.
        after: Segments of the next version.

    Returns:
        The segments; the same object when nothing was removed. Details that differ from those of the head,
        such as those of a restored version, stay as they are.
    """
    place = next((number for number, index in enumerate(after) if index.name == MEM_WAL_INDEX), None)
    if place is None or after[place] not in before:
        return after
    try:
        details = mem_wal_pb2.MemWalIndexDetails.FromString(after[place].details or b"")
    except DecodeError:
        # Details of an unknown form are preserved, architecture, invariant 7.
        return after
    kept = [entry for entry in details.index_catchup if _is_unchanged(entry.index_name, before, after)]
    if len(kept) == len(details.index_catchup):
        return after
    del details.index_catchup[:]
    details.index_catchup.extend(kept)
    changed = replace(after[place], details=details.SerializeToString())
    return (*after[:place], changed, *after[place + 1 :])


def _is_unchanged(name: str, before: Sequence[IndexMetadata], after: Sequence[IndexMetadata]) -> bool:
    old = [index for index in before if index.name == name]
    return bool(old) and old == [index for index in after if index.name == name]
