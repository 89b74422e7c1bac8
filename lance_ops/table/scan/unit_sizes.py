"""Sizes of units: how much of a scan is read in one go, and how many of them side by side."""

import os

from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.storage.prefetch import has_latency, requests_at_once
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.plan import ScanPlan, bytes_per_row
from lance_ops.table.scan.small_fragments import GROUPS_AT_ONCE
from lance_ops.table.snapshot import Snapshot

THREADS = min(4, os.cpu_count() or 1)
"""Threads that read ahead, unless the caller says otherwise."""

TABLE_UNIT_BYTES = 512 << 20
"""Size at which a fragment is cut when the whole result is kept anyway: larger reads cost nothing then."""

_WORTH_A_THREAD = 1 << 20
# In memory, of a few columns of fragments that may have large ones beside them.
_LITTLE_OF_ONE_WIDTH = 256 << 10

# Below, rows are not cut between threads: pages that are read in part cost more than whole ones, and what
# takes long in a page is shared by who decodes it (measured). Values of one width count by what they take
# in memory, others by what they take in files.
_SHARE_OF_ONE_WIDTH = 8 << 20
_SHARE_OF_COPIED = 8 << 20
_SHARE_OF_COMPRESSED = 8 << 20
_FIRST_COMPRESSED = (2, 1)

# On a store with latency requests are made side by side, as long as what they bring takes no more than this.
_REMOTE_BYTES = 128 << 20


def table_unit_bytes(snapshot: Snapshot, plan: ScanPlan, *, threads: int, batch_rows: int) -> int:
    """Bytes to read at a time for one table: as much as possible, but something for each thread.

    Args:
        snapshot: The version.
        plan: What is read.
        threads: How many there are.
        batch_rows: Rows of a batch; units end with whole ones.
    """
    plans = plan.fragments
    shares = -(-threads // max(1, len(plans)))
    # Behind a network, a share would cost requests of its own for what lies around its ends.
    if shares == 1 or not plans or has_latency(snapshot.bases.root):
        return TABLE_UNIT_BYTES
    width = prepare_schema(plan.projection.schema).row_bytes
    if not any(_is_worth_sharing(one.fragment, width, shares) for one in plans):
        return TABLE_UNIT_BYTES
    row, rows = max((bytes_per_row(one.fragment, width), one.fragment.physical_rows) for one in plans)
    # One batch more, since units end with whole batches.
    return min(TABLE_UNIT_BYTES, row * (-(-rows // shares) + batch_rows))


def threads_for(
    snapshot: Snapshot, plan: ScanPlan, unit_bytes: int, *, threads: int, reads_groups: bool
) -> int:
    """How many units to read side by side.

    Args:
        snapshot: The version.
        plan: What is read.
        unit_bytes: At which fragments are cut.
        threads: What the caller allows for; more only where threads wait for a store.
        reads_groups: Some fragments are read as one.
    """
    fragments = plan.fragments
    if not fragments:
        return 1
    size = sum(one.fragment.data_bytes for one in fragments)
    # Small local reads are spent in Python, where threads only get into each other's way (measured).
    unit = min(size // len(fragments), unit_bytes)
    if has_latency(snapshot.bases.root):
        if reads_groups:
            return GROUPS_AT_ONCE
        return max(threads, min(requests_at_once(snapshot.bases.root), _REMOTE_BYTES // max(1, unit)))
    width = prepare_schema(plan.read_schema).row_bytes
    if width is not None:
        rows = sum(one.fragment.physical_rows for one in fragments)
        if width * rows // len(fragments) < _LITTLE_OF_ONE_WIDTH:
            return 1
    return 1 if unit < _WORTH_A_THREAD else threads


def _is_worth_sharing(fragment: Fragment, width: int | None, shares: int) -> bool:
    if width is not None:
        return width * fragment.physical_rows >= shares * _SHARE_OF_ONE_WIDTH
    compressed = any((file.major, file.minor) >= _FIRST_COMPRESSED for file in fragment.files)
    return fragment.data_bytes >= shares * (_SHARE_OF_COMPRESSED if compressed else _SHARE_OF_COPIED)
