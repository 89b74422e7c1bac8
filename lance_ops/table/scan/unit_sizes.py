"""Unit sizes: the part of a scan that is read at once, and the number of concurrent reads."""

import os

from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.storage.prefetch import has_latency, requests_at_once
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.plan import ScanPlan, bytes_per_row
from lance_ops.table.scan.small_fragments import GROUPS_AT_ONCE
from lance_ops.table.snapshot import Snapshot

THREADS = min(4, os.cpu_count() or 1)
"""Default number of threads that read ahead."""

TABLE_UNIT_BYTES = 512 << 20
"""Size at which a fragment is split when the whole result is kept anyway: larger reads cost nothing then."""

_WORTH_A_THREAD = 1 << 20
# In memory, for a few columns of fragments that may have large other columns.
_LITTLE_OF_ONE_WIDTH = 256 << 10

# Below this size, rows are not split between threads: partial reads of pages cost more than complete ones,
# and slow page decoders use several threads themselves (measured). Fixed-width values count by their size in
# memory, others by their size in files.
_SHARE_OF_ONE_WIDTH = 8 << 20
_SHARE_OF_COPIED = 8 << 20
_SHARE_OF_COMPRESSED = 8 << 20
_FIRST_COMPRESSED = (2, 1)

# On a store with latency requests are concurrent, as long as their results take no more than this.
_REMOTE_BYTES = 128 << 20


def table_unit_bytes(snapshot: Snapshot, plan: ScanPlan, *, threads: int, batch_rows: int) -> int:
    """Return the bytes to read at a time for one table: as much as possible, with work for each thread.

    Args:
        snapshot: The version.
        plan: The reads.
        threads: Number of threads.
        batch_rows: Rows of a batch; units end with complete ones.
    """
    plans = plan.fragments
    shares = -(-threads // max(1, len(plans)))
    # Over a network, smaller units would cost additional requests at their boundaries.
    if shares == 1 or not plans or has_latency(snapshot.bases.root):
        return TABLE_UNIT_BYTES
    width = prepare_schema(plan.projection.schema).row_bytes
    if not any(_is_worth_sharing(one.fragment, width, shares) for one in plans):
        return TABLE_UNIT_BYTES
    row, rows = max((bytes_per_row(one.fragment, width), one.fragment.physical_rows) for one in plans)
    # One batch more, since units end with complete batches.
    return min(TABLE_UNIT_BYTES, row * (-(-rows // shares) + batch_rows))


def threads_for(snapshot: Snapshot, plan: ScanPlan, unit_bytes: int, *, threads: int, together: int) -> int:
    """Return how many units to read concurrently.

    Args:
        snapshot: The version.
        plan: The reads.
        unit_bytes: Size at which fragments are split.
        threads: Limit of the caller; exceeded only if threads wait for a store.
        together: How many fragments are read as one.
    """
    fragments = plan.fragments
    if not fragments:
        return 1
    size = sum(one.fragment.data_bytes for one in fragments)
    # Small local reads spend their time in Python, where threads only contend for the GIL (measured).
    unit = min(size * together // len(fragments), unit_bytes)
    if has_latency(snapshot.bases.root):
        if together > 1:
            return GROUPS_AT_ONCE
        return max(threads, min(requests_at_once(snapshot.bases.root), _REMOTE_BYTES // max(1, unit)))
    width = prepare_schema(plan.read_schema).row_bytes
    if width is not None:
        rows = sum(one.fragment.physical_rows for one in fragments)
        if width * rows * together // len(fragments) < _LITTLE_OF_ONE_WIDTH:
            return 1
    return 1 if unit < _WORTH_A_THREAD else threads


def _is_worth_sharing(fragment: Fragment, width: int | None, shares: int) -> bool:
    if width is not None:
        return width * fragment.physical_rows >= shares * _SHARE_OF_ONE_WIDTH
    compressed = any((file.major, file.minor) >= _FIRST_COMPRESSED for file in fragment.files)
    return fragment.data_bytes >= shares * (_SHARE_OF_COMPRESSED if compressed else _SHARE_OF_COPIED)
