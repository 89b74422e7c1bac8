"""Rows in the output of commands: a table for people, JSON values, or a file."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from lance_ops.cli.command import Call
from lance_ops.cli.output import print_rows, progress_listener
from lance_ops.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_ops.answers.rows_file import RowsFile
    from lance_ops.table.dataset import Dataset

_WIDTH = 60


def chosen_columns(columns: str | None) -> list[str] | None:
    """Return the names of `--columns`."""
    return None if columns is None else [name.strip() for name in columns.split(",")]


def check_output(output: str | None, file_format: str | None, *, overwrite: bool) -> None:
    """Refuse the options of a file without one.

    Raises:
        click.UsageError: `--format` or `--overwrite` without `--output`.
    """
    if output is None and (file_format is not None or overwrite):
        given = "--overwrite" if file_format is None else "--format"
        raise click.UsageError(f"{given} is an option of a file: add --output FILE, or - for standard output")


def print_table(call: Call, operation: str, dataset: "Dataset", table: "pa.Table") -> None:
    """Print rows of a dataset."""
    from lance_ops.answers.json_values import plain_rows

    rows = plain_rows(table)
    if call.as_json:
        call.show({"operation": operation, "uri": dataset.uri, "version": dataset.version, "rows": rows})
        return
    print_plain_rows(table.column_names, rows)


def print_plain_rows(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """Print rows of JSON values as a table; long values are cut."""
    print_rows(names, [[_short(value) for value in row.values()] for row in rows])


def write_file(
    rows: "pa.RecordBatchReader",
    output: str,
    file_format: str | None,
    *,
    overwrite: bool,
    operation: str,
    storage_options: "dict[str, str] | None" = None,
) -> "RowsFile | None":
    """Write rows to a file; None for standard output."""
    from lance_ops.answers.rows_file import Target
    from lance_ops.maintenance.progress import Reporter

    if output == "-":
        write_to_stdout(rows, file_format)
        return None
    target = Target.of(output, file_format, overwrite=overwrite, storage_options=storage_options)
    with progress_listener() as progress:
        return target.write(rows, Reporter(operation, progress))


def write_to_stdout(rows: "pa.RecordBatchReader", file_format: str | None) -> None:
    """Write rows to standard output.

    Raises:
        InvalidArgumentError: No format is chosen.
    """
    from lance_ops.answers.formats import format_of
    from lance_ops.answers.rows_file import write_rows
    from lance_ops.maintenance.progress import Reporter

    if file_format is None:
        raise InvalidArgumentError(
            "standard output has no suffix that names the format", field="format", hint="add --format csv"
        )
    sink = sys.stdout.buffer
    write_rows(rows, format_of("-", file_format), sink, Reporter("export"))
    sink.flush()


def told_of_file(written: "RowsFile") -> str:
    """Return a written file as text for people."""
    from lance_ops.maintenance.text import bytes_text, count_text

    told = f"{count_text(written.rows, 'row')} written to {written.output} ({bytes_text(written.bytes)})"
    if not written.lost_types:
        return told
    lost = ", ".join(map(str, written.lost_types))
    return f"{told}\n  {written.format} does not keep the types of {lost}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
