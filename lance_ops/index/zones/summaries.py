"""Zone summaries of a stream of rows: split by zone length, several at a time."""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.index.kind import Parameters
from lance_ops.index.zones.parts import OFFSET_BITS, OFFSET_MASK, FewZones
from lance_ops.table.manifest.row_set import RowSet

_SUMMARISED_ROWS = 1 << 18
_SUMMARISED_BYTES = 32 << 20
"""Rows that are summarised together, and their bytes, as far as zones are not larger."""
_NULL_ROWS = b"null_rows"


class ZoneMaker(Protocol):
    """Summary function of a kind of zones; see `ZoneKind`."""

    def zone_rows(self, parameters: Parameters) -> int:
        """Live rows of a zone."""
        ...

    def file_schema(self, values: pa.DataType) -> pa.Schema:
        """Return columns of the file for values of a type, in their order."""
        ...

    def summarise(
        self, values: pa.Array, starts: npt.NDArray[np.int64], parameters: Parameters
    ) -> dict[str, pa.Array]:
        """Summarise the values of zones that begin at some positions."""
        ...


class Summaries:
    """The zones of one fragment after the other.

    Args:
        maker: The kind.
        parameters: How its zones are made.
        nulls: Gets the null rows of the zones.
    """

    def __init__(self, maker: ZoneMaker, parameters: Parameters, nulls: list[RowSet]) -> None:
        self._maker = maker
        self._parameters = parameters
        self._nulls = nulls
        self._rows = maker.zone_rows(parameters)
        self._enough = max(1, _SUMMARISED_ROWS // self._rows) * self._rows
        self._held: list[pa.Table] = []
        self._count = self._bytes = 0

    def add(self, batch: pa.Table) -> Iterator[pa.Table]:
        """Add rows of a fragment (`values`, `ids`); return complete zones, if enough."""
        self._held.append(batch)
        self._count += batch.num_rows
        self._bytes += batch.nbytes
        if self._count < self._enough and (self._bytes < _SUMMARISED_BYTES or self._count < self._rows):
            return
        together = pa.concat_tables(self._held)
        whole = self._count - self._count % self._rows
        yield self._zones(together.slice(0, whole))
        rest = together.slice(whole)
        self._held = [rest] if rest.num_rows else []
        self._count, self._bytes = rest.num_rows, rest.nbytes

    def rest(self) -> Iterator[pa.Table]:
        """Yield the last zones of the fragment, whose last one may be short."""
        if self._held:
            yield self._zones(pa.concat_tables(self._held))
        self._held, self._count, self._bytes = [], 0, 0

    def _zones(self, table: pa.Table) -> pa.Table:
        values = table["values"].combine_chunks()
        values = values if isinstance(values, pa.Array) else pa.concat_arrays(values.chunks)
        starts = np.arange(0, len(values), self._rows)
        lasts = np.append(starts[1:], len(values)) - 1
        ends = np.asarray(table["ids"].take(pa.array(np.concatenate([starts, lasts]))), dtype=np.uint64)
        first, last = ends[: len(starts)] & OFFSET_MASK, ends[len(starts) :] & OFFSET_MASK
        columns = self._maker.summarise(values, starts, self._parameters) | {
            "fragment_id": pa.array(ends[: len(starts)] >> OFFSET_BITS),
            "zone_start": pa.array(first),
            # Rows that were deleted between them belong to the zone, too.
            "zone_length": pa.array(last - first + np.uint64(1)),
        }
        if values.null_count:
            self._nulls.append(RowSet.of(table["ids"].filter(values.is_null()).to_numpy()))
        schema = self._maker.file_schema(values.type)
        return pa.table([columns[name] for name in schema.names], schema=schema)


class PassingZones:
    """Zones of a new fragment, made from its rows while they are written: an `Observer`.

    Args:
        maker: The kind.
        parameters: How its zones are made.
        values: Type of the values.
    """

    def __init__(self, maker: ZoneMaker, parameters: Parameters, values: pa.DataType) -> None:
        self._nulls: list[RowSet] = []
        self._summaries = Summaries(maker, parameters, self._nulls)
        self._zones = [maker.file_schema(values).empty_table()]
        self._offset = 0

    def add(self, values: pa.Array) -> None:
        """See `Observer.add`."""
        # The fragment has no id yet: 0 until it gets one.
        ids = np.arange(self._offset, self._offset + len(values), dtype=np.uint64)
        self._offset += len(values)
        self._zones += self._summaries.add(pa.table({"values": values, "ids": ids}))

    def finish(self) -> bytes:
        """See `Observer.finish`: the zones as an Arrow stream, with their null rows."""
        self._zones += self._summaries.rest()
        zones = pa.concat_tables(self._zones)
        nulls = reduce(or_, self._nulls, RowSet()).serialize()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, zones.schema.with_metadata({_NULL_ROWS: nulls})) as stream:
            stream.write_table(zones)
        return bytes(sink.getvalue())


def noted_zones(note: bytes, fragment_id: int, rows: int) -> FewZones | None:
    """Return what `PassingZones` noted of a fragment, which has an id now; None for other rows."""
    zones = pa.ipc.open_stream(note).read_all()
    lengths = np.asarray(zones["zone_length"].to_numpy(), np.uint64)
    starts = np.asarray(zones["zone_start"].to_numpy(), np.uint64)
    if int(lengths.sum()) != rows or (starts != np.cumsum(lengths) - lengths).any():
        return None
    found = RowSet.deserialize(zones.schema.metadata[_NULL_ROWS], path="", rows_of=lambda _: 0)
    owner = pa.array(np.full(zones.num_rows, fragment_id, np.uint64))
    place = zones.schema.get_field_index("fragment_id")
    zones = zones.replace_schema_metadata().set_column(place, zones.schema.field(place), owner)
    return FewZones(zones, RowSet({fragment_id: found.offsets_in(0)}).serialize())
