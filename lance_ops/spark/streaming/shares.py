"""Shares of an epoch: the rows of one partition of a stream, read by an executor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.file.schema.field_path import format_field_path
from lance_ops.file.schema.model import Schema
from lance_ops.spark.streaming.columns import CHANGE_FIELDS, Sources, spark_batch
from lance_ops.spark.types import arrow_type
from lance_ops.table.changes import UPDATE_AFTER, UPDATE_BEFORE
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import fragments_of
from lance_ops.table.scan.plan import FragmentPlan, ScanPlan
from lance_ops.table.scan.projection import Projection, build_take_projection
from lance_ops.table.scan.run import BATCH_ROWS, Scan
from lance_ops.table.scan.take import RowKey, take_rows
from lance_ops.table.snapshot import Snapshot

_THREADS = 2
_TAKE_ROWS = 16 << 10

Addresses = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Commit:
    """The commit of rows.

    Attributes:
        version: Its version.
        moment: Time of the commit; UTC.
    """

    version: int
    moment: datetime

    def columns(self, kind: str) -> tuple[pa.Scalar, ...]:
        """Return values of `CHANGE_FIELDS`."""
        values = (kind, self.version, self.moment)
        return tuple(
            pa.scalar(value, arrow_type(field.dataType))
            for value, field in zip(values, CHANGE_FIELDS, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Side:
    """A version to read.

    Attributes:
        snapshot: Snapshot restricted to the fragments read.
        sources: Columns, see `StreamColumns.sources_in`.
    """

    snapshot: Snapshot
    sources: Sources

    @property
    def paths(self) -> list[str]:
        """The existing columns."""
        return [format_field_path([source.name]) for source in self.sources if source is not None]


@dataclass(frozen=True, slots=True)
class ScanShare:
    """Live rows of fragments, in order.

    Attributes:
        side: The version; its snapshot has no fragments.
        plan: Rows to read.
        schema: Schema of the stream, without `CHANGE_FIELDS`.
        commit: The commit, if requested.
        kind: `_change_type` of the rows.
    """

    side: Side
    plan: ScanPlan
    schema: pa.Schema
    commit: Commit | None
    kind: str

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in Spark's types."""
        extra = () if self.commit is None else self.commit.columns(self.kind)
        scan = Scan(self.side.snapshot, self.plan, batch_rows=BATCH_ROWS, threads=_THREADS)
        for batch in scan.to_batches():
            yield spark_batch(batch, self.side.sources, self.schema, extra)


@dataclass(frozen=True, slots=True)
class TakeShare:
    """Single rows of a version; of two versions, one after the other, for updated rows.

    Attributes:
        sides: The versions, with the fragments of the rows.
        kinds: `_change_type` in each.
        addresses: Row addresses in each.
        schema: See `ScanShare`.
        commit: See `ScanShare`.
    """

    sides: tuple[Side, ...]
    kinds: tuple[str, ...]
    addresses: tuple[Addresses, ...]
    schema: pa.Schema
    commit: Commit

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in Spark's types."""
        for start in range(0, len(self.addresses[0]), _TAKE_ROWS):
            for side, kind, addresses in zip(self.sides, self.kinds, self.addresses, strict=True):
                rows = addresses[start : start + _TAKE_ROWS]
                table = take_rows(side.snapshot, _projection(side), rows, RowKey.ADDRESS)
                for batch in _batches(table):
                    yield spark_batch(batch, side.sources, self.schema, self.commit.columns(kind))


Share = ScanShare | TakeShare


def scan_share(
    dataset: Dataset,
    sources: Sources,
    plans: Sequence[FragmentPlan],
    schema: pa.Schema,
    commit: Commit | None,
    kind: str,
) -> ScanShare:
    """Return a share that reads fragments, or parts of them, of a version."""
    side = Side(dataset.narrowed((), Schema(())), sources)
    plan = replace(dataset.scanner(side.paths).plan, fragments=tuple(plans))
    return ScanShare(side, plan, schema, commit, kind)


def side_of(dataset: Dataset, sources: Sources, addresses: Addresses) -> Side:
    """Return the part of a version that some of its rows need."""
    wanted = {int(number) for number in np.unique(addresses >> np.uint64(32))}
    fragments = fragments_of(dataset.fragments, wanted)
    return Side(dataset.narrowed(fragments), sources)


def updated_share(
    sides: tuple[Side, Side], before: Addresses, after: Addresses, schema: pa.Schema, commit: Commit
) -> TakeShare:
    """Return a share of updated rows, with old and new values."""
    return TakeShare(sides, (UPDATE_BEFORE, UPDATE_AFTER), (before, after), schema, commit)


def _projection(side: Side) -> Projection:
    return build_take_projection(
        side.snapshot.lance_schema, side.paths, with_row_id=False, with_row_address=False
    )


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    if table.num_columns:
        yield from table.combine_chunks().to_batches()
        return
    empty = pa.RecordBatch.from_pydict({"_": pa.nulls(table.num_rows)})
    yield empty.select([])
