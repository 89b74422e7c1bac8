"""Scan plan: the reads of a scan, computed from metadata alone."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral

import numpy as np
import numpy.typing as npt

from lance_ops.cache import Cache, IdentityCache
from lance_ops.errors import InvalidArgumentError, check_type
from lance_ops.file.schema.blob_fields import is_blob_v2
from lance_ops.file.schema.model import Schema
from lance_ops.filter import Expression
from lance_ops.filter.expression import Column, format_path
from lance_ops.filter.predicates import IsNull
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import first_rows, numbers_of, positions_by_id
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.scan.place_pruning import may_hold_rows
from lance_ops.table.scan.projection import Projection
from lance_ops.table.scan.pruner import IndexUse, Pruning
from lance_ops.table.scan.row_columns import ROW_COLUMNS

_NOTHING = Schema(())
_MOST_COLUMNS = 64

_Names = tuple[str, ...]
_ToRead = tuple[Schema, _Names, Schema, Schema]


@dataclass(frozen=True, slots=True)
class FragmentPlan:
    """Read of one fragment.

    Attributes:
        fragment: The fragment.
        rows_before: Live rows of the dataset before it.
        candidates: Offsets (uint32, ascending) of the only rows that can match; None for all.
        exact: True if all candidates match, so that the filter is not evaluated.
        skip: Live rows to skip at the start; scans without a filter only.
        take: Live rows to return; None for all. Scans without a filter only.
        span: First row, and the one after the last, of the rows to read, deleted ones included; None for all.
            Not together with `candidates`, which are cut themselves.
    """

    fragment: Fragment
    rows_before: int
    candidates: npt.NDArray[np.uint32] | None = None
    exact: bool = False
    skip: int = 0
    take: int | None = None
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """Reads of a scan, in row order.

    Attributes:
        projection: Columns of the result.
        filter: Condition on the rows; None for all.
        filter_schema: Columns that are read to evaluate the filter.
        filter_row_columns: Row columns that the filter uses.
        rest_schema: Columns that are read afterwards, for the matching rows.
        read_schema: Both of them.
        fragments: Fragments that are read.
        skipped_fragments: Number of fragments that are not read.
        uses: The indices that narrowed the scan.
        offset: Matching rows to skip; scans with a filter only.
        limit: Maximum matching rows to return; scans with a filter only.
    """

    projection: Projection
    filter: Expression | None
    filter_schema: Schema
    filter_row_columns: tuple[str, ...]
    rest_schema: Schema
    read_schema: Schema
    fragments: tuple[FragmentPlan, ...]
    skipped_fragments: int
    offset: int = 0
    limit: int | None = None
    uses: tuple[IndexUse, ...] = ()

    def __str__(self) -> str:
        """Describe the plan for people."""
        lines = [f"scan {len(self.fragments)} fragments, skip {self.skipped_fragments}"]
        if self.filter is not None:
            lines.append(f"  filter: {self.filter.to_sql()}")
            lines.append(f"  first read: {', '.join((*self.filter_schema.names, *self.filter_row_columns))}")
        lines.append(f"  return: {', '.join(self.projection.arrow_schema.names)}")
        pruned = [fragment for fragment in self.fragments if fragment.candidates is not None]
        lines += [f"  index {use}" for use in self.uses]
        if pruned:
            whole = [str(part.fragment.id) for part in self.fragments if part.candidates is None]
            lines.append(f"  narrowed to {self.candidates} rows in {len(pruned)} fragments by an index")
            lines.append(
                f"  rows to check: {self.rechecked}; fragments to scan: {', '.join(whole) or 'none'}"
            )
        return "\n".join(lines)

    @property
    def candidates(self) -> int:
        """Rows left by indices, deleted ones included."""
        return sum(len(part.candidates) for part in self.fragments if part.candidates is not None)

    @property
    def rechecked(self) -> int:
        """Candidates on which the filter is evaluated."""
        inexact = [part.candidates for part in self.fragments if not part.exact]
        return sum(len(candidates) for candidates in inexact if candidates is not None)


def plan_scan(
    manifest: Manifest,
    schema: Schema,
    projection: Projection,
    *,
    filter: Expression | None = None,  # noqa: A002 - the name users know
    prunings: Sequence[Pruning] = (),
    fragments: Sequence[Fragment] | None = None,
    offset: int = 0,
    limit: int | None = None,
) -> ScanPlan:
    """Plan the reads of a scan.

    Args:
        manifest: The version.
        schema: Its schema.
        projection: Columns of the result.
        filter: Condition on the rows; None for all.
        prunings: Results of indices for the filter; a row must be a candidate of all that cover it.
        fragments: Fragments to read; all when None.
        offset: Matching rows to skip.
        limit: Maximum matching rows to return.

    Raises:
        InvalidArgumentError: A negative limit or offset.
    """
    check_limits(offset, limit)
    filter_schema, row_columns, rest_schema, read_schema = _find_columns(schema, projection, filter)
    reads = _plan_fragments(manifest, filter, prunings, fragments)
    if filter is None:
        plans = _cut(reads, offset, limit)
        offset, limit = 0, None
    else:
        plans = [read.planned() for read in reads]
    chosen = len(manifest.fragments) if fragments is None else len(fragments)
    return ScanPlan(
        projection=projection,
        filter=filter,
        filter_schema=filter_schema,
        filter_row_columns=row_columns,
        rest_schema=rest_schema,
        read_schema=read_schema,
        fragments=tuple(plans),
        skipped_fragments=chosen - len(plans),
        offset=offset,
        limit=limit,
        uses=tuple(use for pruning in prunings for use in pruning.uses),
    )


def check_limits(offset: int, limit: int | None) -> None:
    """Check limit and offset.

    Raises:
        InvalidArgumentError: Names the invalid one.
    """
    check_type(offset, Integral, "a number of rows", field="offset")
    if limit is not None:
        check_type(limit, Integral, "a number of rows", field="limit")
    if offset < 0 or (limit is not None and limit < 0):
        raise InvalidArgumentError("limit and offset must be at least 0", field="limit, offset")


def _find_columns(
    schema: Schema,
    projection: Projection,
    filter: Expression | None,  # noqa: A002
) -> _ToRead:
    """Return `filter_schema`, `filter_row_columns`, `rest_schema` and `read_schema` of a plan."""
    if filter is None:
        return _NOTHING, (), projection.schema, projection.schema
    stored, row_columns = _columns_of(schema, filter)
    known = _kept_columns(schema, projection)

    def project() -> _ToRead:
        filter_schema = schema.project(stored)
        rest = _not_yet_read(projection.schema, filter_schema)
        return filter_schema, row_columns, rest, Schema(filter_schema.fields + rest.fields)

    return known.load((stored, row_columns), project)


def _no_columns(schema: Schema, projection: Projection) -> Cache[tuple[_Names, _Names], _ToRead]:
    del schema, projection
    return Cache("columns of filters", _MOST_COLUMNS)


_kept_columns = IdentityCache("filtered projections", _no_columns, 64)
"""The same objects for filters on the same columns: much is kept for a schema that is asked for again."""


def _columns_of(schema: Schema, expression: Expression) -> tuple[_Names, _Names]:
    """Return the columns that a filter reads, and its row columns."""
    nodes = list(expression.walk())
    used = Counter([format_path(node.path) for node in nodes if isinstance(node, Column)])
    tests = [node.operand for node in nodes if isinstance(node, IsNull)]
    tested = Counter([format_path(node.path) for node in tests if isinstance(node, Column)])

    def needed(name: str) -> str:
        # Whether a blob is null is known without reading its bytes, and so is its URI.
        return f"{name}.uri" if used[name] == tested[name] and is_blob_v2(schema.field(name)) else name

    row_columns = [name for name in sorted(used) if _is_row_column(name, schema)]
    return tuple([needed(name) for name in sorted(used) if name not in row_columns]), tuple(row_columns)


def _is_row_column(name: str, schema: Schema) -> bool:
    return name in ROW_COLUMNS and name not in schema.names


@dataclass(frozen=True, slots=True)
class _Read:
    """Read of a fragment whose object need not exist yet.

    Attributes:
        rows: Live rows.
        rows_before: See `FragmentPlan`.
        fragment: Returns the fragment.
        candidates: See `FragmentPlan`.
        exact: See `FragmentPlan`.
    """

    rows: int
    rows_before: int
    fragment: Callable[[], Fragment]
    candidates: npt.NDArray[np.uint32] | None
    exact: bool

    def planned(self, skip: int = 0, take: int | None = None) -> FragmentPlan:
        return FragmentPlan(self.fragment(), self.rows_before, self.candidates, self.exact, skip, take)


def _plan_fragments(
    manifest: Manifest,
    filter: Expression | None,  # noqa: A002
    prunings: Sequence[Pruning],
    fragments: Sequence[Fragment] | None,
) -> Iterator[_Read]:
    """Yield the reads, made from numbers: a fragment becomes an object once it is read."""
    before = _rows_before(manifest)
    chosen = manifest.fragments if fragments is None else fragments
    numbers = numbers_of(chosen)
    wanted = numbers.live_rows > 0
    if filter is not None:
        wanted &= may_hold_rows(filter, numbers, manifest)
    places = np.flatnonzero(wanted)
    if fragments is None:
        first_rows = before[places].tolist()
    else:
        positions = positions_by_id(manifest.fragments)
        # A copy of a fragment that the version does not list has no place in it.
        first_rows = [int(before[positions.get(number, 0)]) for number in numbers.ids[places].tolist()]
    every = zip(
        places.tolist(),
        numbers.ids[places].tolist(),
        numbers.live_rows[places].tolist(),
        first_rows,
        strict=True,
    )
    for place, fragment_id, rows, rows_before in every:
        candidates: npt.NDArray[np.uint32] | None = None
        exact = False
        covering = [pruning for pruning in prunings if fragment_id in pruning.covered_fragment_ids]
        if not all(pruning.rows.has_fragment(fragment_id) for pruning in covering):
            # Fewer arrays are stored this way if few rows are left in most fragments.
            continue
        for pruning in covering:
            offsets = pruning.offsets_in(fragment_id)
            exact = exact or fragment_id in pruning.exact
            candidates = offsets if candidates is None else np.intersect1d(candidates, offsets)
        if candidates is None or len(candidates):
            yield _Read(rows, rows_before, partial(chosen.__getitem__, place), candidates, exact)


def _first_rows(manifest: Manifest) -> npt.NDArray[np.int64]:
    return first_rows(manifest.fragments)


_rows_before = IdentityCache("rows before fragments", _first_rows, 4)
"""Live rows before each fragment, by its position."""


def _cut(reads: Iterable[_Read], offset: int, limit: int | None) -> list[FragmentPlan]:
    kept: list[FragmentPlan] = []
    # Fragments behind the last row are not even planned.
    for read in reads:
        if limit == 0:
            break
        if offset >= read.rows:
            offset -= read.rows
            continue
        take = read.rows - offset if limit is None else min(limit, read.rows - offset)
        kept.append(read.planned(offset, take if take < read.rows else None))
        offset = 0
        limit = None if limit is None else limit - take
    return kept


def _not_yet_read(wanted: Schema, read: Schema) -> Schema:
    done = {field.name: {node.id for node in field.walk()} for field in read.fields}
    return Schema(
        tuple(
            field
            for field in wanted.fields
            if not {node.id for node in field.walk()} <= done.get(field.name, set())
        ),
        wanted.metadata,
    )


def bytes_per_row(fragment: Fragment, width: int | None) -> int:
    """Estimate the bytes of a row of some columns in memory, for sizing reads.

    Args:
        fragment: The fragment; all bytes of its files count when no width is known.
        width: Of the columns; None when a type has no fixed width.
    """
    return width or max(64, fragment.data_bytes // max(1, fragment.physical_rows))
