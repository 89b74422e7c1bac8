"""fsspec store: filesystems that obstore does not support, or for environments without obstore."""

import contextlib
import errno
import inspect
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa

from lance_ops.errors import (
    CorruptFileError,
    FileMissingError,
    InvalidArgumentError,
    LanceOpsError,
    StorageError,
    UnsupportedError,
)
from lance_ops.storage.failures import already_exists, translate_os_error
from lance_ops.storage.fsspec_options import install_hint, keyword_arguments
from lance_ops.storage.options import clean_options, conditional_put_disabled, plain_options, redact
from lance_ops.storage.paths import (
    BUCKET_SCHEMES,
    join_bucket,
    join_uri,
    split_bucket,
    temporary_name,
    validate_folder,
    validate_relative_path,
)
from lance_ops.storage.ranges import check_possible, plan_merged_reads, resolve_range
from lance_ops.storage.spooled_writer import SpooledWriter
from lance_ops.storage.store import BytesLike, Durability, ObjectInfo, Store, StoreWriter
from lance_ops.uri_secrets import hide_credentials

_GAP = 256 << 10
_MAX_MERGED = 16 << 20
_THREADS = 16

# Where an upload of a whole object is atomic and folders do not exist; elsewhere a write needs a rename.
_FLAT = BUCKET_SCHEMES | {"oss", "obs", "cos", "tos", "memory"}
# Filesystems whose recursive listing is one request, and which propagate errors.
_SOUND_FIND = frozenset({"s3", "s3a"})
# Where mode="create" was seen to decide races for exactly one writer.
_CONDITIONAL = frozenset({"s3", "s3a", "az", "abfs", "abfss"})
_MODIFIED_KEYS = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
_TAG_KEYS = ("ETag", "etag", "ino")


class FsspecStore:
    """A folder of an fsspec filesystem.

    Args:
        uri: A URL that fsspec knows; percent escapes are decoded for object stores only, as pylance does.
        options: Keyword arguments of the filesystem. For S3, Google and Azure the names of pylance's storage
            options work too.
    """

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        self._uri = uri
        self._options = clean_options(options)
        self._scheme = uri.split("://", 1)[0].split("::", 1)[0].lower()
        url = "/".join(part for part in split_bucket(uri) if part) if self._scheme in BUCKET_SCHEMES else uri
        try:
            self._fs, root = fsspec.core.url_to_fs(url, **keyword_arguments(self._scheme, self._options))
        except (ImportError, ValueError, TypeError) as error:
            raise InvalidArgumentError(
                (
                    f"unknown scheme {self._scheme}://"
                    if "Protocol not known" in str(error)
                    else f"fsspec cannot open this URI: {redact(str(error), self._options)}"
                ),
                path=uri,
                hint=install_hint(self._scheme, error),
            ) from None
        except OSError as error:
            # Some connect immediately, or look up a system library.
            # Of a library that is not found, the text lists all places.
            reason = redact(error.strerror or str(error).partition(": ")[0], self._options)
            raise StorageError(
                f"the filesystem of this URI cannot be reached: {reason}",
                path=uri,
                hint="check that the server runs and that the client of its scheme is installed completely",
            ) from None
        except Exception as error:  # noqa: BLE001 - every filesystem brings exceptions of its own library
            reason = redact(f"{type(error).__name__}: {error}", self._options)
            raise StorageError(f"the filesystem of this URI cannot be opened: {reason}", path=uri) from None
        self._root = str(root).rstrip("/")

    def __repr__(self) -> str:
        return f"FsspecStore({hide_credentials(self._uri)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (FsspecStore, (self._uri, self._options))

    @property
    def uri(self) -> str:
        """The URL of the root."""
        return self._uri

    @property
    def supports_put_if_absent(self) -> bool:
        """True for the filesystems whose exclusive upload was seen to be atomic (s3fs, adlfs)."""
        if self._scheme not in _CONDITIONAL or conditional_put_disabled(self._options):
            return False
        upload = getattr(self._fs, "_pipe_file", self._fs.pipe_file)
        # Releases without this argument would overwrite.
        return "mode" in inspect.signature(upload).parameters

    @property
    def server(self) -> Hashable:
        """See `TrustsServer.server`."""
        return (split_bucket(self._uri)[0], plain_options(self._options), "fsspec")

    def child(self, relative: str) -> Store:
        """See `Store.child`."""
        join = join_bucket if self._scheme in BUCKET_SCHEMES else join_uri
        return FsspecStore(join(self._uri, validate_relative_path(relative)), self._options)

    def _full(self, path: str) -> str:
        return f"{self._root}/{validate_relative_path(path)}"

    def _where(self, path: str) -> str:
        return join_uri(self._uri, path)

    @contextlib.contextmanager
    def _translated(self, path: str, *, reading: bool) -> Iterator[None]:
        try:
            yield
        except LanceOpsError:
            raise
        except OSError as error:
            reason = redact(error.strerror or str(error), self._options)
            where = self._where(path)
            raise translate_os_error(error, where, reading=reading, reason=reason) from None
        except Exception as error:  # noqa: BLE001 - every filesystem brings exceptions of its own library
            reason = redact(f"{type(error).__name__}: {error}", self._options)
            raise StorageError(f"the store failed: {reason}", path=self._where(path)) from None

    def _info(self, path: str) -> dict[str, Any]:
        full = self._full(path)
        with self._translated(path, reading=True):
            # A cached listing misses writes of others.
            self._fs.invalidate_cache()
            info: dict[str, Any] = self._fs.info(full)
        if info.get("type") == "directory":
            raise FileMissingError("no such file", path=self._where(path))
        return info

    # Reading

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """See `Store.read`."""
        check_possible(self._where(path), offset, length)
        if not length:
            length = resolve_range(self._where(path), offset, length, self.size(path))
        return self._read_ranges(path, [(offset, length)])[0]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """See `Store.read_ranges`."""
        for offset, length in ranges:
            check_possible(self._where(path), offset, length)
        return self._read_ranges(path, ranges)

    def _read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        full = self._full(path)
        results = [pa.py_buffer(b"")] * len(ranges)
        reads = plan_merged_reads(ranges, gap=_GAP, max_length=_MAX_MERGED)
        if not reads:
            return results
        try:
            with self._translated(path, reading=True):
                chunks = self._fs.cat_ranges(
                    [full] * len(reads),
                    [read.offset for read in reads],
                    [read.offset + read.length for read in reads],
                    on_error="raise",
                )
        except StorageError:
            # Filesystems report a range beyond the end in many ways.
            self._check_ranges(path, ranges)
            raise
        for read, chunk in zip(reads, chunks, strict=True):
            buffer = pa.py_buffer(chunk)
            if buffer.size != read.length:
                self._check_ranges(path, ranges)
                if buffer.size != self.size(path):
                    raise CorruptFileError("the file changed while it was read", path=self._where(path))
                # A server may answer a request for a range with the whole file, as HTTP allows.
                buffer = buffer.slice(read.offset, read.length)
            for index in read.parts:
                offset, length = ranges[index]
                results[index] = buffer.slice(offset - read.offset, length)
        return results

    def _check_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> None:
        size = self.size(path)
        for offset, length in ranges:
            resolve_range(self._where(path), offset, length, size)

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        """See `Store.read_tail`."""
        check_possible(self._where(path), 0, length)
        size = self.size(path)
        length = min(length, size)
        return self._read_ranges(path, [(size - length, length)])[0], size

    def size(self, path: str) -> int:
        """See `Store.size`."""
        return int(self._info(path)["size"])

    def exists(self, path: str) -> bool:
        """See `Store.exists`."""
        try:
            self._info(path)
        except FileMissingError:
            return False
        return True

    # Writing

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, durable: Durability = "now"
    ) -> None:
        """See `Store.put`."""
        del durable  # fsspec knows no flushing
        self._publish(path, bytes(memoryview(data).cast("B")), if_absent=if_absent)

    def open_writer(self, path: str, *, if_absent: bool = False, durable: Durability = "now") -> StoreWriter:
        """See `Store.open_writer`."""
        del durable  # fsspec knows no flushing
        self._full(path)
        if if_absent:
            self._require_put_if_absent(path)
        return SpooledWriter(self._where(path), lambda data: self._publish(path, data, if_absent=if_absent))

    def copy(self, src: str, dst: str, *, if_absent: bool = False) -> None:
        """See `Store.copy`."""
        source = self._full(src)
        validate_relative_path(dst)
        self._info(src)
        if if_absent:
            self.put(dst, self.read(src), if_absent=True)
            return
        with self._translated(dst, reading=False), self._target(dst) as target:
            self._fs.cp_file(source, target)

    def _publish(self, path: str, data: bytes | Path, *, if_absent: bool) -> None:
        if if_absent:
            self._require_put_if_absent(path)
            self._create(path, data)
            return
        with self._translated(path, reading=False), self._target(path) as target:
            if isinstance(data, Path):
                self._fs.put_file(str(data), target)
            else:
                self._fs.pipe_file(target, data)

    def _require_put_if_absent(self, path: str) -> None:
        if not self.supports_put_if_absent:
            raise UnsupportedError("the filesystem has no put-if-absent", path=self._where(path))

    def _create(self, path: str, data: bytes | Path) -> None:
        full = self._full(path)
        with self._translated(path, reading=False):
            try:
                if isinstance(data, Path):
                    self._fs.put_file(str(data), full, mode="create")
                else:
                    self._fs.pipe_file(full, data, mode="create")
            except OSError as error:
                # s3fs says "invalid argument" when the precondition did not hold.
                if error.errno == errno.EINVAL and "condition" in str(error).lower():
                    raise already_exists(self._where(path)) from None
                raise

    @contextlib.contextmanager
    def _target(self, path: str) -> Iterator[str]:
        """Return a temporary path to write to, renamed afterwards so that the object appears atomically."""
        full = self._full(path)
        if self._scheme in _FLAT:
            yield full
            return
        folder = full.rpartition("/")[0]
        temporary = f"{folder}/{temporary_name(full)}"
        self._fs.makedirs(folder, exist_ok=True)
        try:
            yield temporary
            self._fs.mv(temporary, full)
        except BaseException:
            with contextlib.suppress(Exception):
                self._fs.rm_file(temporary)
            raise

    # Listing and deleting

    def list_dirs(self, prefix: str) -> list[str]:
        """See `Store.list_dirs`."""
        full = self._folder(prefix)
        self._fs.invalidate_cache()
        names = []
        for name, info in self._entries(full, prefix):
            if info["type"] != "directory":
                continue
            # Folders may exist of themselves, also behind a server that seems to have none.
            if next(self._walk(name, prefix), None) is not None:
                names.append(name.rpartition("/")[2])
        return sorted(names)

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        full = self._folder(prefix)
        self._fs.invalidate_cache()
        found = self._find(full, prefix) if self._scheme in _SOUND_FIND else self._walk(full, prefix)
        cut = len(self._root) + 1
        infos = [
            ObjectInfo(name[cut:], int(info.get("size") or 0), _modified(info), _mark(info))
            for name, info in found
            if start_after is None or name[cut:] > start_after
        ]
        infos.sort(key=lambda info: info.path)
        return iter(infos)

    def _folder(self, prefix: str) -> str:
        folder = validate_folder(prefix)
        return f"{self._root}/{folder}" if folder else self._root

    def _find(self, full: str, prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the recursive listing of a filesystem."""
        try:
            with self._translated(prefix, reading=True):
                found = self._fs.find(full, detail=True)
        except FileMissingError:
            return
        for name, info in found.items():
            # A file instead of a folder is listed as itself.
            if name.startswith(full + "/"):
                yield name, info

    def _walk(self, full: str, prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield all files below a folder.

        Not `fs.find`, nor `fs.walk`, which take a folder that cannot be listed for an empty one.
        """
        for name, info in self._entries(full, prefix):
            if info["type"] != "directory":
                yield name, info
            elif not info.get("islink"):
                yield from self._walk(name, prefix)

    def _entries(self, full: str, prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the names and the properties of what is directly in a folder."""
        try:
            with self._translated(prefix, reading=True):
                entries = list(self._fs.ls(full, detail=True))
        except FileMissingError:
            return
        for info in entries:
            name = str(info["name"]).rstrip("/")
            # Some filesystems have a root with a slash, and list files without it.
            if self._root.startswith("/") and not name.startswith("/"):
                name = "/" + name
            elif name.startswith("/") and not self._root.startswith("/"):
                name = name.lstrip("/")
            if name.startswith(full + "/"):
                yield name, info
            elif not name.startswith(full):
                raise StorageError(
                    f"the listing names an object outside the folder: {name!r}", path=self._where(prefix)
                )

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        full = self._full(path)
        try:
            with self._translated(path, reading=True):
                self._fs.rm_file(full)
        except FileMissingError:
            return

    def delete_many(self, paths: Iterable[str]) -> None:
        """See `Store.delete_many`."""
        known = list(paths)
        if len(known) < 2:
            for path in known:
                self.delete(path)
            return
        with ThreadPoolExecutor(min(_THREADS, len(known))) as pool:
            for _ in pool.map(self.delete, known):
                pass


def _mark(info: Mapping[str, Any]) -> str:
    known = [info.get("size"), *(info.get(key) for key in (*_TAG_KEYS, *_MODIFIED_KEYS))]
    return ".".join(str(value) for value in known if value is not None)


def _modified(info: Mapping[str, Any]) -> datetime:
    for key in _MODIFIED_KEYS:
        value = info.get(key)
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
    # Unknown counts as new: cleanup must never treat such a file as old.
    return datetime.now(UTC)
