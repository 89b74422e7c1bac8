"""Sparse rows: the few candidates of each of many fragments, read as if these were one.

The cost per fragment is mostly fixed, and an index on unordered values finds some rows in each.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.io.row_selection import Integers, join_lengths
from lance_ops.file.layout import SPARSE
from lance_ops.file.schema.model import Schema
from lance_ops.table.joined_fragments import MOST_FRAGMENTS, JoinedFragments, file_kind
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.plan import FragmentPlan, bytes_per_row
from lance_ops.table.scan.projection import rows_without_columns
from lance_ops.table.scan.row_columns import Offsets, Rows, as_offsets
from lance_ops.table.scan.stored_columns import find_parts, join_parts, refuse_attached
from lance_ops.table.snapshot import Snapshot

_MOST_BYTES = 8 << 20
"""Maximum size of rows read at once, if their width is known."""
_MOST_BYTES_IN_FILES = 1 << 20
"""Maximum size if the width is unknown: they may take more in memory than in the files."""


def find_sparse(
    groups: Iterable[Sequence[FragmentPlan]], width: int | None
) -> Iterator[tuple[Sequence[FragmentPlan], bool]]:
    """Group single fragments of which few rows are read.

    Args:
        groups: In row order.
        width: Bytes of a row in memory; None when a type has no fixed width.

    Yields:
        Groups, and whether to read each by `SparseRows`.
    """
    most = _MOST_BYTES_IN_FILES if width is None else _MOST_BYTES
    run: list[FragmentPlan] = []
    size = 0
    common: Hashable = None
    for group in groups:
        more = _sparse_bytes(group, width)
        kind = None if more is None else file_kind(group[0].fragment)
        if run and (
            more is None
            or kind is None
            or size + more > most
            or len(run) == MOST_FRAGMENTS
            or run[0].exact != group[0].exact
            or common != kind
        ):
            yield run, len(run) > 1
            run, size = [], 0
        if more is None or kind is None:
            yield group, False
        else:
            run.append(group[0])
            size += more
            common = kind
    if run:
        yield run, len(run) > 1


def _sparse_bytes(group: Sequence[FragmentPlan], width: int | None) -> int | None:
    """Return the size of the rows to read, if they are few and of one fragment; None otherwise."""
    plan = group[0]
    if len(group) > 1 or plan.candidates is None or not is_sparse(plan):
        return None
    return len(plan.candidates) * bytes_per_row(plan.fragment, width)


def is_sparse(plan: FragmentPlan) -> bool:
    """Return whether few rows of a fragment are read."""
    return plan.candidates is not None and len(plan.candidates) * SPARSE < plan.fragment.physical_rows


class SparseRows:
    """Reader of few rows of several fragments; see `FragmentRows`. Rows are numbered through all of them.

    Args:
        snapshot: The version.
        plans: Reads of the fragments, in order.
    """

    def __init__(self, snapshot: Snapshot, plans: Sequence[FragmentPlan]) -> None:
        self._snapshot = snapshot
        self._plans = plans
        lengths = [plan.fragment.physical_rows for plan in plans]
        self._starts = join_lengths(np.array(lengths, dtype=np.int64))
        self._rows: dict[int, FragmentRows] = {}

    @property
    def columns(self) -> "SparseRows":
        """Return itself: it provides their row columns."""
        return self

    def live_rows(self) -> Offsets:
        """Return the candidates that are not deleted."""
        found = []
        for number, plan in enumerate(self._plans):
            assert plan.candidates is not None
            offsets = plan.candidates.astype(np.int64)
            if plan.fragment.deletion_file is not None or offsets[-1] >= plan.fragment.physical_rows:
                offsets = offsets[self._fragment(number).is_live(offsets)]
            found.append(offsets + self._starts[number])
        return np.concatenate(found)

    def fetch(self, schema: Schema, rows: Rows) -> pa.Table:
        """Read columns of some rows.

        Args:
            schema: The columns.
            rows: At least one.
        """
        if not schema.fields:
            return rows_without_columns(len(rows), pa.schema([]))
        numbers = as_offsets(rows)
        try:
            joined = self._join()
            if joined is not None:
                return take_joined(self._snapshot, joined, self._moved(numbers, joined), schema)
        except (CorruptFileError, UnsupportedError):
            # Errors are reported by the reader of single rows, if there are any.
            pass
        parts = self._split(numbers)
        return pa.concat_tables([self._fragment(number).fetch(schema, part) for number, part in parts])

    def column(self, name: str, rows: Rows) -> pa.Array:
        """See `RowColumns.column`."""
        parts = self._split(as_offsets(rows))
        values = [self._fragment(number).columns.values(name, part) for number, part in parts]
        return pa.array(np.concatenate(values) if values else np.zeros(0, np.uint64), pa.uint64())

    def _join(self) -> JoinedFragments | None:
        fragments = [plan.fragment for plan in self._plans]
        return self._snapshot.joined_fragments.join(
            self._snapshot.bases, self._snapshot.open_files, fragments
        )

    def _moved(self, numbers: Integers, joined: JoinedFragments) -> Integers:
        """Return the row numbers of the joined fragments."""
        firsts = np.array([joined.first_rows[plan.fragment.id] for plan in self._plans], dtype=np.int64)
        moves = firsts - self._starts[:-1]
        if not moves.any():
            return numbers
        moved: Integers = numbers + moves[np.searchsorted(self._starts, numbers, side="right") - 1]
        return moved

    def _split(self, numbers: Integers) -> list[tuple[int, Offsets]]:
        """Split rows by fragment."""
        cuts = np.searchsorted(numbers, self._starts)
        return [
            (number, numbers[first:last] - self._starts[number])
            for number, (first, last) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
            if first < last
        ]

    def _fragment(self, number: int) -> FragmentRows:
        if number not in self._rows:
            plan = self._plans[number]
            self._rows[number] = FragmentRows(self._snapshot, plan.fragment, plan.rows_before)
        return self._rows[number]


def take_joined(snapshot: Snapshot, joined: JoinedFragments, numbers: Integers, schema: Schema) -> pa.Table:
    """Read columns of single rows of joined fragments.

    Args:
        snapshot: The version.
        joined: The fragments.
        numbers: Row numbers through all of these, ascending, all existing.
        schema: The columns.

    Raises:
        CorruptFileError: A file is damaged.
        UnsupportedError: The columns have to be read fragment by fragment.
    """
    first = joined.fragments[0]
    # The reader of single rows handles attached blobs.
    refuse_attached(snapshot.manifest, schema, snapshot.uri)
    parts = find_parts(first, schema)
    places = [first.files.index(part.file) for part in parts]
    tables = [
        joined.files[place].read_table(part.stored, joined.columns[place], numbers)
        for place, part in zip(places, parts, strict=True)
    ]
    return join_parts(parts, tables, schema, len(numbers))
