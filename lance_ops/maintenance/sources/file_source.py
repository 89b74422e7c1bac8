"""File source: input files of one format as record batches, with the columns of folders."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, LanceOpsError, SchemaMismatchError
from lance_ops.maintenance.sources.avro_files import avro_batches, avro_schema
from lance_ops.maintenance.sources.columnar_files import (
    arrow_batches,
    arrow_schema,
    orc_batches,
    orc_schema,
    parquet_batches,
    parquet_rows,
    parquet_schema,
)
from lance_ops.maintenance.sources.folder_columns import (
    folder_fields,
    folder_values,
    infer_types,
    with_folder_columns,
)
from lance_ops.maintenance.sources.input_files import expand, format_of, input_errors
from lance_ops.maintenance.sources.merged_types import merge_parts
from lance_ops.maintenance.sources.read_options import ReadOptions
from lance_ops.maintenance.sources.views import plain_batches, schema_without_views

if TYPE_CHECKING:
    from lance_ops.maintenance.sources.csv_files import CsvFile
    from lance_ops.maintenance.sources.json_files import JsonFile

INFERRED = b"lance_ops:inferred"
"""Key in the metadata of a field of read schemas: it has no value, and nothing states its type."""

_TYPED = {
    "parquet": (parquet_schema, parquet_batches),
    "arrow": (arrow_schema, arrow_batches),
    "orc": (orc_schema, orc_batches),
    "avro": (avro_schema, avro_batches),
}


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files, all of one format, read one after the other.

    Attributes:
        paths: Paths or URIs of the files.
        kind: One of `read_options.FORMATS`.
        sizes: Bytes of each file.
        column_types: Types of the dataset for columns of text files, instead of inferred ones.
        folder_types: Types of the columns in the names of folders, see `folder_columns`.
        options: How they are read.
        label: Name of a single file in messages; its path if empty.
    """

    paths: tuple[str, ...]
    kind: str
    sizes: tuple[int, ...]
    column_types: tuple[tuple[str, pa.DataType], ...] = ()
    folder_types: tuple[tuple[str, pa.DataType], ...] = field(default=())
    options: ReadOptions = field(default_factory=ReadOptions)
    label: str = ""
    _schemas: dict[str, pa.Schema] = field(default_factory=dict, compare=False, repr=False)

    def read_schemas(self) -> Sequence[tuple[str, pa.Schema]]:
        """See `Source.read_schemas`; reads the head or foot of every file, and all of a JSON file."""
        types = dict(self.folder_types)
        found = []
        schemas = self._own_schemas()
        self._check_stated(schemas.values())
        for path, schema in schemas.items():
            with input_errors(self._shown(path)):
                whole = folder_fields(schema, path, types) if types else schema
            unknown = {item.name for item in whole if _is_unknown(item.type)}
            if unknown and (self._is_text or unknown & types.keys()):
                marked = [
                    item.with_metadata({INFERRED: b""}) if item.name in unknown else item for item in whole
                ]
                whole = pa.schema(marked, whole.metadata)
            found.append((self._shown(path), whole))
        return found

    def typed_by(self, schema: pa.Schema) -> "FileSource":
        """The same files, with the types of a dataset.

        Columns of text files and of folders are parsed as the types of `schema` where text can express them.

        Raises:
            SchemaMismatchError: The dataset lacks a column of the folders.
        """
        known = {item.name: item.type for item in schema}
        for name, kind in self.folder_types:
            if name not in known:
                raise _missing_column(name, kind, self.paths)
        source = replace(
            self, folder_types=tuple((name, known[name]) for name, _ in self.folder_types), _schemas={}
        )
        if not self._is_text:
            return source
        types = tuple(
            (name, kind)
            for name, kind in known.items()
            if not pa.types.is_null(kind) and (self.kind == "json" or not kind.num_fields)
        )
        return replace(source, column_types=types)

    def split(self, bytes_per_part: int) -> list["FileSource"]:
        """Return runs of files of at least `bytes_per_part` each, in order, for parallel tasks."""
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
        schemas = self._own_schemas() if self._is_text else {}
        for path in self.paths:
            with input_errors(self._shown(path)), self._named(path):
                for batch in plain_batches(self._rows(path, schemas.get(path))):
                    yield with_folder_columns(batch, path, types) if types else batch

    def num_rows(self) -> int | None:
        """See `Source.num_rows`; the feet of local Parquet files have it."""
        if self.kind != "parquet" or any("://" in path for path in self.paths):
            return None
        found = 0
        for path in self.paths:
            with input_errors(path):
                found += parquet_rows(path)
        return found

    @property
    def _is_text(self) -> bool:
        return self.kind in ("csv", "tsv", "json")

    def _own_schemas(self) -> dict[str, pa.Schema]:
        """Return the schemas of the files without folder columns, read once."""
        if all(path in self._schemas for path in self.paths):
            return {path: self._schemas[path] for path in self.paths}
        found: dict[str, pa.Schema] = {}
        for path in self.paths:
            with input_errors(self._shown(path)), self._named(path):
                found[path] = schema_without_views(self._read_schema(path))
        if self._is_text:
            found = self._merged(found)
        self._schemas.update(found)
        return found

    def _merged(self, found: dict[str, pa.Schema]) -> dict[str, pa.Schema]:
        """Return the schemas with one type for each column of all files; JSON files may lack columns."""
        types = merge_parts([(self._shown(path), schema) for path, schema in found.items()])
        if self.kind != "json":
            # A column without values stays so: text of another file does not make its nulls empty strings.
            return {
                path: pa.schema(
                    [
                        item if pa.types.is_null(item.type) else item.with_type(types[item.name])
                        for item in schema
                    ]
                )
                for path, schema in found.items()
            }
        if not types:
            types = dict(self._stated)
        if not types:
            raise InvalidArgumentError(
                "the input has no objects, and so no columns",
                path=self._shown(self.paths[0]),
                hint="create the dataset with its types first: "
                "lance_ops.write_dataset(pyarrow.schema([...]).empty_table(), uri)",
            )
        # Names of the files' own folders are columns of the folders, not of the objects.
        return dict.fromkeys(found, pa.schema(list(types.items())))

    def _check_stated(self, schemas: Iterable[pa.Schema]) -> None:
        """Refuse types of columns that no file has; objects of JSON may lack a column."""
        if self.kind == "json":
            return
        names = {name for schema in schemas for name in schema.names}
        for name, _ in self.options.column_types:
            if name not in names and name not in dict(self.folder_types):
                raise InvalidArgumentError(
                    f"no column {name!r} in the input, whose type is stated",
                    path=self._shown(self.paths[0]),
                    field="column_types",
                    hint=f"its columns are {', '.join(sorted(names))}",
                )

    def _read_schema(self, path: str) -> pa.Schema:
        if self._is_text:
            return self._text_file(path).read_schema()
        return _TYPED[self.kind][0](path)

    def _rows(self, path: str, schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
        if schema is not None:
            return self._text_file(path).batches(schema)
        return _TYPED[self.kind][1](path)

    def _text_file(self, path: str) -> "CsvFile | JsonFile":
        # Loading them is slow: most input is in files with columns.
        from lance_ops.maintenance.sources.csv_files import CsvFile
        from lance_ops.maintenance.sources.json_files import JsonFile

        if self.kind == "json":
            return JsonFile(path, self.options, self._stated)
        delimiter = self.options.delimiter or ("\t" if self.kind == "tsv" else ",")
        return CsvFile(path, self.options, delimiter, self._stated)

    @property
    def _stated(self) -> dict[str, pa.DataType]:
        # Folder columns are parsed from the names of folders, unless a file has them, too.
        folders = dict(self.folder_types).keys() if self.kind == "json" else ()
        known = {name: kind for name, kind in self.column_types if name not in folders}
        return {**known, **dict(self.options.column_types)}

    def _shown(self, path: str) -> str:
        return self.label or path

    def _named(self, path: str) -> "_Named":
        return _Named(path, self.label)


@dataclass(frozen=True, slots=True)
class _Named:
    """Replaces the path of a temporary file in errors by its label."""

    path: str
    label: str

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self.label and isinstance(error, LanceOpsError):
            error.args = tuple(str(text).replace(self.path, self.label) for text in error.args)
            error.message = error.message.replace(self.path, self.label)
            error.path = self.label if error.path == self.path else error.path


def open_files(paths: Iterable[str | Path], options: ReadOptions | None = None) -> FileSource:
    """Open a source of files, directories or globs; all of one format.

    Args:
        paths: Paths, URIs, directories or globs.
        options: How they are read.

    Raises:
        InvalidArgumentError: The files are of several formats, or of an unknown one; or an option does not
            apply to them.
        NotFoundError: A path matches nothing.
    """
    options = options or ReadOptions()
    found = [file for path in paths for file in expand(str(path), any_name=options.format is not None)]
    if not found:
        raise InvalidArgumentError("no input files were given", field="data")
    kinds = {format_of(path) for path, _ in found} if options.format is None else {options.format}
    if len(kinds) > 1:
        raise InvalidArgumentError(
            f"input files of several formats: {', '.join(sorted(kinds))}",
            field="data",
            hint="write one format after the other, or use a glob such as 'folder/**/*.csv'",
        )
    names = tuple(path for path, _ in found)
    kind = kinds.pop()
    _check_options(options, kind)
    return FileSource(
        names,
        kind,
        tuple(size for _, size in found),
        folder_types=tuple(infer_types(names).items()),
        options=options,
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
    unknown = {item.name for item in schema if _is_unknown(item.type)}
    found = {
        item.name: path
        for path, part in parts
        for item in part
        if item.name in unknown and INFERRED in (item.metadata or {})
    }
    if found:
        raise SchemaMismatchError(
            "the type of a column of the new dataset is unknown",
            [f"{name}: it has no values" for name in found],
            path=next(iter(found.values())),
            hint="start with a file that has values; or state the type of each, such as "
            "column_types={'name': 'string'} (--column-type name=string); or create the dataset with its "
            "types first: lance_ops.write_dataset(pyarrow.schema([...]).empty_table(), uri)",
        )


def _is_unknown(kind: pa.DataType) -> bool:
    return bool(pa.types.is_null(kind)) or any(
        _is_unknown(kind.field(number).type) for number in range(kind.num_fields)
    )


def _check_options(options: ReadOptions, kind: str) -> None:
    given = options.text_only
    if kind in ("csv", "tsv"):
        return
    if kind == "json":
        given = tuple(name for name in given if name != "encoding")
    elif options.column_types:
        given = (*given, "column_types")
    if given:
        raise InvalidArgumentError(f"the option does not apply to files of the format {kind}", field=given[0])


def _missing_column(name: str, kind: pa.DataType, paths: Iterable[str]) -> SchemaMismatchError:
    # Folders may write the name with percent escapes, or have it at the end of a longer name.
    found = ((path, folder_values(path)) for path in paths)
    path, text = next((path, values[name]) for path, values in found if name in values)
    sql = f"CAST(NULL AS {_SQL.get(kind, 'STRING')})"
    return SchemaMismatchError(
        f"the dataset has no column {name!r}, which the folders of the input files have ({name}={text})",
        [f"{name}: column not found in the dataset ({kind} in the names of folders)"],
        path=path,
        hint=f'add the column first: lance_ops.add_columns(uri, {{"{name}": "{sql}"}}) '
        f"(lance-ops add-columns URI --set '{name}={sql}'); or read the files without it: "
        "pass pyarrow.dataset.dataset(path)",
    )


_SQL = {pa.int64(): "BIGINT", pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP"}
