"""ZONEMAP as an index kind: which zones may hold a value, by their bounds."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.file.schema.model import Field
from lance_ops.filter.functions.compare import compare
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.kind import Parameters
from lance_ops.index.sargable import Interval, Range
from lance_ops.index.zone_map.bounds import zone_bounds
from lance_ops.index.zones.file import ZoneFile
from lance_ops.index.zones.kind import ZoneKind
from lance_ops.index.zones.layout import ZONE_FIELDS
from lance_ops.index.zones.parameters import whole_number
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.snapshot import Snapshot

DEFAULT_ROWS = 8192

_ROWS = "rows_per_zone"
_BOUNDED_TYPES = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_decimal,
    pa.types.is_fixed_size_binary,
    pa.types.is_temporal,
)


class ZoneMapKind(ZoneKind):
    """ZONEMAP: narrows comparisons, IN, BETWEEN and prefixes to zones; exact for IS NULL.

    Early releases of the peer keep no null rows, and nothing but the file says how large its zones are.
    """

    name = "ZONEMAP"
    type_url = "/lance.table.ZoneMapIndexDetails"
    file_name = "zonemap.lance"
    summary_names = ("min", "max", "null_count", "nan_count")

    def parameters(self, field: Field, given: Parameters) -> Parameters:
        """See `IndexKind.parameters`: `rows_per_zone`, 8192 if it is left open."""
        del field
        return {_ROWS: DEFAULT_ROWS} | whole_number(self.name, given, _ROWS)

    def parameters_of(self, dataset: Snapshot, segment: IndexMetadata) -> Parameters:
        """See `IndexKind.parameters_of`."""
        return {_ROWS: self.zone_rows_of(dataset, segment, _ROWS, DEFAULT_ROWS)}

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        if field.children or not any(is_kind(field.storage_type) for is_kind in _BOUNDED_TYPES):
            raise InvalidArgumentError(
                f"column {field.name!r} is {field.storage_type}, which a ZONEMAP cannot index",
                field="column",
                hint="it takes numbers, booleans, texts, bytes, dates and times; index a leaf of a struct",
            )

    def zone_rows(self, parameters: Parameters) -> int:
        """See `ZoneKind.zone_rows`."""
        return int(parameters[_ROWS])

    def file_schema(self, values: pa.DataType) -> pa.Schema:
        """See `ZoneKind.file_schema`."""
        counts = [pa.field(name, pa.uint32(), nullable=False) for name in ("null_count", "nan_count")]
        return pa.schema([pa.field("min", values), pa.field("max", values), *counts, *ZONE_FIELDS])

    def metadata(self, parameters: Parameters) -> dict[str, str]:
        """See `ZoneKind.metadata`."""
        return {_ROWS: str(self.zone_rows(parameters))}

    def details(self, parameters: Parameters) -> bytes:
        """See `ZoneKind.details`."""
        message = table_pb2.ZoneMapIndexDetails(
            rows_per_zone=self.zone_rows(parameters), use_seeds=False, has_null_bitmap=True
        )
        return message.SerializeToString(deterministic=True)

    def zone_bytes(self, zones: ZoneFile) -> int:
        """See `ZoneKind.zone_bytes`."""
        return max(1, zones.reader.size_bytes // max(zones.reader.num_rows, 1))

    def summarise(
        self, values: pa.Array, starts: npt.NDArray[np.int64], parameters: Parameters
    ) -> dict[str, pa.Array]:
        """See `ZoneKind.summarise`."""
        del parameters
        return zone_bounds(values, starts)

    def candidates(self, zones: pa.Table, query: ColumnQuery) -> npt.NDArray[np.bool_] | None:
        """See `ZoneKind.candidates`."""
        chosen = np.ones(zones.num_rows, np.bool_)
        for values in query.ranges or ():
            chosen &= _overlap(zones, values)
        return chosen

    def check_zones(self, zones: pa.Table, path: str) -> None:
        """See `ZoneKind.check_zones`."""
        low, high = _column(zones, "min"), _column(zones, "max")
        if not _known(compare("<=", low, high), default=True).all():
            raise CorruptFileError("the bounds of a zone are the wrong way round", path=path, field="min")

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """See `IndexKind.statistics`."""
        zones = self.opened(dataset, segment)
        return {"num_zones": zones.reader.num_rows, **self.parameters_of(dataset, segment)}


def _overlap(zones: pa.Table, values: Range) -> npt.NDArray[np.bool_]:
    """Zones that hold a value of a range, as far as their bounds tell."""
    chosen = np.zeros(zones.num_rows, np.bool_)
    for interval in values.intervals:
        chosen |= _holds(zones, interval)
    if values.nulls:
        chosen |= np.asarray(zones["null_count"].to_numpy()) > 0
    return chosen


def _holds(zones: pa.Table, interval: Interval) -> npt.NDArray[np.bool_]:
    low, high = _column(zones, "min"), _column(zones, "max")
    counts = [np.asarray(zones[name].to_numpy()) for name in ("null_count", "nan_count", "zone_length")]
    # The peer leaves out bounds that it cannot find: then there may be any value.
    inside: npt.NDArray[np.bool_] = np.asarray(low.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    inside = inside | (counts[0] + counts[1] < counts[2])
    if pa.types.is_floating(high.type):
        # NaN as the greatest says nothing of the numbers; not all writers count on it being above them.
        high = pc.if_else(pc.is_nan(high), pa.scalar(None, high.type), high)
    if interval.low is not None:
        inside &= _known(compare(">=", high, interval.low.cast(high.type)), default=True)
    if interval.high is not None:
        inside &= _known(compare("<=", low, interval.high.cast(low.type)), default=True)
    if pa.types.is_floating(high.type) and _may_be_nan(interval):
        inside |= counts[1] > 0
    return inside


def _may_be_nan(interval: Interval) -> bool:
    """Whether a NaN of either sign can lie in it: above all numbers, or below them."""
    return any(end is None or end.as_py() != end.as_py() for end in (interval.low, interval.high))


def _column(zones: pa.Table, name: str) -> pa.Array:
    column = zones[name].combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)


def _known(flags: pa.Array, *, default: bool) -> npt.NDArray[np.bool_]:
    return np.asarray(flags.fill_null(default).to_numpy(zero_copy_only=False), dtype=np.bool_)
