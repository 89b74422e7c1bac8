"""Update in place: rows keep their addresses, and fragments get files with the changed columns.

The specification calls this rewriting columns. All rows of a fragment are rewritten, but only their changed
columns; rows keep their addresses, so that indices on other columns keep their coverage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lance_ops.encoding.arrays import number_dtype
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.model import Schema
from lance_ops.maintenance.columns.compute import ComputeTask, compute_columns
from lance_ops.maintenance.delete.plan import FragmentMatch
from lance_ops.maintenance.engine import Attempt
from lance_ops.maintenance.tasks import remove_files, run_tasks
from lance_ops.maintenance.update.assignments import Assignment, changed_rows
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.row_columns import ROW_ADDRESS, ROW_COLUMNS
from lance_ops.table.transaction.apply_fragments import replace_columns
from lance_ops.table.transaction.operations import Update

Rewrite = Literal["rows", "columns", "auto"]
"""Written data of an update: the changed rows with all their columns, or the changed columns of all rows."""

_TEXT_BYTES = 32
"""Assumed bytes of a variable-length value."""


@dataclass(frozen=True, slots=True, eq=False)
class UpdatedValues:
    """The changed columns of a fragment, with the values that rows keep; a `Transform`.

    Attributes:
        assignments: What becomes of the rows.
        offsets: Ascending offsets of these rows, uint32.
    """

    assignments: tuple[Assignment, ...]
    offsets: npt.NDArray[np.uint32]

    @property
    def name(self) -> str:
        """See `Transform.name`."""
        return f"update: {[(item.column, item.sql) for item in self.assignments]!r}"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """See `Transform.columns`."""
        named = {item.column for item in self.assignments}
        named.update(name for item in self.assignments for name in item.expression.root_columns)
        own = tuple(name for name in schema.names if name in named)
        named.add(ROW_ADDRESS)
        return own + tuple(name for name in ROW_COLUMNS if name in named and name not in own)

    def values(self, rows: pa.Table) -> list[pa.Array]:
        """See `Transform.values`."""
        addresses = rows[ROW_ADDRESS].to_numpy()
        places = np.flatnonzero(np.isin((addresses & 0xFFFFFFFF).astype(np.uint32), self.offsets))
        old = [_joined(rows[item.column]) for item in self.assignments]
        if not len(places):
            return old
        chosen = rows.take(pa.array(places)).combine_chunks().to_batches()[0]
        changed = changed_rows(chosen, self.assignments, pa.array(addresses[places]))
        # Behind the old values lie the new ones, from which changed rows take theirs.
        sources = np.arange(rows.num_rows)
        sources[places] = rows.num_rows + np.arange(len(places))
        return [
            _merged(values, changed[item.column], pa.array(sources), item.column)
            for item, values in zip(self.assignments, old, strict=True)
        ]


def _merged(old: pa.Array, new: pa.Array, sources: pa.Array, column: str) -> pa.Array:
    """Return a column of which `sources` says, row by row, the place in old values and new ones behind them.

    Raises:
        SchemaMismatchError: The index type of a dictionary has no room for the values of the column.
    """
    try:
        return pa.concat_arrays([old, new]).take(sources)
    except pa.ArrowInvalid:
        if not pa.types.is_dictionary(old.type):
            raise
    # There is room for the values of both together only without those that no row has any more.
    values = pa.concat_arrays([old.dictionary_decode(), new.dictionary_decode()]).take(sources)
    coded = values.dictionary_encode()
    room = int(np.iinfo(number_dtype(old.type.index_type)).max) + 1
    if (found := len(coded.dictionary)) > room:
        raise SchemaMismatchError(
            "new values do not fit their columns",
            [f"{column}: {found} different values in a fragment, {old.type} has room for {room}"],
            hint='update with rewrite="rows", or alter the column to a wider index type first',
        )
    indices = coded.indices.cast(old.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, coded.dictionary, ordered=old.type.ordered)


def choose(
    dataset: Dataset, matches: Sequence[FragmentMatch], assignments: Sequence[Assignment], wish: Rewrite
) -> tuple[Literal["rows", "columns"], str]:
    """Choose what to rewrite, with the reason.

    Args:
        dataset: The version.
        matches: The rows.
        assignments: Assignments of the update.
        wish: Choice of the caller.

    Raises:
        InvalidArgumentError: The caller chose columns, and these cannot be rewritten in place.
    """
    if wish == "rows":
        return "rows", "as requested"
    columns = _changed_schema(dataset, assignments)
    hindrance = None
    if has_blobs(columns):
        hindrance = "blob columns"
    elif any(match.fragment.has_overlays for match in matches):
        hindrance = "overlays, which would hide the new values"
    if wish == "columns":
        if hindrance is not None:
            raise InvalidArgumentError(
                f"columns cannot be rewritten in place: {hindrance}",
                path=dataset.uri,
                field="rewrite",
                hint='use rewrite="auto" or "rows"',
            )
        return "columns", "as requested"
    if hindrance is not None:
        return "rows", hindrance
    changed = {node.id for node in columns.walk()}
    indexed = sorted({index.name for index in dataset.indices if changed.intersection(index.fields)})
    if indexed:
        # Of rows that move, these lose only the rows; of columns in place, whole fragments.
        return "rows", f"index {indexed[0]} would lose whole fragments"
    share = _row_bytes(columns) / max(_row_bytes(dataset.lance_schema), 1)
    rows_bytes, column_bytes = 0.0, 0.0
    for match in matches:
        size = match.fragment.data_bytes / max(match.fragment.physical_rows, 1)
        rows_bytes += size * len(match.matched)
        column_bytes += size * share * match.fragment.physical_rows
    why = f"about {column_bytes:,.0f} bytes of columns, {rows_bytes:,.0f} of rows"
    return ("columns" if column_bytes < rows_bytes else "rows"), why


def update_in_place(
    attempt: Attempt, matches: Sequence[FragmentMatch], assignments: tuple[Assignment, ...]
) -> tuple[Update, int]:
    """Write the changed columns of the fragments with matching rows.

    Returns:
        The operation to commit, and the bytes of the new files.

    Raises:
        SchemaMismatchError: A value does not fit its column. Files written by then are removed.
    """
    dataset, run = attempt.dataset, attempt.run
    schema = _changed_schema(dataset, assignments)
    # Values come in the order of the columns that they are for.
    ordered = tuple(sorted(assignments, key=lambda item: schema.names.index(item.column)))
    offsets = [match.matched.offsets() for match in matches]
    tasks = [
        ComputeTask(
            dataset.narrowed([match.fragment]),
            schema,
            UpdatedValues(ordered, found),
            dataset.data_storage_version,
            run.commits.job_key,
        )
        for match, found in zip(matches, offsets, strict=True)
    ]
    files = run_tasks(
        run.runner,
        compute_columns,
        tasks,
        report=run.report,
        message="writing columns",
        discard=partial(_discard, dataset.store),
    )
    attempt.written += [f"data/{file.path}" for file in files]
    updated: list[Fragment] = []
    rows: dict[int, bytes] = {}
    for match, found, file in zip(matches, offsets, files, strict=True):
        updated.append(replace_columns(match.fragment, file))
        rows[match.fragment.id] = BitMap(found).serialize()
    operation = Update(
        (),
        tuple(updated),
        (),
        fields_modified=tuple(sorted(node.id for node in schema.walk())),
        rewrites_columns=True,
        offsets=rows,
        sees_new_rows=False,
    )
    return operation, sum(file.stored_bytes for file in files)


def _changed_schema(dataset: Dataset, assignments: Sequence[Assignment]) -> Schema:
    changed = {item.column for item in assignments}
    return dataset.lance_schema.select([name for name in dataset.lance_schema.names if name in changed])


def _row_bytes(schema: Schema) -> float:
    """Estimate the bytes of a row's values."""
    return sum(_width(field.type) for field in schema.to_arrow())


def _width(kind: pa.DataType) -> float:
    if pa.types.is_fixed_size_list(kind):
        return _width(kind.value_type) * int(kind.list_size)
    if pa.types.is_struct(kind):
        return sum(_width(kind.field(number).type) for number in range(kind.num_fields))
    try:
        return float(kind.bit_width) / 8
    except ValueError:
        return _TEXT_BYTES


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _discard(store: Store, files: Sequence[DataFile]) -> None:
    remove_files(store, [f"data/{file.path}" for file in files])
