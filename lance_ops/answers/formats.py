"""File formats of exports: Parquet, Arrow, CSV, TSV, JSON and JSON lines, each written as a stream."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from lance_ops.answers.json_values import plain_rows
from lance_ops.answers.text_columns import LostType, csv_table, types_lost_in_csv, types_lost_in_json
from lance_ops.errors import InvalidArgumentError, UnsupportedTypeError

_SUFFIXES = {
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "csv": "csv",
    "tsv": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "json",
}
_COMPRESSIONS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_BINARY = frozenset({"parquet", "arrow"})
FORMATS = tuple(dict.fromkeys(_SUFFIXES.values()))
"""Names of the formats."""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format, and the compression of the whole file.

    Attributes:
        name: One of `FORMATS`.
        compression: "gzip", "bz2" or "zstd" for text files with such a suffix; None otherwise.
    """

    name: str
    compression: str | None = None


class Writer(Protocol):
    """Writes tables of one schema to a file."""

    def write_table(self, table: pa.Table) -> None:
        """Append rows."""

    def close(self) -> None:
        """Write the end of the file; the sink stays open."""


def format_of(name: str, chosen: str | None = None, *, field: str = "format") -> Format:
    """Return the format of a file.

    Args:
        name: Name of the file; its suffix decides, such as `.parquet`, `.csv` or `.jsonl.gz`.
        chosen: One of `FORMATS`, which overrules the suffix.
        field: Name of the option for errors.

    Raises:
        InvalidArgumentError: Neither names a format.

    Example:
        >>> format_of("rows.csv.gz")
        Format(name='csv', compression='gzip')
    """
    parts = name.rpartition("/")[2].lower().split(".")[1:]
    compression = _COMPRESSIONS.get(parts[-1]) if parts else None
    suffix = (parts[:-1] if compression else parts)[-1:]
    found = chosen.lower() if chosen is not None else _SUFFIXES.get(suffix[0]) if suffix else None
    known = ", ".join(FORMATS)
    if found not in FORMATS:
        if chosen is not None:
            raise InvalidArgumentError(f"unknown format {chosen!r}", field=field, hint=f"use one of {known}")
        raise InvalidArgumentError(
            f"cannot tell the format of {name!r} from its name",
            field=field,
            hint='end the name in .parquet, .arrow, .csv, .tsv, .jsonl or .json, or pass format="csv"',
        )
    if compression is not None and found in _BINARY:
        raise InvalidArgumentError(
            f"{found} files are compressed inside, got the suffix .{parts[-1]}",
            field=field,
            hint=f"drop .{parts[-1]} from the name",
        )
    return Format(found, compression)


def lost_types(schema: pa.Schema, chosen: Format) -> tuple[LostType, ...]:
    """Return the columns whose types a reader of the file does not get back."""
    if chosen.name in _BINARY:
        return ()
    return (types_lost_in_csv if chosen.name in {"csv", "tsv"} else types_lost_in_json)(schema)


def open_format(chosen: Format, schema: pa.Schema, sink: Any) -> Writer:
    """Start a file.

    Args:
        chosen: Its format.
        schema: Of all tables.
        sink: Receives the bytes; an object with `write`.

    Raises:
        UnsupportedTypeError: The format, in the installed release of pyarrow, cannot hold a column.
    """
    try:
        return _WRITERS[chosen.name](schema, sink)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise refused_type(chosen, schema, error) from error


def refused_type(chosen: Format, schema: pa.Schema, error: Exception) -> UnsupportedTypeError:
    """Return the error for columns that a format cannot hold; those that fail alone are named."""
    refused = [field for field in schema if not _holds(chosen, field)]
    columns = ", ".join(f"{field.name} ({field.type})" for field in refused)
    said = f"cannot hold {columns}" if refused else f"cannot hold these rows: {error}".splitlines()[0]
    others = [name for name in ("parquet", "arrow", "jsonl") if name != chosen.name]
    return UnsupportedTypeError(
        f"a file of the format {chosen.name}, as pyarrow {pa.__version__} writes it, {said}",
        field=", ".join(field.name for field in refused) or None,
        hint=f"leave such columns out, or export to {' or '.join(others)}",
    )


def _holds(chosen: Format, field: pa.Field) -> bool:
    schema = pa.schema([field])
    try:
        writer = _WRITERS[chosen.name](schema, io.BytesIO())
        writer.write_table(schema.empty_table())
        writer.close()
    except (pa.ArrowException, TypeError, ValueError):
        return False
    return True


class _Delimited:
    """Writer of CSV: a header, strings in quotes, nulls as nothing."""

    def __init__(self, schema: pa.Schema, sink: Any, delimiter: str) -> None:
        import pyarrow.csv as pacsv

        options = pacsv.WriteOptions(delimiter=delimiter)
        self._writer = pacsv.CSVWriter(sink, csv_table(schema.empty_table()).schema, write_options=options)

    def write_table(self, table: pa.Table) -> None:
        self._writer.write_table(csv_table(table))

    def close(self) -> None:
        self._writer.close()


class _Json:
    """Writer of JSON: a line for each row, or an array of them."""

    def __init__(self, sink: Any, *, array: bool) -> None:
        self._sink = sink
        self._first, self._between, self._last = ("[\n", ",\n", "\n]\n") if array else ("", "\n", "\n")
        self._any = False

    def write_table(self, table: pa.Table) -> None:
        lines = [json.dumps(row, ensure_ascii=False) for row in plain_rows(table)]
        if lines:
            lead = self._between if self._any else self._first
            self._any = True
            self._sink.write((lead + self._between.join(lines)).encode())

    def close(self) -> None:
        if self._any:
            self._sink.write(self._last.encode())
        elif self._first:
            self._sink.write(b"[]\n")


class _Parquet:
    """Writer of Parquet; the Arrow schema in the file keeps all types."""

    def __init__(self, schema: pa.Schema, sink: Any) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(sink, schema, compression="zstd")

    def write_table(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        self._writer.close()


_WRITERS: Mapping[str, Callable[[pa.Schema, Any], Writer]] = {
    "parquet": _Parquet,
    "arrow": lambda schema, sink: pa.ipc.new_file(sink, schema),
    "csv": lambda schema, sink: _Delimited(schema, sink, ","),
    "tsv": lambda schema, sink: _Delimited(schema, sink, "\t"),
    "jsonl": lambda _, sink: _Json(sink, array=False),
    "json": lambda _, sink: _Json(sink, array=True),
}
