"""Check that an index segment has the rows of the fragments that it covers, with their values.

A segment whose addresses belong to other fragments than its bitmap gives wrong results without an error:
missing rows are not found. That happens if a segment was not remapped, or was merged without the row maps.
A segment may also have all rows, and other values than the column: so some rows are searched by their values.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lance_ops.errors import FormatError, NotFoundError
from lance_ops.file.schema.field_path import parse_field_path
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.filter.expression import Column, Expression, Function, Literal
from lance_ops.filter.literals import from_scalar
from lance_ops.filter.predicates import Comparison, IsNull
from lance_ops.index.column import leaf_values
from lance_ops.index.column_query import ColumnQuery, column_queries
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import check_addresses, current_addresses
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import row_addresses
from lance_ops.table.manifest.row_set import Addresses

SMALL_ROWS = 1 << 18
"""Segments with at most so many live rows are compared completely."""
SAMPLED_FRAGMENTS = 16
"""Two rows each of so many fragments are searched by their values."""
_DEEPLY_SAMPLED = 64
"""Fragments in a deep check."""
_DEEP_OFFSETS = 8
"""Rows of each of them."""

_SAMPLED_NAMES = 1 << 12
_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64(0xFFFF_FFFF)


def missing_rows(
    dataset: Dataset, kind: IndexKind, segment: IndexMetadata, *, deep: bool
) -> tuple[int, int, frozenset[int]]:
    """Live rows that a segment should name and does not.

    Args:
        dataset: The version to look at.
        kind: Kind of the segment.
        segment: One of `dataset.indices`, on a single column.
        deep: Compare all rows, however many they are, and search more of them by their values.

    Returns:
        How many rows are missing, how many were searched for, and the fragments of those that are missing.

    Raises:
        LanceOpsError: The segment, the rows or the deletions cannot be read.
    """
    claimed = effective_fragments(dataset.manifest, segment)
    fragments = [fragment for fragment in dataset.fragments if fragment.id in claimed and fragment.num_rows]
    live = sum(fragment.num_rows for fragment in fragments)
    if not live:
        return 0, 0, frozenset()
    if kind.names_every_row and (deep or live <= SMALL_ROWS):
        missing = _compare_all(dataset, kind, segment, fragments)
        if missing or not deep:
            return sum(missing.values()), live, frozenset(missing)
        try:
            return _look_up_some(dataset, kind, segment, fragments, deep=deep)
        except (FormatError, NotFoundError):
            # The rows cannot be read, which a deep check reports of the data files.
            return 0, live, frozenset()
    return _look_up_some(dataset, kind, segment, fragments, deep=deep)


def names_other_rows_only(dataset: Dataset, kind: IndexKind, segment: IndexMetadata) -> bool:
    """Return whether a segment has rows, but none of the fragments that it covers.

    Also true for row ids with the index version of addresses: small numbers are valid addresses, too. A
    search for rows is not conclusive for kinds that do not contain all of them.

    Raises:
        LanceOpsError: The segment cannot be read, or has impossible rows.
    """
    covered = effective_fragments(dataset.manifest, segment)
    if not any(fragment.num_rows for fragment in dataset.fragments if fragment.id in covered):
        return False
    names, total = kind.sample(dataset, segment, _SAMPLED_NAMES)
    if kind.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids):
        check_addresses(dataset.manifest, names, segment.directory)
        if not total:
            # Bitmaps are read without removed fragments.
            return bool(kind.statistics(dataset, segment).get("num_bitmaps"))
    owners = _located(dataset, kind, segment, names) >> _OFFSET_BITS
    return total > 0 and not np.isin(owners, np.array(sorted(covered), np.uint64)).any()


def _compare_all(
    dataset: Dataset, kind: IndexKind, segment: IndexMetadata, fragments: Sequence[Fragment]
) -> dict[int, int]:
    """Return the number of missing rows by fragment."""
    named = {fragment.id: BitMap() for fragment in fragments}
    for addresses in kind.addresses(dataset, segment):
        current = np.sort(_located(dataset, kind, segment, addresses))
        owners = current >> _OFFSET_BITS
        if not len(owners):
            continue
        first = np.flatnonzero(np.diff(owners, prepend=owners[:1] + np.uint64(1)))
        for start, stop in zip(first, [*first[1:], len(owners)], strict=True):
            bitmap = named.get(int(owners[start]))
            if bitmap is not None:
                bitmap.update((current[start:stop] & _OFFSET_MASK).astype(np.uint32))
    missing = {}
    for fragment in fragments:
        deleted = _deleted(dataset, fragment)
        found = len(named[fragment.id] - BitMap(deleted))
        if found < fragment.num_rows:
            missing[fragment.id] = fragment.num_rows - found
    return missing


def _located(dataset: Dataset, kind: IndexKind, segment: IndexMetadata, found: Addresses) -> Addresses:
    """Return the locations of the rows of a segment."""
    if kind.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids):
        addresses, kept = current_addresses(dataset, segment, found)
    else:
        addresses, kept = locate_row_ids(
            dataset, segment, effective_fragments(dataset.manifest, segment), found
        )
    return addresses[kept]


def _deleted(dataset: Dataset, fragment: Fragment) -> npt.NDArray[np.uint32]:
    vector = dataset.deletion_vector(fragment)
    return np.zeros(0, np.uint32) if vector is None else vector.offsets()


def _look_up_some(
    dataset: Dataset, kind: IndexKind, segment: IndexMetadata, fragments: Sequence[Fragment], *, deep: bool
) -> tuple[int, int, frozenset[int]]:
    """Search for the values of some rows, and see whether their addresses are among what is found."""
    most, each = (_DEEPLY_SAMPLED, _DEEP_OFFSETS) if deep else (SAMPLED_FRAGMENTS, 2)
    chosen = [fragments[n] for n in np.unique(np.linspace(0, len(fragments) - 1, most).astype(int))]
    rows = [(fragment.id, offset) for fragment in chosen for offset in _live_offsets(dataset, fragment, each)]
    asked = 0
    missing: list[int] = []
    for (fragment_id, offset), wanted in zip(rows, _conditions(dataset, segment, rows), strict=True):
        matches = (kind.search(dataset, segment, query) for query in wanted)
        found = next((match for match in matches if match is not None), None)
        if found is None:
            continue
        asked += 1
        if row_addresses(fragment_id, [offset])[0] not in _located(
            dataset, kind, segment, found.rows.addresses()
        ):
            missing.append(fragment_id)
    return len(missing), asked, frozenset(missing)


def _live_offsets(dataset: Dataset, fragment: Fragment, number: int) -> list[int]:
    """Return the first live row, and others at equal distances."""
    deleted = BitMap(_deleted(dataset, fragment))
    found = []
    for part in range(number):
        start = fragment.physical_rows * part // number
        offset = next((at for at in range(start, fragment.physical_rows) if at not in deleted), None)
        if offset is not None and offset not in found:
            found.append(offset)
    return found


def _conditions(
    dataset: Dataset, segment: IndexMetadata, rows: Sequence[tuple[int, int]]
) -> Iterator[tuple[ColumnQuery, ...]]:
    """Return for each row conditions that match its value, of which kinds of index answer one or none."""
    path = dataset.lance_schema.path(segment.fields[0])
    field = dataset.lance_schema.field(path)
    addresses = np.array([row_addresses(number, [offset])[0] for number, offset in rows], np.uint64)
    names = parse_field_path(path)
    values = leaf_values(dataset.take(addresses, [path], by="address").column(0), names)
    for value in values:
        known = field.logical_type != JSON_TYPE and not pa.types.is_dictionary(value.type)
        expressions = _matching(Column(names, value.type), value) if known else ()
        yield tuple(query for expression in expressions for query in column_queries(expression))


def _matching(column: Column, value: pa.Scalar) -> Iterator[Expression]:
    """Return conditions that are true of a value."""
    if not value.is_valid:
        yield IsNull(column)
        return
    if pa.types.is_list(value.type) or pa.types.is_large_list(value.type):
        item = next((item for item in value.values or () if item.is_valid), None)
        literal = None if item is None else from_scalar(item)
        # NaN equals nothing.
        if item is not None and literal == literal:
            yield Function("array_has", (column, Literal(literal, item.type)), pa.bool_())
        return
    literal = from_scalar(value)
    if literal == literal:
        yield Comparison("=", column, Literal(literal, value.type))
    if isinstance(literal, str):
        yield Function("contains_tokens", (column, Literal(literal, value.type)), pa.bool_())
