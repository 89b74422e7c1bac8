"""Sources: what callers hand in to be written, as a stream of record batches in bounded memory."""

import glob
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from lance_ops.errors import InvalidArgumentError, NotFoundError, SchemaMismatchError, StorageError
from lance_ops.maintenance.ingest.views import batch_without_views, has_views, schema_without_views

# It imports pandas where that is installed, which costs more than most appends: imported where it is needed.
if TYPE_CHECKING:
    import pyarrow.dataset as pads

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".csv.bz2": "csv",
    ".tsv": "tsv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}
_FOREIGN_METADATA = (b"PARQUET:field_id", b"org.apache.spark.version")
_BATCH_ROWS = 65_536
_READ_AHEAD = 2


class Source(Protocol):
    """Data to be written, without views of Arrow (see `views`); read once, in order."""

    def read_schemas(self) -> Sequence[tuple[str, pa.Schema]]:
        """(what, schema) of each part whose schema may differ: the input files, or the data as a whole."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows; the schema of a batch is that of its part."""
        ...


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Anything that gives record batches one after the other."""

    schema: pa.Schema
    stream: Iterable[pa.RecordBatch]

    def read_schemas(self) -> Sequence[tuple[str, pa.Schema]]:
        """See `Source.read_schemas`."""
        return (("the data", schema_without_views(self.schema)),)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `Source.batches`."""
        try:
            yield from _plain(self.stream)
        except pa.ArrowException as error:
            raise InvalidArgumentError(f"the data cannot be read: {error}", field="data") from error


@dataclass(frozen=True, slots=True)
class FileSource:
    """Parquet, CSV, TSV or Arrow IPC files, all of one format, read one after the other.

    Attributes:
        paths: Paths or URIs of the files.
        kind: "parquet", "csv", "tsv" or "ipc".
        sizes: Bytes of each file.
        column_types: Types for CSV columns instead of inferred ones.
    """

    paths: tuple[str, ...]
    kind: str
    sizes: tuple[int, ...]
    column_types: tuple[tuple[str, pa.DataType], ...] = ()

    def read_schemas(self) -> Sequence[tuple[str, pa.Schema]]:
        """See `Source.read_schemas`; reads the head or foot of every file."""
        found = []
        for path in self.paths:
            with _input_errors(path):
                found.append((path, schema_without_views(self._read_schema(path))))
        return found

    def typed_by(self, schema: pa.Schema) -> "FileSource":
        """The same files; CSV columns are parsed as the types of `schema` where CSV can express them."""
        if self.kind not in ("csv", "tsv"):
            return self
        types = tuple((item.name, item.type) for item in schema if not item.type.num_fields)
        return FileSource(self.paths, self.kind, self.sizes, types)

    def split(self, bytes_per_part: int) -> list["FileSource"]:
        """Runs of files of at least `bytes_per_part` each, in order, for parallel tasks."""
        parts: list[FileSource] = []
        first = size = 0
        for position, file_size in enumerate(self.sizes, start=1):
            size += file_size
            if size >= bytes_per_part or position == len(self.paths):
                chosen = slice(first, position)
                parts.append(FileSource(self.paths[chosen], self.kind, self.sizes[chosen], self.column_types))
                first, size = position, 0
        return parts

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `Source.batches`."""
        for path in self.paths:
            with _input_errors(path):
                rows = _parquet_batches(path) if self.kind == "parquet" else _scan(self._open(path))
                yield from _plain(rows)

    def _read_schema(self, path: str) -> pa.Schema:
        if self.kind == "parquet":
            with _open_parquet(path) as file:
                return file.schema_arrow
        return self._open(path).schema

    def _open(self, path: str) -> "pads.Dataset":
        import pyarrow.dataset as pads

        filesystem, inner = _filesystem(path)
        return pads.dataset(inner, format=self._format(), filesystem=filesystem)

    def _format(self) -> "pads.FileFormat":
        import pyarrow.dataset as pads

        if self.kind == "ipc":
            return pads.IpcFileFormat()
        return pads.CsvFileFormat(
            parse_options=pacsv.ParseOptions(delimiter="\t" if self.kind == "tsv" else ","),
            convert_options=pacsv.ConvertOptions(column_types=dict(self.column_types)),
        )


class _input_errors:  # noqa: N801 - reads as a statement
    """Turn what pyarrow raises while it reads an input file into errors of ours that name the file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise NotFoundError("no such input file", path=self.path) from error
        if isinstance(error, pa.ArrowException) and not isinstance(error, OSError):
            raise InvalidArgumentError(f"the input cannot be read: {error}", path=self.path) from error
        if isinstance(error, OSError):
            raise StorageError(f"the input cannot be read: {error}", path=self.path) from error


def open_source(data: Any) -> Source:
    """Make a source of whatever callers have.

    Args:
        data: A pyarrow Table, RecordBatch, RecordBatchReader or Dataset; an iterable of record batches (at
            least one); a pandas DataFrame, of whose index the named levels become columns; any object that
            exports an Arrow stream (Polars, DuckDB); or one or several paths, directories or globs of
            Parquet, CSV, TSV or Arrow IPC files.

    Raises:
        InvalidArgumentError: it is none of these.
        NotFoundError: a path matches nothing.
    """
    if isinstance(data, (str, Path)):
        return open_files([data])
    if isinstance(data, pa.Table):
        return StreamSource(data.schema, data.to_batches())
    if isinstance(data, pa.RecordBatch):
        return StreamSource(data.schema, [data])
    if isinstance(data, pa.RecordBatchReader):
        return StreamSource(data.schema, data)
    if _is_arrow_dataset(data):
        return StreamSource(data.schema, _scan(data))
    library = type(data).__module__.partition(".")[0]
    if library == "pyspark":
        # It exports an Arrow stream too, by collecting all rows in this process.
        raise InvalidArgumentError(
            "a Spark DataFrame is written by its executors, not through this process",
            field="data",
            hint="use lance_ops.spark.append_dataframe or merge_dataframe, or df.write.format('lance')",
        )
    if library == "pandas":
        return open_source(_table_of_frame(data))
    if hasattr(data, "__arrow_c_stream__"):
        return open_source(pa.RecordBatchReader.from_stream(data))
    if isinstance(data, Iterable) and not isinstance(data, Mapping):
        return _open_iterable(iter(data))
    raise _not_data(data)


def _table_of_frame(frame: Any) -> pa.Table:
    names = list(frame.index.names)
    if not any(name is not None for name in names):
        return pa.Table.from_pandas(frame, preserve_index=False)
    # Levels without a name count rows as a rule.
    unnamed = [number for number, name in enumerate(names) if name is None]
    if unnamed:
        frame = frame.reset_index(level=unnamed, drop=True)
    return pa.Table.from_pandas(frame, preserve_index=True)


def open_files(paths: Iterable[str | Path]) -> FileSource:
    """A source of files, directories or globs; all of one format, told by their names."""
    found = [file for path in paths for file in _expand(str(path))]
    if not found:
        raise InvalidArgumentError("no input files were given", field="data")
    kinds = {_kind(path) for path, _ in found}
    if len(kinds) > 1:
        raise InvalidArgumentError(
            f"input files of several formats: {', '.join(sorted(kinds))}", field="data"
        )
    return FileSource(tuple(path for path, _ in found), kinds.pop(), tuple(size for _, size in found))


def unify_schemas(parts: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """The schema of a dataset made from all parts of a source, without metadata that mean nothing in it.

    Raises:
        SchemaMismatchError: the parts contradict each other.
    """
    schemas = [schema for _, schema in parts]
    try:
        unified = pa.unify_schemas(schemas, promote_options="permissive") if len(schemas) > 1 else schemas[0]
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaMismatchError("the input files contradict each other", [str(error)]) from error
    fields = [item.with_metadata(_own_metadata(item.metadata)) for item in unified]
    return pa.schema(fields, metadata=_own_metadata(unified.metadata))


def _plain(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches without views; they are of one schema as a rule, whose types are looked at once."""
    seen: pa.Schema | None = None
    plain: pa.Schema | None = None
    for batch in batches:
        if seen is None or batch.schema != seen:
            seen = batch.schema
            plain = schema_without_views(seen) if any(map(has_views, seen.types)) else None
        yield batch if plain is None else batch_without_views(batch, plain)


def _own_metadata(metadata: dict[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    return {key: value for key, value in (metadata or {}).items() if key not in _FOREIGN_METADATA} or None


def _is_arrow_dataset(data: object) -> bool:
    # Whoever has one has imported its module.
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(data, module.Dataset)


def _scan(data: "pads.Dataset") -> Iterator[pa.RecordBatch]:
    batches: Iterator[pa.RecordBatch] = data.scanner(
        batch_size=_BATCH_ROWS, batch_readahead=_READ_AHEAD, fragment_readahead=1
    ).to_batches()
    return batches


def _parquet_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Page by page; a scanner would hold whole row groups, ten times the memory, and is slower."""
    with _open_parquet(path) as file:
        yield from file.iter_batches(_BATCH_ROWS)


@contextmanager
def _open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    filesystem, inner = _filesystem(path)
    # Over a network one large request for a row group beats many small ones.
    with filesystem.open_input_file(inner) as file:
        yield pq.ParquetFile(file, pre_buffer="://" in path)


def _open_iterable(items: Iterator[Any]) -> Source:
    first = next(items, None)
    if isinstance(first, (str, Path)):
        return open_files(chain([first], items))
    if not isinstance(first, (pa.RecordBatch, pa.Table)):
        raise _not_data(first)
    return StreamSource(first.schema, _flat(chain([first], items)))


def _flat(items: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    for item in items:
        if isinstance(item, pa.Table):
            yield from item.to_batches()
        elif isinstance(item, pa.RecordBatch):
            yield item
        else:
            raise _not_data(item)


def _not_data(data: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"cannot write {type(data).__name__} objects",
        field="data",
        hint="give an Arrow table, reader or batches, a pandas DataFrame, or paths of Parquet or CSV files",
    )


def _filesystem(path: str) -> tuple[pafs.FileSystem, str]:
    if "://" not in path:
        return pafs.LocalFileSystem(), path
    filesystem, inner = pafs.FileSystem.from_uri(path)
    return filesystem, inner


def _expand(path: str) -> list[tuple[str, int]]:
    """(path, size) of a file, of every known file below a directory, or of what a glob matches."""
    if "://" not in path and glob.has_magic(path) and not Path(path).exists():
        names = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - Path has no absolute globs
        if not names:
            raise NotFoundError("no input file matches", path=path)
        return [file for name in names for file in _expand(name)]
    with _input_errors(path):
        filesystem, inner = _filesystem(path)
        info = filesystem.get_file_info(inner)
        if info.type == pafs.FileType.NotFound:
            raise NotFoundError("no such input file", path=path)
        if info.type == pafs.FileType.File:
            return [(path, info.size)]
        selected = filesystem.get_file_info(pafs.FileSelector(inner, recursive=True))
    files = sorted(
        (path.rstrip("/") + item.path[len(inner.rstrip("/")) :], item.size)
        for item in selected
        if item.type == pafs.FileType.File
        and _suffix(item.path)
        and not item.base_name.startswith((".", "_"))
    )
    if not files:
        raise NotFoundError("no input file of a known format in the directory", path=path)
    return files


def _suffix(path: str) -> str | None:
    name = path.lower()
    return next((suffix for suffix in _FORMATS if name.endswith(suffix)), None)


def _kind(path: str) -> str:
    suffix = _suffix(path)
    if suffix is None:
        raise InvalidArgumentError(
            "cannot tell the format of the input file from its name",
            path=path,
            hint=f"known are {', '.join(_FORMATS)}",
        )
    return _FORMATS[suffix]
