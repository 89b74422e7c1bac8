"""BLOOMFILTER as an index kind: which zones may hold one of some values, by their filters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.file.schema.model import Field
from lance_ops.filter.expression import Column
from lance_ops.filter.junctions import conjuncts
from lance_ops.filter.literals import to_scalar
from lance_ops.filter.predicates import InList
from lance_ops.index.bloom_filter.hashes import hash_values
from lance_ops.index.bloom_filter.split_block import (
    BLOCK_BYTES,
    MOST_BYTES,
    filter_bytes,
    make_filters,
    may_contain,
)
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.kind import Parameters
from lance_ops.index.reading import reading
from lance_ops.index.sargable import Range
from lance_ops.index.zones.file import ZoneFile
from lance_ops.index.zones.kind import ZoneKind
from lance_ops.index.zones.layout import ZONE_FIELDS
from lance_ops.index.zones.parameters import whole_number
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.snapshot import Snapshot

DEFAULT_ITEMS = 8192
DEFAULT_PROBABILITY = 0.00057

_ITEMS = "number_of_items"
_PROBABILITY = "probability"
_STORED_ITEMS = "bloomfilter_item"
_STORED_PROBABILITY = "bloomfilter_probability"
_FILTER = "bloom_filter_data"
_MOST_VALUES = 4096
"""A longer list of values is left to a scan."""
_HASHED_TYPES = (
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
)


class BloomFilterKind(ZoneKind):
    """BLOOMFILTER: narrows = and IN to zones; exact for IS NULL."""

    name = "BLOOMFILTER"
    type_url = "/lance.index.pb.BloomFilterIndexDetails"
    file_name = "bloomfilter.lance"
    summary_names = ("has_null", _FILTER)

    def parameters(self, field: Field, given: Parameters) -> Parameters:
        """See `IndexKind.parameters`: `number_of_items` of a zone, 8192, and `probability`, 0.00057."""
        del field
        rest = {name: value for name, value in given.items() if name != _PROBABILITY}
        items = whole_number(self.name, rest, _ITEMS)
        probability = given.get(_PROBABILITY, DEFAULT_PROBABILITY)
        if (
            isinstance(probability, bool)
            or not isinstance(probability, int | float)
            or not 0 < probability < 1
        ):
            raise InvalidArgumentError(
                f"{probability!r} is not a probability between 0 and 1",
                field=_PROBABILITY,
                hint="give a number between 0 and 1",
            )
        return {_ITEMS: DEFAULT_ITEMS, **items, _PROBABILITY: float(probability)}

    def parameters_of(self, dataset: Snapshot, segment: IndexMetadata) -> Parameters:
        """See `IndexKind.parameters_of`."""
        items = self.zone_rows_of(dataset, segment, _STORED_ITEMS, DEFAULT_ITEMS)
        with reading(segment):
            file = self.opened(dataset, segment)
            probability = file.number(_STORED_PROBABILITY)
            if probability is not None and not 0 < probability < 1:
                raise CorruptFileError(
                    f"{_STORED_PROBABILITY} is {probability}",
                    path=file.reader.path,
                    field=_STORED_PROBABILITY,
                )
        return {_ITEMS: items, _PROBABILITY: DEFAULT_PROBABILITY if probability is None else probability}

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        if field.children or not any(is_kind(field.storage_type) for is_kind in _HASHED_TYPES):
            raise InvalidArgumentError(
                f"column {field.name!r} is {field.storage_type}, which a BLOOMFILTER cannot index",
                field="column",
                hint="BLOOMFILTER supports integers, single and double floats, strings, binary, dates "
                "and times",
            )

    def zone_rows(self, parameters: Parameters) -> int:
        """See `ZoneKind.zone_rows`."""
        return int(parameters[_ITEMS])

    def file_schema(self, values: pa.DataType) -> pa.Schema:
        """See `ZoneKind.file_schema`."""
        del values
        return pa.schema(
            [
                *ZONE_FIELDS,
                pa.field("has_null", pa.bool_(), nullable=False),
                pa.field(_FILTER, pa.binary(), nullable=False),
            ]
        )

    def metadata(self, parameters: Parameters) -> dict[str, str]:
        """See `ZoneKind.metadata`."""
        return {
            _STORED_ITEMS: str(self.zone_rows(parameters)),
            _STORED_PROBABILITY: np.format_float_positional(parameters[_PROBABILITY], trim="-"),
        }

    def details(self, parameters: Parameters) -> bytes:
        """See `ZoneKind.details`."""
        del parameters
        return b""

    def zone_bytes(self, zones: ZoneFile) -> int:
        """See `ZoneKind.zone_bytes`."""
        return max(1, zones.reader.size_bytes // max(zones.reader.num_rows, 1))

    def summarise(
        self, values: pa.Array, starts: npt.NDArray[np.int64], parameters: Parameters
    ) -> dict[str, pa.Array]:
        """See `ZoneKind.summarise`."""
        size = filter_bytes(self.zone_rows(parameters), parameters[_PROBABILITY])
        is_null = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
        nulls = np.add.reduceat(is_null, starts, dtype=np.int64)
        hashes = hash_values(values.drop_null())
        ends = np.cumsum(np.diff(np.append(starts, len(values))) - nulls)
        filters = make_filters(hashes, ends, size).astype("<u4", copy=False)
        return {
            "has_null": pa.array(nulls > 0),
            _FILTER: pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(size), len(filters), [None, pa.py_buffer(filters)]
            ).cast(pa.binary()),
        }

    def ready(self, zones: pa.Table) -> "_ReadyZones":
        """See `ZoneKind.ready`."""
        has_null = np.asarray(zones["has_null"].to_numpy(zero_copy_only=False), np.bool_)
        return _ReadyZones(has_null, _filters(zones))

    def check_zones(self, zones: pa.Table, path: str) -> None:
        """See `ZoneKind.check_zones`."""
        try:
            _filters(zones)
        except CorruptFileError as error:
            raise CorruptFileError(error.message, path=path, field=_FILTER) from error

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """See `IndexKind.statistics`."""
        zones = self.opened(dataset, segment)
        return {
            "type": "BloomFilter",
            "num_blocks": zones.reader.num_rows,
            **self.parameters_of(dataset, segment),
        }


@dataclass(frozen=True)
class _ReadyZones:
    """Zones prepared for queries.

    Attributes:
        has_null: Mask of zones with nulls.
        filters: See `_filters`.
    """

    has_null: npt.NDArray[np.bool_]
    filters: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]]

    def candidates(self, query: ColumnQuery) -> npt.NDArray[np.bool_] | None:
        """See `Ready.candidates`."""
        asked = [_points(values) for values in query.ranges or ()]
        asked += [_listed(part) for part in conjuncts(query.condition) if isinstance(part, InList)]
        known = [points for points in asked if points is not None]
        if not known:
            return None
        chosen = np.ones(len(self.has_null), np.bool_)
        for values, nulls in known:
            inside = self.has_null & nulls
            for value in hash_values(values):
                for rows, words in self.filters:
                    inside[rows] |= may_contain(words, value)
            chosen &= inside
        return chosen


def _points(values: Range) -> tuple[pa.Array, bool] | None:
    """The single values that a range is made of, and whether null is one; None when it is made of more."""
    ends = [interval.low for interval in values.intervals]
    if any(
        low is None or interval.high is None or not low.equals(interval.high)
        for low, interval in zip(ends, values.intervals, strict=True)
    ):
        return None
    if not ends:
        return pa.array([], pa.int8()), values.nulls
    return _with_zeros(_array(ends)), values.nulls


def _listed(condition: InList) -> tuple[pa.Array, bool] | None:
    if not isinstance(condition.operand, Column) or len(condition.values) > _MOST_VALUES:
        return None
    return _with_zeros(
        _array([to_scalar(value, condition.operand.type) for value in condition.values])
    ), False


def _array(scalars: list[pa.Scalar]) -> pa.Array:
    return pa.concat_arrays([pa.repeat(scalar, 1) for scalar in scalars])


def _with_zeros(values: pa.Array) -> pa.Array:
    """Add zeros of both signs, which are equal and have different bytes."""
    if not pa.types.is_floating(values.type):
        return values
    numbers = values.to_numpy(zero_copy_only=False)
    zeros = np.zeros(2, numbers.dtype)
    zeros[1] = -zeros[1]
    return pa.array(np.concatenate([numbers, zeros]), values.type) if (numbers == 0).any() else values


def _filters(zones: pa.Table) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]]:
    """Return the filters of zones as rows of words, those of one size together, with their places.

    Raises:
        CorruptFileError: One is none.
    """
    data = zones[_FILTER].combine_chunks()
    data = data if isinstance(data, pa.Array) else pa.concat_arrays(data.chunks)
    if not len(data):
        return []
    _, offsets, content = data.buffers()
    bounds = np.frombuffer(offsets, np.int32)[data.offset : data.offset + len(data) + 1].astype(np.int64)
    sizes = np.diff(bounds)
    found = []
    for size in np.unique(sizes).tolist():
        if size % BLOCK_BYTES or not 0 < size <= MOST_BYTES:
            raise CorruptFileError(f"a filter has {size} bytes", field=_FILTER)
        rows = np.flatnonzero(sizes == size)
        words = np.frombuffer(content, np.uint8)
        if len(rows) == len(sizes):
            words = words[bounds[0] : bounds[-1]]
        else:
            words = np.concatenate([words[bounds[row] : bounds[row] + size] for row in rows])
        found.append((rows, np.frombuffer(words, "<u4").reshape(len(rows), size // 4)))
    return found
