"""ZONEMAP as an index kind: which zones may hold a value, by their bounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.file.schema.model import Field
from lance_ops.filter.functions.compare import compare
from lance_ops.index.column import value_type
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.kind import Parameters
from lance_ops.index.sargable import Interval, Range
from lance_ops.index.value_bounds import Mask, ValueBounds, known
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

    Bounds of dictionary columns are dictionaries, too; pylance uses them.

    Early releases of pylance store no null rows, and record the size of zones in the file only.
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

    def recorded_parameters(self, segment: IndexMetadata) -> Parameters:
        """See `IndexKind.recorded_parameters`."""
        details = table_pb2.ZoneMapIndexDetails.FromString(segment.details)
        return {_ROWS: details.rows_per_zone} if details.rows_per_zone else {}

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        values = value_type(field)
        if field.children or not any(is_kind(values) for is_kind in _BOUNDED_TYPES):
            raise InvalidArgumentError(
                f"column {field.name!r} is {field.storage_type}, which a ZONEMAP cannot index",
                field="column",
                hint="ZONEMAP supports numbers, booleans, strings, binary, dates and times; index a "
                "leaf of a struct",
            )

    def check_new(self, field: Field) -> None:
        """See `IndexKind.check_new`."""
        self.check_field(field)
        if pa.types.is_dictionary(field.file_type):
            raise InvalidArgumentError(
                f"column {field.name!r} is {field.file_type}, on which a ZONEMAP misleads pylance",
                field="column",
                hint="it finds no row by LIKE then; those that there are are kept up",
            )

    def zone_rows(self, parameters: Parameters) -> int:
        """See `ZoneKind.zone_rows`."""
        return int(parameters[_ROWS])

    def file_schema(self, values: pa.DataType) -> pa.Schema:
        """See `ZoneKind.file_schema`."""
        counts = [pa.field(name, pa.uint32(), nullable=False) for name in ("null_count", "nan_count")]
        return pa.schema([pa.field("min", values), pa.field("max", values), *counts, *ZONE_FIELDS])

    def stored_type(self, field: Field) -> pa.DataType:
        """Return the stored type; dictionaries are kept, see `ZoneKind.stored_type`."""
        return field.file_type

    def as_stored(self, zones: pa.Table, schema: pa.Schema) -> pa.Table:
        """See `ZoneKind.as_stored`."""
        for name in ("min", "max"):
            kind = schema.field(name).type
            if pa.types.is_dictionary(kind) and zones.schema.field(name).type != kind:
                place = zones.schema.get_field_index(name)
                zones = zones.set_column(place, schema.field(name), _encoded(_column(zones, name), kind))
        return zones

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

    def ready(self, zones: pa.Table) -> "_ReadyZones":
        """See `ZoneKind.ready`."""
        return _ReadyZones.of(zones)

    def check_zones(self, zones: pa.Table, path: str) -> None:
        """See `ZoneKind.check_zones`."""
        low, high = _column(zones, "min"), _column(zones, "max")
        if not known(compare("<=", low, high), default=True).all():
            raise CorruptFileError("the bounds of a zone are the wrong way round", path=path, field="min")

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """See `IndexKind.statistics`."""
        zones = self.opened(dataset, segment)
        return {"num_zones": zones.reader.num_rows, **self.parameters_of(dataset, segment)}


@dataclass(frozen=True)
class _ReadyZones:
    """Zones prepared for queries.

    Attributes:
        bounds: Their least and greatest values.
        some_value: Mask of zones that may have a value.
        has_null: Mask of zones with nulls.
        has_nan: Mask of zones with NaN.
    """

    bounds: ValueBounds
    some_value: Mask
    has_null: Mask
    has_nan: Mask

    @classmethod
    def of(cls, zones: pa.Table) -> "_ReadyZones":
        low, high = _column(zones, "min"), _column(zones, "max")
        nulls, nans, rows = [
            np.asarray(zones[name].to_numpy()) for name in ("null_count", "nan_count", "zone_length")
        ]
        # Pylance leaves out bounds that it cannot find: then there may be any value.
        some_value = np.asarray(low.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        if pa.types.is_floating(high.type):
            # A maximum of NaN does not bound the numbers; not all writers order it above them.
            high = pc.if_else(pc.is_nan(high), pa.scalar(None, high.type), high)
        return cls(ValueBounds(low, high), some_value | (nulls + nans < rows), nulls > 0, nans > 0)

    def candidates(self, query: ColumnQuery) -> Mask:
        """See `Ready.candidates`."""
        chosen = np.ones(len(self.some_value), np.bool_)
        for values in query.ranges or ():
            chosen &= self._overlap(values)
        return chosen

    def _overlap(self, values: Range) -> Mask:
        """Return a mask of zones that may have a value of a range."""
        chosen = self.has_null.copy() if values.nulls else np.zeros(len(self.has_null), np.bool_)
        for interval in values.intervals:
            inside = self.some_value & self.bounds.reach(interval)
            if pa.types.is_floating(self.bounds.kind) and _may_be_nan(interval):
                inside |= self.has_nan
            chosen |= inside
        return chosen


def _encoded(values: pa.Array, kind: pa.DictionaryType) -> pa.Array:
    """Encode values as a dictionary of a type; nulls, meaning unknown, if it is too small for them."""
    coded = values.cast(kind.value_type).dictionary_encode()
    try:
        indices = coded.indices.cast(kind.index_type)
    except pa.ArrowInvalid:
        return pa.nulls(len(values), kind)
    return pa.DictionaryArray.from_arrays(indices, coded.dictionary, ordered=kind.ordered)


def _may_be_nan(interval: Interval) -> bool:
    """Return whether a range can contain NaN of either sign: above all numbers, or below them."""
    return any(end is None or end.as_py() != end.as_py() for end in (interval.low, interval.high))


def _column(zones: pa.Table, name: str) -> pa.Array:
    column = zones[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    column = column.combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
