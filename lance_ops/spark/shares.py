"""Shares of a scan: ranges of rows of similar size, one for each partition.

A small fragment is read whole, with its neighbours; a large one is divided by rows, so that one fragment
keeps as many cores busy as many do.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_ops.spark.convert import to_spark
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.scan.plan import FragmentPlan, ScanPlan
from lance_ops.table.scan.run import BATCH_ROWS, Scan
from lance_ops.table.side_sizes import blob_field_ids, with_side_sizes
from lance_ops.table.snapshot import Snapshot

SLOTS_VARIABLE = "LANCE_OPS_SPARK_SLOTS"
"""Environment variable of planning workers: number of concurrent tasks; `build_session` sets it."""

_LEAST_BYTES, _MOST_BYTES = 4 << 20, 64 << 20
_UNKNOWN_SLOTS = 16

# Smaller pieces are not worth opening a file again.
_LEAST_PIECE = 64 << 10

# A task costs Spark some hundredths of a second of two cores, whatever it reads: if a slot has little work,
# half of that is the tasks, and a second share for each slot balances nothing.
_SHARES_PER_SLOT = 2
_LITTLE_BYTES = 16 << 20

# One field of five hundred may be a vector with nearly all bytes: this limits the growth of a share.
_LEAST_PART = 1 / 8

# Rows of a batch, by their size in files.
_BATCH_BYTES, _LEAST_ROWS = 16 << 20, 1024

_SCAN_THREADS = 2


@dataclass(frozen=True, slots=True)
class Share:
    """Share of one partition.

    Attributes:
        plan: Plan for some rows.
        batch_rows: Maximum rows of a batch.
    """

    plan: ScanPlan
    batch_rows: int

    def read(self, snapshot: Snapshot, target: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield its rows, on an executor.

        Args:
            snapshot: The version.
            target: Schema for Spark, from `arrow_schema`.
        """
        for batch in self._scan(snapshot).to_batches():
            yield to_spark(batch, target)

    def count(self, snapshot: Snapshot) -> int:
        """Return the number of rows."""
        return self._scan(snapshot).count_rows()

    def _scan(self, snapshot: Snapshot) -> Scan:
        return Scan(snapshot, self.plan, batch_rows=self.batch_rows, threads=_SCAN_THREADS)


def with_blob_sizes(plan: ScanPlan, bases: Bases) -> ScanPlan:
    """Return a plan with the sizes of blobs outside of data files, if it reads blobs.

    Args:
        plan: Plan of a scan.
        bases: Roots of the files of the dataset; folders of data files are listed.
    """
    fragments = [part.fragment for part in plan.fragments]
    sized = with_side_sizes(bases, plan.read_schema, fragments)
    if sized is fragments:
        return plan
    parts = zip(plan.fragments, sized, strict=True)
    return replace(plan, fragments=tuple(replace(part, fragment=fragment) for part, fragment in parts))


def cut_scan(plan: ScanPlan, *, slots: int | None = None, share_bytes: int | None = None) -> list[Share]:
    """Divide a scan into shares, in the order of the rows.

    Args:
        plan: The whole scan, with the sizes of its blobs.
        slots: Number of concurrent tasks; from the environment if None.
        share_bytes: Target size of the data files of a share; None for `default_share_bytes`.
    """
    if share_bytes is None:
        share_bytes = default_share_bytes(plan, slots or _slots_here())
    groups = group_fragments(cut_fragments(plan.fragments, share_bytes), share_bytes)
    return [Share(replace(plan, fragments=group), _batch_rows(group)) for group in groups]


def default_share_bytes(plan: ScanPlan, slots: int) -> int:
    """Return the target size of a share: two shares a slot, one if each slot reads little, within limits.

    At least 4 MiB of files, and at most about 64 MiB of the columns that are read.
    """
    total = sum(bytes_to_read(fragment) for fragment in plan.fragments)
    part = _part_read(plan)
    each = -(-total // slots)
    if each * part > _LITTLE_BYTES:
        each = -(-total // (slots * _SHARES_PER_SLOT))
    return max(_LEAST_BYTES, min(int(_MOST_BYTES / part), each))


def _part_read(plan: ScanPlan) -> float:
    """Estimate the share of file bytes that a scan reads, 1/8 to 1, by the number of fields.

    Blobs, which are counted if they are read, are nearly all of a file.
    """
    if blob_field_ids(plan.read_schema):
        return 1.0
    read = {field.id for field in plan.read_schema.walk()}
    stored = [number for part in plan.fragments[:1] for file in part.fragment.files for number in file.fields]
    return max(_LEAST_PART, sum(number in read for number in stored) / max(1, len(stored)))


def cut_fragments(fragments: Sequence[FragmentPlan], share_bytes: int) -> list[FragmentPlan]:
    """Divide fragments larger than a share and a half by rows, into pieces of whole batches.

    Fragments of which a limit selects some rows stay whole: these are few.
    """
    pieces: list[FragmentPlan] = []
    share_bytes = max(_LEAST_PIECE, share_bytes)
    for plan in fragments:
        count = (2 * bytes_to_read(plan) + share_bytes) // (2 * share_bytes)
        if count < 2 or plan.skip or plan.take is not None:
            pieces.append(plan)
        elif plan.candidates is not None:
            step = -(-len(plan.candidates) // count)
            starts = range(0, len(plan.candidates), step)
            pieces += [replace(plan, candidates=plan.candidates[at : at + step]) for at in starts]
        else:
            rows = plan.fragment.physical_rows
            step = -(-rows // count)
            # A divided batch costs both sides; if rows are large, a batch is no measure.
            if step > 2 * BATCH_ROWS:
                step += -step % BATCH_ROWS
            pieces += [replace(plan, span=(at, min(at + step, rows))) for at in range(0, rows, step)]
    return pieces


def group_fragments(fragments: Sequence[FragmentPlan], share_bytes: int) -> list[tuple[FragmentPlan, ...]]:
    """Group fragments, or pieces of them, in order, into groups of about the size of a share."""
    groups: list[tuple[FragmentPlan, ...]] = []
    group: list[FragmentPlan] = []
    size = 0
    for plan in fragments:
        more = bytes_to_read(plan)
        # Half of the next piece may exceed the size: pieces are seldom exactly of one size.
        if group and size + more // 2 > share_bytes:
            groups.append(tuple(group))
            group, size = [], 0
        group.append(plan)
        size += more
    return [*groups, tuple(group)] if group else groups


def bytes_to_read(plan: FragmentPlan) -> int:
    """Return the size of the data files to read for a fragment, or a piece of it."""
    rows = max(1, plan.fragment.physical_rows)
    # Old manifests do not record sizes.
    whole = max(plan.fragment.data_bytes, rows)
    if plan.candidates is not None:
        return whole * len(plan.candidates) // rows
    if plan.span is not None:
        return whole * (plan.span[1] - plan.span[0]) // rows
    return whole if plan.take is None else whole * plan.take // rows


def _batch_rows(group: Sequence[FragmentPlan]) -> int:
    """Return the rows of about 16 MiB of data files; at least one, where blobs beside them are counted."""
    fragments = {plan.fragment.id: plan.fragment for plan in group}.values()
    rows = sum(fragment.physical_rows for fragment in fragments)
    size = sum(fragment.data_bytes for fragment in fragments)
    has_blobs = any(file.side_bytes for fragment in fragments for file in fragment.all_files)
    least = 1 if has_blobs else _LEAST_ROWS
    return max(least, min(BATCH_ROWS, _BATCH_BYTES * rows // size)) if size else BATCH_ROWS


def _slots_here() -> int:
    text = os.environ.get(SLOTS_VARIABLE, "")
    return int(text) if text.isdigit() and int(text) else _UNKNOWN_SLOTS
