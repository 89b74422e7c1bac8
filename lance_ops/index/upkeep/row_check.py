"""Check that an index segment has the rows of the fragments that it covers: all of them, or a sample.

A segment whose addresses belong to other fragments than its bitmap gives wrong results without an error:
missing rows are not found. That happens if a segment was not remapped, or was merged without the row maps.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lance_ops.file.schema.field_path import parse_field_path
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.filter.expression import Column, Expression, Literal
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
"""Of a larger segment, two rows each of so many fragments are checked."""

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
        deep: Compare all rows, however many they are.

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
        return sum(missing.values()), live, frozenset(missing)
    return _look_up_some(dataset, kind, segment, fragments)


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
    dataset: Dataset, kind: IndexKind, segment: IndexMetadata, fragments: Sequence[Fragment]
) -> tuple[int, int, frozenset[int]]:
    """Search for the values of some rows, and see whether their addresses are among what is found."""
    chosen = [
        fragments[n] for n in np.unique(np.linspace(0, len(fragments) - 1, SAMPLED_FRAGMENTS).astype(int))
    ]
    rows = [(fragment.id, offset) for fragment in chosen for offset in _live_offsets(dataset, fragment)]
    asked = 0
    missing: list[int] = []
    for (fragment_id, offset), wanted in zip(rows, _conditions(dataset, segment, rows), strict=True):
        found = None if wanted is None else kind.search(dataset, segment, wanted)
        if found is None:
            continue
        asked += 1
        if row_addresses(fragment_id, [offset])[0] not in _located(
            dataset, kind, segment, found.rows.addresses()
        ):
            missing.append(fragment_id)
    return len(missing), asked, frozenset(missing)


def _live_offsets(dataset: Dataset, fragment: Fragment) -> list[int]:
    """Return the first live row, and one of the middle."""
    deleted = BitMap(_deleted(dataset, fragment))
    found = []
    for start in (0, fragment.physical_rows // 2):
        offset = next((at for at in range(start, fragment.physical_rows) if at not in deleted), None)
        if offset is not None and offset not in found:
            found.append(offset)
    return found


def _conditions(
    dataset: Dataset, segment: IndexMetadata, rows: Sequence[tuple[int, int]]
) -> Iterator[ColumnQuery | None]:
    """Return for each row a condition that matches its value; None without a searchable one."""
    path = dataset.lance_schema.path(segment.fields[0])
    field = dataset.lance_schema.field(path)
    addresses = np.array([row_addresses(number, [offset])[0] for number, offset in rows], np.uint64)
    names = parse_field_path(path)
    values = leaf_values(dataset.take(addresses, [path], by="address").column(0), names)
    for value in values:
        if field.logical_type == JSON_TYPE or pa.types.is_dictionary(value.type):
            yield None
            continue
        column = Column(names, value.type)
        literal = from_scalar(value)
        expression: Expression = IsNull(column)
        if value.is_valid:
            expression = Comparison("=", column, Literal(literal, value.type))
        # NaN equals nothing.
        yield None if literal != literal else next(iter(column_queries(expression)), None)
