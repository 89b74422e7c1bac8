"""Join keys: match of each row of a dataset in the source of a merge.

Keys are compared exactly: numbers by value, floats by their bits (NaN equals NaN, 0.0 is not -0.0), strings
and bytes by their bytes. A null matches nothing, as in SQL. Keys of several columns are numbered column by
column: a pair of numbers that the source lacks cannot match.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.encoding.arrow_arrays import to_numpy
from lance_ops.encoding.distinct import distinct
from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.field import PRIMARY_KEY_KEY, PRIMARY_KEY_POSITION_KEY
from lance_ops.file.schema.model import Field, Schema
from lance_ops.storage.fork_safe import cached_property

Places = npt.NDArray[np.int64]
NOWHERE = -1

# Maximum memory of a table by value for each key, or maximum entries in total.
_SPAN_OF_EACH, _SMALL_SPAN = 64, 1 << 20

_SLOTS_OF_EACH, _LEAST_BITS = 16, 10
_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)
"""2^64 divided by the golden ratio: its product spreads consecutive integers (Fibonacci hashing)."""


def primary_key(schema: Schema) -> tuple[Field, ...]:
    """Return the top-level columns of the declared key, in order; empty without one."""
    declared = []
    for number, field in enumerate(schema.fields):
        position = field.metadata.get(PRIMARY_KEY_POSITION_KEY, b"").decode("ascii", "replace")
        if position.isascii() and position.isdigit():
            declared.append((int(position), number, field))
        elif field.has_option(PRIMARY_KEY_KEY):
            declared.append((1 << 31, number, field))
    return tuple(field for _, _, field in sorted(declared, key=lambda item: item[:2]))


def check_key_type(name: str, kind: pa.DataType) -> None:
    """Check that the values of a type can be compared as keys.

    Raises:
        InvalidArgumentError: The type is nested, or an extension type without a comparison.
    """
    plain = kind.value_type if pat.is_dictionary(kind) else kind
    known = pat.is_primitive(plain) or pat.is_decimal(plain) or _is_bytes(plain)
    if not known or isinstance(plain, pa.BaseExtensionType) or pat.is_interval(plain):
        raise InvalidArgumentError(f"a column of type {kind} cannot be a key", field=name)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pat.is_string(kind)
        or pat.is_large_string(kind)
        or pat.is_binary(kind)
        or pat.is_large_binary(kind)
        or pat.is_fixed_size_binary(kind)
    )


def plain_keys(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column of keys in a form that is comparable by bits.

    Args:
        column: Column of a type accepted by `check_key_type`.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pat.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pat.is_floating(array.type):
        kind = {16: np.uint16, 32: np.uint32, 64: np.uint64}[array.type.bit_width]
        values = np.array(array.fill_null(0).to_numpy(zero_copy_only=False))
        values[np.isnan(values)] = np.nan
        mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        return pa.array(values.view(kind), mask=mask)
    if pat.is_boolean(array.type):
        return array.cast(pa.uint8())
    if pat.is_temporal(array.type):
        return array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return array


def _slots(values: npt.NDArray[Any], bits: int) -> Places:
    """Return a number of some bits for each integer, equal for equal ones and else mostly different."""
    mixed = values.astype(np.uint64) * _MIX
    mixed >>= np.uint64(64 - bits)
    slots: Places = mixed.view(np.int64)
    return slots


@dataclass(frozen=True)
class ColumnCodes:
    """Numbers of the values of one column of the source, in order of first occurrence.

    Attributes: values: The distinct values, none of them null.
    """

    values: pa.Array

    @cached_property
    def _table(self) -> tuple[int, Places] | None:
        """Return the lowest value, and the number of each value from there on, for dense integers."""
        if not pat.is_integer(self.values.type) or not len(self.values):
            return None
        bounds = pc.min_max(self.values)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        span = high - low + 1
        if span > max(_SMALL_SPAN, _SPAN_OF_EACH * len(self.values)) or high >= 1 << 63:
            return None
        table = np.full(span + 1, NOWHERE, np.int64)
        table[to_numpy(self.values).astype(np.int64) - low] = np.arange(len(self.values))
        return low, table

    @cached_property
    def _sparse(self) -> tuple[npt.NDArray[np.bool_], Places, npt.NDArray[Any]]:
        """Return the slots that have an integer of the source, and these integers in order."""
        values = to_numpy(self.values)
        bits = max(_LEAST_BITS, (_SLOTS_OF_EACH * len(values)).bit_length())
        met = np.zeros(1 << bits, np.bool_)
        met[_slots(values, bits)] = True
        order = np.argsort(values)
        return met, order, values[order]

    def _find_sparse(self, keys: pa.Array) -> Places:
        """Find integers: most rows of a dataset meet no slot of the source, so that few are searched for."""
        met, order, known = self._sparse
        values = to_numpy(keys.fill_null(0) if keys.null_count else keys)
        hits = np.flatnonzero(met[_slots(values, len(met).bit_length() - 1)])
        places = np.minimum(np.searchsorted(known, values[hits]), len(known) - 1)
        same = known[places] == values[hits]
        found = np.full(len(keys), NOWHERE, np.int64)
        found[hits[same]] = order[places[same]]
        if keys.null_count:
            found[keys.is_null().to_numpy(zero_copy_only=False)] = NOWHERE
        return found

    def find(self, keys: pa.Array) -> Places:
        """Return the number of each value; -1 for null and for values that the source lacks."""
        table = self._table
        if table is None and pat.is_integer(keys.type) and keys.type == self.values.type and len(self.values):
            return self._find_sparse(keys)
        if table is None:
            positions = pc.index_in(keys, value_set=self.values).fill_null(NOWHERE)
            return np.asarray(positions.to_numpy(zero_copy_only=False), dtype=np.int64)
        low, numbers = table
        values = to_numpy(keys.fill_null(0) if keys.null_count else keys)
        # Smaller values wrap around and are as large as greater ones: both map to the last entry, no match.
        first = np.uint64(low % (1 << 64))
        places = np.minimum(values.astype(np.int64).view(np.uint64) - first, np.uint64(len(numbers) - 1))
        found: Places = numbers[places.view(np.int64)]
        if keys.null_count:
            found[keys.is_null().to_numpy(zero_copy_only=False)] = NOWHERE
        return found


@dataclass(frozen=True)
class KeyIndex:
    """The keys of a source, for lookups of rows of the dataset.

    Attributes:
        columns: Numbers of the values of each key column.
        pairs: For each further column: the numbers of pairs of previous key and column, ascending.
        rows: The first row of the source with each key, by the number of the key.
    """

    columns: tuple[ColumnCodes, ...]
    pairs: tuple[Places, ...]
    rows: Places

    @classmethod
    def of(cls, keys: Sequence[pa.Array]) -> tuple["KeyIndex", Places]:
        """Number the keys of a source.

        Args:
            keys: The key columns, from `plain_keys`.

        Returns:
            The index, and for each row the first row with the same key; -1 for a key with a null.
        """
        columns, pairs = [], []
        numbers: Places | None = None
        for column in keys:
            codes = ColumnCodes(pc.unique(column.drop_null()))
            columns.append(codes)
            found = codes.find(column)
            if numbers is None:
                numbers = found
                continue
            joined = _paired(numbers, found, len(codes.values))
            known = distinct(joined[joined >= 0])
            pairs.append(known)
            numbers = _looked_up(known, joined)
        assert numbers is not None
        count = int(numbers.max()) + 1 if len(numbers) else 0
        rows = np.full(count, NOWHERE, np.int64)
        # Backwards, so that the first of several rows remains.
        order = np.arange(len(numbers) - 1, -1, -1)
        order = order[numbers[order] >= 0]
        rows[numbers[order]] = order
        firsts = np.where(numbers >= 0, rows[np.maximum(numbers, 0)] if count else NOWHERE, NOWHERE)
        return cls(tuple(columns), tuple(pairs), rows), firsts

    def find(self, keys: Sequence[pa.Array]) -> Places:
        """Return the first row of the source with the key of each row; -1 without one."""
        numbers = self.columns[0].find(keys[0])
        for codes, known, column in zip(self.columns[1:], self.pairs, keys[1:], strict=True):
            numbers = _looked_up(known, _paired(numbers, codes.find(column), len(codes.values)))
        hits = np.flatnonzero(numbers >= 0)
        rows = np.full(len(numbers), NOWHERE, np.int64)
        rows[hits] = self.rows[numbers[hits]]
        return rows


def _paired(left: Places, right: Places, size: int) -> Places:
    return np.where((left >= 0) & (right >= 0), left * max(size, 1) + right, NOWHERE)


def _looked_up(known: Places, wanted: Places) -> Places:
    if not len(known):
        return np.full(len(wanted), NOWHERE, np.int64)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where((wanted >= 0) & (known[at] == wanted), at, NOWHERE)
