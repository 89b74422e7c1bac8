"""Lossless conversion of values to the type of a column, or the first value that would be lost.

Strings are parsed, numbers are formatted, and a number of another type is accepted if it is equal. Floats may
lose digits in shorter floats, as everywhere in SQL, but no magnitude. Other losses require an explicit CAST
in the expression.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.encoding.values.dictionary import recode_dictionary
from lance_ops.filter.types.casting import can_cast, cast_for_column
from lance_ops.filter.types.coercion import JSON, is_list, is_text, plain_type

_LOST = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError)


def fits_type(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether values of a type can be converted to another at all."""
    found, wanted = plain_type(source), plain_type(target)
    if wanted == JSON:
        return found == JSON or is_text(found) or pat.is_null(found)
    if pat.is_struct(found) and pat.is_struct(wanted):
        ours = {field.name: field.type for field in found}
        return len(ours) == len(wanted) and all(
            field.name in ours and fits_type(ours[field.name], field.type) for field in wanted
        )
    if is_list(found) and is_list(wanted):
        return fits_type(found.value_type, wanted.value_type)
    return bool(found == wanted or can_cast(found, wanted))


def fit(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert values to another type; raises Arrow's error if one is lost."""
    if values.type == target:
        return values
    if isinstance(target, pa.BaseExtensionType):
        storage = values.storage if isinstance(values, pa.ExtensionArray) else values
        return pa.ExtensionArray.from_storage(target, fit(storage, target.storage_type))
    if pat.is_null(values.type):
        return pa.nulls(len(values), target)
    if pat.is_dictionary(target):
        # Entries that no row uses need not fit another type.
        if pat.is_dictionary(values.type) and values.type.value_type == target.value_type:
            recoded = recode_dictionary(values, values.dictionary, target)
            if recoded is not None:
                return recoded
        coded = fit(values, target.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            coded.indices.cast(target.index_type), coded.dictionary, ordered=target.ordered
        )
    if pat.is_struct(target):
        children = {field.name: child for field, child in zip(values.type, values.flatten(), strict=True)}
        fitted = [fit(children[field.name], field.type) for field in target]
        return pa.StructArray.from_arrays(fitted, fields=list(target), mask=_null_mask(values))
    if is_list(target) and values.type.value_type != target.value_type:
        # Only types that cannot be cast as a whole, such as lists of structs, require this; it works for all.
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
        items = fit(pc.list_flatten(values), target.value_type)
        values = pa.ListArray.from_arrays(offsets, items, mask=_null_mask(values))
    return cast_for_column(values, target)


def _null_mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def first_misfit(values: pa.Array, target: pa.DataType) -> tuple[int, str] | None:
    """Return position and problem of the first value that does not fit the type; None if all fit."""
    if not len(values) or values.type == target or pat.is_null(values.type):
        return None
    if not _is_lossy(values, target):
        return None
    start, stop = 0, len(values)
    while stop - start > 1:
        middle = (start + stop) // 2
        if _is_lossy(values.slice(start, middle - start), target):
            stop = middle
        else:
            start = middle
    return start, f"{_shown(values[start])} is no {plain_type(target)}"


def _is_lossy(values: pa.Array, target: pa.DataType) -> bool:
    try:
        fitted = fit(values, target)
    except _LOST:
        return True
    source, wanted = plain_type(values.type), plain_type(target)
    if pat.is_struct(source) and pat.is_struct(wanted):
        children = {field.name: child for field, child in zip(source, values.flatten(), strict=True)}
        return any(_is_lossy(children[field.name], field.type) for field in wanted)
    if is_list(source) and is_list(wanted):
        return _is_lossy(pc.list_flatten(values), wanted.value_type)
    if pat.is_floating(source) and pat.is_floating(wanted):
        finite = pc.is_finite(values.cast(pa.float64()))
        return _any(pc.and_(finite, pc.invert(pc.is_finite(fitted.cast(pa.float64())))))
    if not (_is_exact(source) and _is_exact(wanted)):
        return False
    if pat.is_timestamp(wanted) and wanted.tz is not None and getattr(source, "tz", None) is None:
        # CAST reads wall-clock times of the zone, but gives those of UTC back.
        fitted = pc.local_timestamp(fitted)
    try:
        return _any(pc.not_equal(fit(fitted, source), values))
    except _LOST:
        return True


def _is_exact(kind: pa.DataType) -> bool:
    """Return whether numbers and times are compared after a round trip."""
    return bool(pat.is_integer(kind) or pat.is_decimal(kind) or (pat.is_temporal(kind)))


def _any(mask: pa.Array) -> bool:
    return bool(np.any(mask.fill_null(False).to_numpy(zero_copy_only=False)))


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
