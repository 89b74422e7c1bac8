"""Input files: paths, directories and globs become a list of files; errors of pyarrow name the file."""

import fnmatch
import glob
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from lance_ops.errors import InvalidArgumentError, NotFoundError, StorageError
from lance_ops.maintenance.sources.byte_streams import COMPRESSIONS, filesystem_of
from lance_ops.storage.paths import is_address

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".avro": "avro",
}
_PLACE = "working directory"
_MOST_LOOKED_AT = 1000
# Messages of pyarrow about bytes that are not of a format.
_DAMAGED = re.compile(
    r"magic bytes|corrupt|CRC|size is 0 bytes|Expected to be able to read|[Ii]nvalid ORC|postscript|footer|"
    r"IPC|thrift",
    re.ASCII,
)
_KNOWN = f"known are {', '.join(_FORMATS)}, each also with {', '.join(COMPRESSIONS)}"


def expand(path: str, *, any_name: bool = False) -> list[tuple[str, int]]:
    """Return (path, bytes) of a file, of every known file below a directory, or of the matches of a glob.

    Files and folders whose names start with "." or "_" are skipped in directories, as by Spark and pyarrow:
    they are unfinished or metadata. A folder of a column (`_day=2024-05-01`) is not.

    Args:
        path: A path, URI or glob.
        any_name: Take files of a directory whatever their names end in.

    Raises:
        NotFoundError: Nothing was found.
    """
    if glob.has_magic(path.partition("?")[0] if is_address(path) else path):
        matches = _matches(path)
        if matches is not None:
            return [file for name in matches for file in expand(name, any_name=any_name)]
    with input_errors(path):
        filesystem, inner = filesystem_of(path)
        if isinstance(filesystem, pafs.LocalFileSystem):
            path = inner
        info = filesystem.get_file_info(inner)
        if info.type == pafs.FileType.NotFound:
            raise _no_such_file(path)
        if info.type == pafs.FileType.File:
            return [(path, info.size)]
        selected = filesystem.get_file_info(pafs.FileSelector(inner, recursive=True))
        start = len(inner.rstrip("/"))
        files = sorted(
            (_below(path, item.path[start:]), item.size)
            for item in selected
            if item.type == pafs.FileType.File
            and (any_name or _suffix(item.path))
            and not _is_hidden(item.path[start:])
        )
    if not files:
        raise NotFoundError("no input file of a known format in the directory", path=path, hint=_KNOWN)
    return files


def format_of(path: str) -> str:
    """Return the format of a file by its name, one of `read_options.FORMATS`.

    Raises:
        InvalidArgumentError: The extension is unknown.
    """
    suffix = _suffix(path)
    if suffix is None:
        raise InvalidArgumentError(
            "cannot determine the format of the input file from its name",
            path=path,
            hint=f"state it, such as format='csv' (--format csv); {_KNOWN}",
        )
    return _FORMATS[suffix]


@contextmanager
def input_errors(path: str) -> Iterator[None]:
    """Turn exceptions of pyarrow about an input file into errors of lance_ops with its name."""
    try:
        yield
    except FileNotFoundError as error:
        raise _no_such_file(path) from error
    except pa.ArrowException as error:
        if isinstance(error, OSError):
            raise _unreadable(path, error) from error
        hint = None
        if "Unrecognized filesystem type" in str(error):
            hint = f"pipe the file instead, for example: curl -s {path} | lance-ops append URI - --format csv"
        if hint is None and _DAMAGED.search(str(error)):
            raise _not_of_its_format(path, error) from error
        raise InvalidArgumentError(f"cannot read the input: {error}", path=path, hint=hint) from error
    except UnicodeError as error:
        raise InvalidArgumentError(
            "the name of an input file, folder or column is not UTF-8", path=path, hint="rename it"
        ) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> StorageError | InvalidArgumentError:
    if "Truncated compressed stream" in str(error):
        return InvalidArgumentError("the compressed file ends early", path=path, hint="write the file again")
    if "decompress failed" in str(error) or "inflate failed" in str(error):
        return InvalidArgumentError(
            f"the file is not compressed as its name says, or damaged: {error}",
            path=path,
            hint="rename it, or write it again",
        )
    if _DAMAGED.search(str(error)):
        return _not_of_its_format(path, error)
    return StorageError(f"cannot read the input: {error}", path=path)


def _no_such_file(path: str) -> NotFoundError:
    hint = f"check the path; a relative one starts at the {_PLACE}"
    if not is_address(path):
        with suppress(OSError):
            here = list(islice(Path(path).parent.iterdir(), _MOST_LOOKED_AT))
            # A suffix in common makes no name similar.
            stems = get_close_matches(_stem(path), map(_stem, here), len(here) or 1, cutoff=0.75)
            similar = {item.name: item for item in here if _stem(item) in stems}
            close = get_close_matches(Path(path).name, similar, 1, cutoff=0)
            hint = f"did you mean {str(similar[close[0]])!r}?" if close else hint
    return NotFoundError("no such input file", path=path, hint=hint)


def _stem(path: str | Path) -> str:
    return Path(path).name.partition(".")[0]


def _not_of_its_format(path: str, error: Exception) -> InvalidArgumentError:
    """Return the error for a file whose bytes are not of the format that it is read as."""
    detail = str(error).strip().splitlines()[0].partition(". Either")[0]
    return InvalidArgumentError(
        f"cannot read the input: it is damaged, or has another format than stated: {detail}",
        path=path,
        hint="write the file again; or state its format, such as format='csv' (--format csv)",
    )


def _matches(path: str) -> list[str] | None:
    """Return the matches of a glob; None for the name of a file that has such signs."""
    if not is_address(path):
        if Path(path).exists():
            return None
        found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - Path has no absolute globs
    else:
        with input_errors(path):
            found = _remote_matches(path)
    if not found:
        raise NotFoundError("no input file matches", path=path, hint=f"check the pattern and the {_PLACE}")
    return found


def _remote_matches(path: str) -> list[str]:
    """Return the matches below the last folder of an object store without signs of globs."""
    plain, mark, query = path.partition("?")
    parts = plain.split("/")
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    folder = "/".join(parts[:fixed])
    filesystem, inner = filesystem_of(folder + mark + query)
    selector = pafs.FileSelector(inner, recursive=True, allow_not_found=True)
    pattern = _pattern(parts[fixed:])
    start = len(inner.rstrip("/")) + 1 if inner.strip("/") else 0
    found = [item.path[start:] for item in filesystem.get_file_info(selector)]
    return sorted(f"{folder}/{name}{mark}{query}" for name in found if pattern.fullmatch(name))


def _pattern(parts: list[str]) -> re.Pattern[str]:
    """Return the pattern of a glob, in which ** stands for any number of folders."""
    text = ""
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part == "**":
            text += ".*" if is_last else "(?:.*/)?"
            continue
        # fnmatch's signs match slashes, too.
        one = fnmatch.translate(part).removeprefix("(?s:").rpartition(")")[0]
        text += one.replace(".*", "[^/]*") + ("" if is_last else "/")
    return re.compile(text, re.DOTALL)


def _below(folder: str, name: str) -> str:
    plain, mark, query = folder.partition("?") if is_address(folder) else (folder, "", "")
    return plain.rstrip("/") + name + mark + query


def _suffix(path: str) -> str | None:
    name = path.lower()
    if is_address(path):
        name = name.partition("?")[0]
    packed = next((ending for ending in COMPRESSIONS if name.endswith(ending)), "")
    name = name.removesuffix(packed)
    return next((suffix for suffix in _FORMATS if name.endswith(suffix)), None)


def _is_hidden(path: str) -> bool:
    *folders, name = path.split("/")
    return name.startswith((".", "_")) or any(
        folder.startswith((".", "_")) and "=" not in folder for folder in folders
    )
