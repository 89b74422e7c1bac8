"""Input files: paths, directories and globs become a list of files; errors of pyarrow name the file."""

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from lance_ops.errors import InvalidArgumentError, NotFoundError, StorageError
from lance_ops.storage.paths import canonical_scheme, is_address, parse_location

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


def filesystem_of(path: str) -> tuple[pafs.FileSystem, str]:
    """Return the filesystem of a path or URI, and the path in it.

    Raises:
        InvalidArgumentError: The scheme is misspelt, see `parse_location`.
    """
    if not is_address(path):
        return pafs.LocalFileSystem(), path
    if parse_location(path).is_local:
        return pafs.LocalFileSystem(), parse_location(path).uri
    # With its query, in which pyarrow takes options.
    filesystem, inner = pafs.FileSystem.from_uri(canonical_scheme(path))
    return filesystem, inner


def expand(path: str) -> list[tuple[str, int]]:
    """Return (path, bytes) of a file, of every known file below a directory, or of the matches of a glob.

    Files and folders whose names start with "." or "_" are skipped in directories, as by Spark and pyarrow:
    they are unfinished or metadata. A folder of a column (`_day=2024-05-01`) is not.

    Raises:
        NotFoundError: Nothing was found.
    """
    if not is_address(path) and glob.has_magic(path) and not Path(path).exists():
        names = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - Path has no absolute globs
        if not names:
            raise NotFoundError("no input file matches", path=path)
        return [file for name in names for file in expand(name)]
    with input_errors(path):
        filesystem, inner = filesystem_of(path)
        if isinstance(filesystem, pafs.LocalFileSystem):
            path = inner
        info = filesystem.get_file_info(inner)
        if info.type == pafs.FileType.NotFound:
            raise NotFoundError("no such input file", path=path)
        if info.type == pafs.FileType.File:
            return [(path, info.size)]
        selected = filesystem.get_file_info(pafs.FileSelector(inner, recursive=True))
        start = len(inner.rstrip("/"))
        files = sorted(
            (path.rstrip("/") + item.path[start:], item.size)
            for item in selected
            if item.type == pafs.FileType.File and _suffix(item.path) and not _is_hidden(item.path[start:])
        )
    if not files:
        raise NotFoundError("no input file of a known format in the directory", path=path)
    return files


def format_of(path: str) -> str:
    """Return "parquet", "csv", "tsv" or "ipc", by the name of a file.

    Raises:
        InvalidArgumentError: The extension is unknown.
    """
    suffix = _suffix(path)
    if suffix is None:
        raise InvalidArgumentError(
            "cannot determine the format of the input file from its name",
            path=path,
            hint=f"known are {', '.join(_FORMATS)}",
        )
    return _FORMATS[suffix]


def is_csv(path: str) -> bool:
    """Return whether a name is that of a CSV or TSV file, whose types are inferred."""
    suffix = _suffix(path)
    return suffix is not None and _FORMATS[suffix] in ("csv", "tsv")


@contextmanager
def input_errors(path: str) -> Iterator[None]:
    """Turn exceptions of pyarrow about an input file into errors of lance_ops with its name."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError("no such input file", path=path) from error
    except pa.ArrowException as error:
        if isinstance(error, OSError):
            raise StorageError(f"cannot read the input: {error}", path=path) from error
        raise InvalidArgumentError(f"cannot read the input: {error}", path=path) from error
    except UnicodeError as error:
        raise InvalidArgumentError(
            "the name of an input file, folder or column is not UTF-8", path=path, hint="rename it"
        ) from error
    except OSError as error:
        raise StorageError(f"cannot read the input: {error}", path=path) from error


def _suffix(path: str) -> str | None:
    name = path.lower()
    return next((suffix for suffix in _FORMATS if name.endswith(suffix)), None)


def _is_hidden(path: str) -> bool:
    *folders, name = path.split("/")
    return name.startswith((".", "_")) or any(
        folder.startswith((".", "_")) and "=" not in folder for folder in folders
    )
