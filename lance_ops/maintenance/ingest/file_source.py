"""File source: Parquet, CSV, TSV or Arrow IPC files as record batches, with the columns of folders."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.maintenance.ingest.csv_input import (
    check_inferred,
    checked_doubles,
    is_about_utf8,
    is_utf16,
    not_utf8,
    parse_options,
    separator_hint,
)
from lance_ops.maintenance.ingest.folder_columns import (
    folder_fields,
    folder_values,
    infer_types,
    with_folder_columns,
)
from lance_ops.maintenance.ingest.input_files import expand, filesystem_of, format_of, input_errors, is_csv
from lance_ops.maintenance.ingest.views import plain_batches, schema_without_views

# It imports pandas if that is installed, which costs more than most appends: imported where needed.
if TYPE_CHECKING:
    import pyarrow.dataset as pads

_BATCH_ROWS = 65_536
_READ_AHEAD = 2


@dataclass(frozen=True, slots=True)
class FileSource:
    """Parquet, CSV, TSV or Arrow IPC files, all of one format, read one after the other.

    Attributes:
        paths: Paths or URIs of the files.
        kind: "parquet", "csv", "tsv" or "ipc".
        sizes: Bytes of each file.
        column_types: Types for CSV columns instead of inferred ones.
        folder_types: Types of the columns in the names of folders, see `folder_columns`.
    """

    paths: tuple[str, ...]
    kind: str
    sizes: tuple[int, ...]
    column_types: tuple[tuple[str, pa.DataType], ...] = ()
    folder_types: tuple[tuple[str, pa.DataType], ...] = field(default=())

    def read_schemas(self) -> Sequence[tuple[str, pa.Schema]]:
        """See `Source.read_schemas`; reads the head or foot of every file."""
        found, types = [], dict(self.folder_types)
        for path in self.paths:
            with self._errors(path):
                schema = schema_without_views(self._read_schema(path))
            found.append((path, folder_fields(schema, path, types) if types else schema))
        return found

    def typed_by(self, schema: pa.Schema) -> "FileSource":
        """The same files, with the types of a dataset.

        CSV columns and folder columns are parsed as the types of `schema` where CSV can express them.

        Raises:
            SchemaMismatchError: The dataset lacks a column of the folders.
        """
        known = {item.name: item.type for item in schema}
        for name, kind in self.folder_types:
            if name not in known:
                raise _missing_column(name, kind, self.paths)
        source = replace(self, folder_types=tuple((name, known[name]) for name, _ in self.folder_types))
        if self.kind not in ("csv", "tsv"):
            return source
        types = tuple(
            (name, kind) for name, kind in known.items() if not kind.num_fields and not pa.types.is_null(kind)
        )
        return replace(source, column_types=types)

    def split(self, bytes_per_part: int) -> list["FileSource"]:
        """Yield runs of files of at least `bytes_per_part` each, in order, for parallel tasks."""
        parts: list[FileSource] = []
        first = size = 0
        for position, file_size in enumerate(self.sizes, start=1):
            size += file_size
            if size >= bytes_per_part or position == len(self.paths):
                chosen = slice(first, position)
                parts.append(replace(self, paths=self.paths[chosen], sizes=self.sizes[chosen]))
                first, size = position, 0
        return parts

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `Source.batches`."""
        types = dict(self.folder_types)
        for path in self.paths:
            with self._errors(path):
                for batch in plain_batches(self._rows(path)):
                    yield with_folder_columns(batch, path, types) if types else batch

    def _rows(self, path: str) -> Iterator[pa.RecordBatch]:
        if self.kind == "parquet":
            return _parquet_batches(path)
        rows = scan(self._open(path))
        if self.kind == "ipc":
            return rows
        return checked_doubles(rows, path, self._delimiter, self._stated)

    def _read_schema(self, path: str) -> pa.Schema:
        if self.kind == "parquet":
            with _open_parquet(path) as file:
                return file.schema_arrow
        return self._open(path).schema

    def _open(self, path: str) -> "pads.Dataset":
        import pyarrow.dataset as pads

        filesystem, inner = filesystem_of(path)
        if self.kind == "ipc":
            return pads.dataset(inner, format=pads.IpcFileFormat(), filesystem=filesystem)
        types = dict(self.column_types)
        found = pads.dataset(inner, format=_csv_format(self._delimiter, types), filesystem=filesystem)
        schema = check_inferred(path, self._delimiter, found.schema, self._stated)
        if schema is found.schema or schema == found.schema:
            return found
        types |= {item.name: item.type for item in schema if pa.types.is_uint64(item.type)}
        return pads.dataset(inner, format=_csv_format(self._delimiter, types), filesystem=filesystem)

    @property
    def _delimiter(self) -> str:
        return "\t" if self.kind == "tsv" else ","

    @property
    def _stated(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.column_types)

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        with input_errors(path):
            if self.kind not in ("csv", "tsv"):
                yield
                return
            try:
                yield
            except (pa.ArrowInvalid, UnicodeDecodeError) as error:
                if is_about_utf8(error) or is_utf16(path):
                    raise not_utf8(
                        path, str(error) if isinstance(error, pa.ArrowInvalid) else "the header"
                    ) from error
                hint = separator_hint(path, self._delimiter)
                if hint is None:
                    raise
                raise InvalidArgumentError(f"cannot read the input: {error}", path=path, hint=hint) from error


def open_files(paths: Iterable[str | Path]) -> FileSource:
    """Open a source of files, directories or globs; all of one format, by their names.

    Raises:
        InvalidArgumentError: The files are of several formats, or of an unknown one.
        NotFoundError: A path matches nothing.
        SchemaMismatchError: A folder column is null in all files.
    """
    found = [file for path in paths for file in expand(str(path))]
    if not found:
        raise InvalidArgumentError("no input files were given", field="data")
    kinds = {format_of(path) for path, _ in found}
    if len(kinds) > 1:
        raise InvalidArgumentError(
            f"input files of several formats: {', '.join(sorted(kinds))}", field="data"
        )
    names = tuple(path for path, _ in found)
    return FileSource(
        names, kinds.pop(), tuple(size for _, size in found), folder_types=tuple(infer_types(names).items())
    )


def check_types_known(schema: pa.Schema, parts: Sequence[tuple[str, pa.Schema]]) -> None:
    """Check that no column of a new dataset would have type null, for lack of values.

    No value fits such a column, so that no later file could be appended.

    Args:
        schema: Schema of the new dataset.
        parts: Result of `Source.read_schemas`; only input files are checked.

    Raises:
        SchemaMismatchError: There is such a column; lists each.
    """
    unknown = {item.name for item in schema if pa.types.is_null(item.type)}
    found = {
        name: path
        for path, part in parts
        for name in part.names
        if name in unknown and (is_csv(path) or name in folder_values(path))
    }
    if found:
        raise SchemaMismatchError(
            "the type of a column of the new dataset is unknown",
            [f"{name}: it has no values" for name in found],
            path=next(iter(found.values())),
            hint="start with a file that has values; or create the dataset with its types, and append "
            "the file then: lance_ops.write_dataset(pyarrow.schema([...]).empty_table(), uri)",
        )


def scan(data: "pads.Dataset") -> Iterator[pa.RecordBatch]:
    """Yield batches of a pyarrow dataset, in bounded memory."""
    batches: Iterator[pa.RecordBatch] = data.scanner(
        batch_size=_BATCH_ROWS, batch_readahead=_READ_AHEAD, fragment_readahead=1
    ).to_batches()
    return batches


def _csv_format(delimiter: str, types: dict[str, pa.DataType]) -> "pads.CsvFileFormat":
    import pyarrow.dataset as pads

    return pads.CsvFileFormat(
        parse_options=parse_options(delimiter), convert_options=pacsv.ConvertOptions(column_types=types)
    )


def _missing_column(name: str, kind: pa.DataType, paths: Iterable[str]) -> SchemaMismatchError:
    # Folders may write the name with percent escapes, or have it at the end of a longer name.
    found = ((path, folder_values(path)) for path in paths)
    path, text = next((path, values[name]) for path, values in found if name in values)
    sql = f'{{"{name}": "CAST(NULL AS {_SQL.get(kind, "STRING")})"}}'
    return SchemaMismatchError(
        f"the dataset has no column {name!r}, which the folders of the input files have ({name}={text})",
        [f"{name}: column not found in the dataset ({kind} in the names of folders)"],
        path=path,
        hint=f"add the column first: lance_ops.add_columns(uri, {sql}); or read the files without it: "
        "pass pyarrow.dataset.dataset(path)",
    )


_SQL = {pa.int64(): "BIGINT", pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP"}


def _parquet_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Yield batches page by page; a scanner holds whole row groups, ten times the memory, and is slower."""
    with _open_parquet(path) as file:
        yield from file.iter_batches(_BATCH_ROWS)


@contextmanager
def _open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    filesystem, inner = filesystem_of(path)
    # Over a network one large request for a row group is faster than many small ones.
    with filesystem.open_input_file(inner) as file:
        yield pq.ParquetFile(file, pre_buffer="://" in path)
