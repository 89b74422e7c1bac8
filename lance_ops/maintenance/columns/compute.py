"""Computed columns: new columns of each fragment, in an additional data file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError, SchemaMismatchError, UnsupportedError
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.maintenance.columns.transform import Transform
from lance_ops.maintenance.fit import first_misfit, fit, fits_type
from lance_ops.maintenance.sources.views import without_views
from lance_ops.maintenance.tasks import remove_files
from lance_ops.table.assemble import null_column
from lance_ops.table.data_writer import write_data_files
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.field_ids import highest_given
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.narrow_dictionaries import narrow_columns
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.projection import rows_without_columns
from lance_ops.table.snapshot import Snapshot

_Places: TypeAlias = npt.NDArray[np.int64]

_WINDOW_BYTES = 32 << 20
_MOST_ROWS = 1 << 20
_UNKNOWN_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class ComputeTask:
    """New columns of one fragment; serializable for executors.

    Attributes:
        snapshot: The version, with this fragment only.
        schema: The new columns, with their ids.
        transform: Source of their values.
        storage_version: Version of the data file.
        job_key: See `write_data_files`.
    """

    snapshot: Snapshot
    schema: Schema
    transform: Transform
    storage_version: str
    job_key: str | None = None

    @property
    def fragment(self) -> Fragment:
        """The fragment."""
        (fragment,) = self.snapshot.fragments
        return fragment


def compute_columns(task: ComputeTask) -> DataFile:
    """Write the columns of all physical rows; values of deleted rows are arbitrary.

    Returns:
        The new data file, appended to those of the fragment.

    Raises:
        PredicateError: An expression cannot be computed for a row. The file is removed.
        SchemaMismatchError: A value does not fit its column. Likewise.
        UnsupportedError: A dictionary column has more values than its index type allows. Likewise.
    """
    fragment = task.fragment
    written = write_data_files(
        task.snapshot.store,
        _batches(task, fragment),
        task.schema,
        version=task.storage_version,
        max_rows_per_file=fragment.physical_rows,
        base_uris=task.snapshot.bases.blob_uris,
        job_key=task.job_key,
    )
    if len(written) > 1:
        remove_files(task.snapshot.store, [f"{DATA_DIRECTORY}/{item.files[0].path}" for item in written])
        raise UnsupportedError(
            f"fragment {fragment.id} gets more dictionary values than the index type allows",
            path=task.snapshot.uri,
            field=", ".join(narrow_columns(prepare_schema(task.schema).arrow)),
            hint="declare the column with a wider index type, or without a dictionary",
        )
    if len(written) != 1 or written[0].physical_rows != fragment.physical_rows:
        raise CorruptFileError(
            f"fragment {fragment.id} has {fragment.physical_rows} rows, but its new columns have another "
            "number",
            path=task.snapshot.uri,
        )
    return written[0].files[0]


def _batches(task: ComputeTask, fragment: Fragment) -> Iterator[pa.RecordBatch]:
    own = task.snapshot.lance_schema
    named = task.transform.columns(own)
    read = own.select([name for name in named if name in own.names])
    row_columns = [name for name in named if name not in own.names]
    rows = FragmentRows(task.snapshot, fragment, 0)
    prepared = prepare_schema(task.schema)
    size = _window(rows, read, prepared.row_bytes)
    target = prepared.arrow
    for start in range(0, fragment.physical_rows, size):
        stop = min(start + size, fragment.physical_rows)
        live = rows.live_offsets(start, stop)
        columns = [null_column(field.type, stop - start) for field in target]
        if len(live):
            table = rows.fetch(read, live) if read.fields else rows_without_columns(len(live), pa.schema([]))
            for name in row_columns:
                table = table.append_column(name, rows.columns.column(name, live))
            columns = [
                _spread(_fitted(values, field, fragment, live), live - start, stop - start, field)
                for values, field in zip(task.transform.values(table.select(named)), target, strict=True)
            ]
        elif not all(field.nullable for field in target):
            columns = [_stand_in(field, stop - start) for field in target]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def _window(rows: FragmentRows, read: Schema, row_bytes: int | None) -> int:
    """Return the rows to process at a time, such that neither input nor output takes much memory."""
    size = rows.window_rows(read) if read.fields else _MOST_ROWS
    made = _UNKNOWN_ROWS if row_bytes is None else _WINDOW_BYTES // row_bytes
    return max(1, min(size, made, _MOST_ROWS))


def _fitted(values: pa.Array, field: pa.Field, fragment: Fragment, live: _Places) -> pa.Array:
    """Convert the values of live rows to the type of their column."""
    values = without_views(values)
    if not fits_type(values.type, field.type):
        raise SchemaMismatchError(
            "values do not fit their new column",
            [f"{field.name}: {values.type} cannot become {field.type}"],
            hint="choose a type that holds the values, or convert them with CAST in add_columns()",
        )
    misfit = first_misfit(values, field.type)
    if misfit is None and not field.nullable and values.null_count:
        misfit = values.is_null().index(pa.scalar(True)).as_py(), "a null"
    if misfit is None:
        return fit(values, field.type)
    at, why = misfit
    address = fragment.id << 32 | int(live[at])
    raise SchemaMismatchError(
        "values do not fit their new column",
        [f"{field.name}: {why} in the row with address {address}"],
        hint=f"change or null such values first, or choose a type that holds them; "
        f'the row: filter "_rowaddr = {address}"',
    )


def _stand_in(field: pa.Field, rows: int) -> pa.Array:
    """Return values for deleted rows, null if the column allows it."""
    nulls = null_column(field.type, rows)
    if field.nullable or nulls.type.num_fields:
        return nulls
    # Without the validity, the bytes of a null are those of a zero or of an empty string.
    return pa.Array.from_buffers(nulls.type, rows, [None, *nulls.buffers()[1:]])


def _spread(values: pa.Array, places: _Places, rows: int, field: pa.Field) -> pa.Array:
    """Return values at some rows; all others are null, or a placeholder where a value is required."""
    if len(values) == rows:
        return values
    at = np.full(rows, -1 if field.nullable else 0, np.int64)
    at[places] = np.arange(len(places))
    return values.take(pa.array(at, mask=at < 0))


def first_free_id(dataset: Dataset) -> int:
    """Return a field id that no column has, or had in a kept or recorded version; see `highest_given`."""
    return highest_given(dataset.store, dataset.manifest) + 1
