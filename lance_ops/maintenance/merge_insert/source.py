"""Source of a merge: rows that fit the dataset, readable for every plan.

Large data that is not a table in memory is written to a temporary file that is mapped: the system decides how
much of it is in memory.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.file.schema.blob_fields import upgrade_batch
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.maintenance.ingest.conform import cast_hint, conform, find_mismatches
from lance_ops.maintenance.ingest.recast import convert, match_columns, schema_conflict
from lance_ops.maintenance.sources.open import open_source
from lance_ops.maintenance.sources.source import unify_schemas
from lance_ops.maintenance.text import count_text
from lance_ops.table.assemble import null_column
from lance_ops.table.dataset import Dataset
from lance_ops.table.join_keys import check_key_type

IN_MEMORY = 256 << 20
"""Bytes of a source above which it is written to disk."""


@dataclass(slots=True)
class SourceRows:
    """The rows of a source, in the types of the dataset.

    Attributes:
        schema: Its columns, in the order of the dataset.
        table: The rows, possibly on disk.
        leaving: Number of trailing rows whose keys are deletions.
        folder: Folder of its file; removed with this value.
    """

    schema: Schema
    table: pa.Table
    leaving: int = 0
    folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    @property
    def num_rows(self) -> int:
        """Rows of the source."""
        return int(self.table.num_rows)

    @property
    def staying(self) -> int:
        """Number of rows to write or compare; the deletions come after them."""
        return self.num_rows - self.leaving

    def close(self) -> None:
        """Remove the file."""
        if self.folder is not None:
            self.table = self.table.slice(0, 0)
            self.folder.cleanup()
            self.folder = None


def read_source(
    data: Any,
    target: Schema,
    on: Sequence[str],
    *,
    inserts: bool,
    uri: str,
    leaving: pa.Table | None = None,
) -> SourceRows:
    """Read the source of a merge, in the types of the dataset.

    Args:
        data: Data for `write_dataset`.
        target: Schema of the dataset.
        on: Key columns.
        inserts: Rows are inserted, with nulls in missing columns.
        uri: URI of the dataset, for errors.
        leaving: Keys of rows to delete.

    Raises:
        SchemaMismatchError: The data do not fit; lists every mismatch.
        InvalidArgumentError: There is no key, or a column cannot be one.
    """
    arrow = prepare_schema(target).arrow
    source = open_source(data).typed_by(arrow)
    given = unify_schemas(source.read_schemas())
    schema = source_schema(given, target, on, inserts=inserts, uri=uri)
    wanted = prepare_schema(schema).arrow
    batches = (fitted(batch, wanted) for batch in source.batches() if batch.num_rows)
    table, folder = _gather(batches, wanted, keeps=isinstance(data, pa.Table))
    if leaving is None or not leaving.num_rows:
        return SourceRows(schema, table, folder=folder)
    return SourceRows(schema, _with_keys(table, leaving, on), leaving.num_rows, folder)


def fit_source(source: SourceRows, base: Dataset, head: Dataset, on: Sequence[str], *, inserts: bool) -> None:
    """Convert a source that was read for a version to the schema of a later one, in place.

    Args:
        source: The rows.
        base: The version for which they were read.
        head: The later version.
        on: Key columns.
        inserts: Rows are inserted.

    Raises:
        CommitConflictError: A column of the source was dropped, or has an incompatible type.
        SchemaMismatchError: A value does not fit the new type.
    """
    sources, problems = match_columns(source.schema, base, head, adds_rows=inserts)
    problems += [f"key column {name!r} was renamed" for name in on if name not in sources]
    if problems:
        raise schema_conflict("merge_insert", head, problems)
    schema = head.lance_schema.select([name for name in head.lance_schema.names if name in sources])
    arrow = prepare_schema(schema).arrow
    columns = [
        pa.chunked_array(
            [convert(chunk, field) for chunk in source.table.column(sources[field.name]).chunks], field.type
        )
        for field in arrow
    ]
    source.schema, source.table = schema, pa.Table.from_arrays(columns, schema=arrow)


def source_schema(given: pa.Schema, target: Schema, on: Sequence[str], *, inserts: bool, uri: str) -> Schema:
    """Return the columns of the dataset in a source; see `read_source`.

    Args:
        given: Schema of the source.
        target: Schema of the dataset.
        on: Key columns.
        inserts: Rows are inserted.
        uri: URI of the dataset, for errors.

    Raises:
        SchemaMismatchError: The data do not fit; lists every mismatch.
        InvalidArgumentError: There is no key, or a column cannot be one.
    """
    arrow = prepare_schema(target).arrow
    _check_keys(given, arrow, on)
    named = set(given.names)
    schema = Schema(tuple(item for item in target.fields if item.name in named), target.metadata)
    problems = list(find_mismatches(given, prepare_schema(schema).arrow))
    if inserts:
        problems += [
            f"{item.name}: missing, and not nullable in inserted rows"
            for item in arrow
            if item.name not in named and not item.nullable
        ]
    if problems:
        hint = cast_hint(problems)
        raise SchemaMismatchError("the source does not fit the dataset", problems, path=uri, hint=hint)
    return schema


def fitted(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Convert rows of a source to the types of the dataset."""
    return conform(upgrade_batch(batch, wanted), wanted)


def _with_keys(table: pa.Table, keys: pa.Table, on: Sequence[str]) -> pa.Table:
    """Append deletions by key to rows, whose other columns are not read."""
    named = conform(
        keys.select(list(on)).combine_chunks().to_batches()[0], pa.schema(map(table.schema.field, on))
    )
    columns = [
        named.column(item.name) if item.name in on else null_column(item.type, keys.num_rows)
        for item in table.schema
    ]
    return pa.concat_tables([table, pa.table(columns, schema=table.schema)])


def _check_keys(given: pa.Schema, target: pa.Schema, on: Sequence[str]) -> None:
    for name in on:
        if name not in target.names:
            raise InvalidArgumentError(
                f"the dataset has no column {name!r}", field="on", hint=f"it has {', '.join(target.names)}"
            )
        if name not in given.names:
            raise InvalidArgumentError(
                f"the source has no key column {name!r}",
                field="on",
                hint=f"it has {', '.join(given.names)}",
            )
        check_key_type(name, target.field(name).type)
    if len(set(on)) != len(on):
        raise InvalidArgumentError("duplicate column in the key", field="on")


def _gather(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, keeps: bool
) -> tuple[pa.Table, "tempfile.TemporaryDirectory[str] | None"]:
    """All batches as a table, in memory or mapped from a file."""
    held: list[pa.RecordBatch] = []
    size = 0
    rest: Iterator[pa.RecordBatch] = iter(batches)
    for batch in rest:
        held.append(batch)
        size += batch.nbytes
        if size > IN_MEMORY and not keeps:
            break
    else:
        return pa.Table.from_batches(held, schema).combine_chunks(), None
    folder = tempfile.TemporaryDirectory(prefix="lance-ops-merge-")
    path = Path(folder.name) / "source.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in chain(held, rest):
            writer.write_batch(batch)
        held.clear()
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all(), folder


def refuse_duplicates(keys: pa.Table, firsts: "Any", doubled: "Any", *, numbered: bool = True) -> None:
    """Check for duplicate keys in a source.

    Args:
        keys: The key columns.
        firsts: The first row with the key of each row, int64.
        doubled: Numbers of the rows that repeat a key.
        numbered: Include row numbers in the error.

    Raises:
        InvalidArgumentError: There are duplicates; names the first key, and its rows.
    """
    if not len(doubled):
        return
    row = int(doubled[0])
    first = int(firsts[row])
    same = [first, *(int(item) for item in doubled if firsts[item] == first)]
    key = ", ".join(f"{name} = {keys[name][row]}" for name in keys.column_names)
    which = f"rows {', '.join(map(str, same[:5]))}" if numbered else count_text(len(same), "row")
    raise InvalidArgumentError(
        f"{which} of the source have the same key ({key}); {count_text(len(doubled), 'row')} of it repeat "
        "an earlier key",
        field="data",
        hint="keep one row for each key, or use on_duplicates='first'",
    )
