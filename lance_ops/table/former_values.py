"""Former values: columns of an older version, cast to their current type."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.file.schema.model import Field
from lance_ops.filter.types.casting import cast_for_column

_Values: TypeAlias = pa.Array
_LOST = (pa.ArrowInvalid, OverflowError, ValueError)


@dataclass(frozen=True, slots=True)
class FormerColumn:
    """A column of an older version and its current form.

    Attributes:
        before: The field of the older version.
        now: The field of the newer one.
        origins: From `find_origins`, for its members.
    """

    before: Field
    now: Field
    origins: Mapping[int, int]

    @property
    def is_same(self) -> bool:
        """Return whether the values need no conversion."""
        return _is_same(self.before, self.now, self.origins)

    def convert(self, values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
        """Cast values of the older version to the type of the newer one.

        Args:
            values: Values of the older version.
            target: Type of the result.

        Returns:
            The values; null where the new type cannot hold one, and in members that did not exist.
        """
        if self.is_same and values.type == target:
            return values
        chunks = [_convert(chunk, self.before, self.now, target, self.origins) for chunk in values.chunks]
        return pa.chunked_array(chunks, target)


def _is_same(before: Field, now: Field, origins: Mapping[int, int]) -> bool:
    return (
        before.to_arrow().type == now.to_arrow().type
        and len(before.children) == len(now.children)
        and all(
            origins.get(new.id) == old.id and _is_same(old, new, origins)
            for old, new in zip(before.children, now.children, strict=True)
        )
    )


def _convert(
    values: _Values, before: Field, now: Field, target: pa.DataType, origins: Mapping[int, int]
) -> _Values:
    if values.type == target and _is_same(before, now, origins):
        return values
    kinds = (before.logical_type, now.logical_type)
    plain = not isinstance(values.type, pa.BaseExtensionType) and not isinstance(target, pa.BaseExtensionType)
    if kinds == ("struct", "struct") and plain:
        return _convert_struct(values, before, now, target, origins)
    lists = pa.types.is_list(target) or pa.types.is_large_list(target)
    if before.children and now.children and lists and type(values.type) is type(target):
        return _convert_list(values, before.children[0], now.children[0], target, origins)
    if before.children or now.children:
        return pa.nulls(len(values), target)
    return _cast(values, target)


def _convert_struct(
    values: _Values, before: Field, now: Field, target: pa.DataType, origins: Mapping[int, int]
) -> _Values:
    there = {child.id: (child, part) for child, part in zip(before.children, values.flatten(), strict=True)}
    parts = []
    for child, field in zip(now.children, target, strict=True):
        found = there.get(origins.get(child.id, -1))
        if found is None:
            parts.append(pa.nulls(len(values), field.type))
        else:
            parts.append(_convert(found[1], found[0], child, field.type, origins))
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=values.is_null())


def _convert_list(
    values: _Values, before: Field, now: Field, target: pa.DataType, origins: Mapping[int, int]
) -> _Values:
    if origins.get(now.id) != before.id:
        return pa.nulls(len(values), target)
    made = pa.LargeListArray if pa.types.is_large_list(target) else pa.ListArray
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    offsets = offsets.cast(pa.int64() if pa.types.is_large_list(target) else pa.int32())
    items = _convert(pc.list_flatten(values), before, now, target.value_type, origins)
    return made.from_arrays(offsets, items, type=target, mask=values.is_null())


def _cast(values: _Values, target: pa.DataType) -> _Values:
    """Cast values to another type, null where one does not fit."""
    try:
        return cast_for_column(values, target)
    except (NotImplementedError, TypeError):
        return pa.nulls(len(values), target)
    except _LOST:
        if len(values) <= 1:
            return pa.nulls(len(values), target)
    middle = len(values) // 2
    return pa.concat_arrays([_cast(values.slice(0, middle), target), _cast(values.slice(middle), target)])
