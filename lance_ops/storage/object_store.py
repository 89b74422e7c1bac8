"""Object stores (S3, Google Cloud Storage, Azure Blob) through obstore, natively.

obstore's own fsspec adapter is never used: there, put-if-absent silently overwrites.
"""

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
import obstore.store
import pyarrow as pa
from obstore import exceptions

from lance_ops.errors import (
    CorruptFileError,
    FileMissingError,
    InvalidArgumentError,
    LanceOpsError,
    StorageError,
    UnsupportedError,
)
from lance_ops.storage.failures import already_exists, missing, permission_denied, translate_os_error
from lance_ops.storage.options import conditional_put_disabled, redact
from lance_ops.storage.paths import (
    join_bucket,
    join_uri,
    split_bucket,
    validate_folder,
    validate_relative_path,
)
from lance_ops.storage.ranges import check_not_negative, plan_merged_reads, resolve_range
from lance_ops.storage.spooled_writer import SpooledWriter
from lance_ops.storage.store import BytesLike, Durability, ObjectInfo, Store, StoreWriter

_GAP = 1 << 20
_MAX_MERGED = 16 << 20
_CONCURRENCY = 16
_LIST_PAGE = 1000
_DELETE_PAGE = 1000

# Options of HTTP clients, which obstore takes apart from those of the store.
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)
_DURATIONS = frozenset({"connect_timeout", "pool_idle_timeout", "read_timeout", "timeout"})
# Options of the peer or of other stores here that mean nothing to obstore, so that one set serves all.
_IGNORED = frozenset(
    {
        "ddbtablename",
        "download_retry_count",
        "dynamodb_endpoint",
        "expires_at_millis",
        "fsync",
        "memory_map",
        "s3_credentials_refresh_offset_seconds",
        "use_opendal",
    }
)
# Listings report refused access as any other failure.
_DENIED = re.compile(r"status code: 40[13]\b")
_UNKNOWN_KEY = re.compile(r"Configuration key: '([^']*)'")


class ObjectStore:
    """A prefix of a bucket.

    Args:
        uri: `s3://bucket/prefix` and the like; percent escapes in it are decoded, as the peer does.
        options: Storage options with the names that the peer takes (`aws_access_key_id`, `aws_region`,
            `aws_endpoint`, `allow_http`, `client_max_retries`, `timeout`, ...). `aws_conditional_put` =
            "disabled" says that the server ignores conditional writes.
        native: An obstore store of the whole bucket, instead of a new connection; not picklable then.
    """

    def __init__(self, uri: str, options: Mapping[str, str] | None = None, native: Any = None) -> None:
        self._uri = uri
        self._options = {str(key): str(value) for key, value in (options or {}).items()}
        bucket, prefix = split_bucket(uri)
        self._injected = native
        self._store = native if native is not None else _connect(bucket, tuple(sorted(self._options.items())))
        self._lead = prefix + "/" if prefix else ""

    def __repr__(self) -> str:
        return f"ObjectStore({self._uri!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (ObjectStore, (self._uri, self._options, self._injected))

    @property
    def uri(self) -> str:
        """The URI of the prefix."""
        return self._uri

    @property
    def supports_put_if_absent(self) -> bool:
        """True unless the options say that the server lacks conditional writes."""
        return not conditional_put_disabled(self._options)

    def child(self, relative: str) -> Store:
        """See `Store.child`."""
        return ObjectStore(join_bucket(self._uri, relative), self._options, self._injected)

    def _key(self, path: str) -> str:
        return self._lead + validate_relative_path(path)

    def _where(self, path: str) -> str:
        return join_uri(self._uri, path)

    @contextlib.contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except (exceptions.BaseError, OSError) as error:
            # The text of the cause may hold secrets that the translated one does not.
            raise self._translate(error, self._where(path)) from None

    def _translate(self, error: Exception, where: str) -> LanceOpsError:
        reason = redact(str(error).split("\n\nDebug source", 1)[0].strip(), self._options)
        if isinstance(error, FileNotFoundError):
            return missing(where)
        if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError):
            return already_exists(where)
        denied = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
        if denied or _DENIED.search(reason):
            return permission_denied(where, reason)
        if isinstance(error, exceptions.NotSupportedError):
            return UnsupportedError(f"the store cannot do this: {reason}", path=where)
        if isinstance(error, OSError):
            return translate_os_error(error, where, reading=True)
        return StorageError(f"the store failed: {reason}", path=where)

    # Reading

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """See `Store.read`."""
        where = self._where(path)
        check_not_negative(where, offset, length)
        key = self._key(path)
        if length is None and offset == 0:
            with self._translated(path):
                return pa.py_buffer(obstore.get(self._store, key).bytes())
        if not length:
            length = resolve_range(where, offset, length, self.size(path))
        return self._read_range(path, offset, length) if length else pa.py_buffer(b"")

    def _read_range(self, path: str, offset: int, length: int) -> pa.Buffer:
        where = self._where(path)
        try:
            with self._translated(path):
                data = obstore.get_range(self._store, self._key(path), start=offset, length=length)
        except StorageError:
            # Stores report a range beyond the end in many ways; asking for the size costs a request only now.
            resolve_range(where, offset, length, self.size(path))
            raise
        if len(data) != length:
            resolve_range(where, offset, length, self.size(path))
            raise CorruptFileError("the object changed while it was read", path=where)
        return pa.py_buffer(data)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """See `Store.read_ranges`."""
        # Not obstore.get_ranges: it panics on ranges beyond the end, which damaged metadata ask for.
        for offset, length in ranges:
            check_not_negative(self._where(path), offset, length)
        results = [pa.py_buffer(b"")] * len(ranges)
        reads = plan_merged_reads(ranges, gap=_GAP, max_length=_MAX_MERGED)
        buffers = _map_threads(lambda read: self._read_range(path, read.offset, read.length), reads)
        for read, buffer in zip(reads, buffers, strict=True):
            for index in read.parts:
                offset, length = ranges[index]
                results[index] = buffer.slice(offset - read.offset, length)
        return results

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        """See `Store.read_tail`."""
        check_not_negative(self._where(path), 0, length)
        key = self._key(path)
        if length == 0:
            return pa.py_buffer(b""), self.size(path)
        try:
            with self._translated(path):
                result = obstore.get(self._store, key, options={"range": {"suffix": length}})
                return pa.py_buffer(result.bytes()), int(result.meta["size"])
        except (StorageError, UnsupportedError):
            # Azure has no suffix ranges, and an empty object has no range at all.
            size = self.size(path)
            return self.read(path, max(0, size - length), min(length, size)), size

    def size(self, path: str) -> int:
        """See `Store.size`."""
        key = self._key(path)
        with self._translated(path):
            return int(obstore.head(self._store, key)["size"])

    def exists(self, path: str) -> bool:
        """See `Store.exists`."""
        try:
            self.size(path)
        except FileMissingError:
            return False
        return True

    # Writing

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, durable: Durability = "now"
    ) -> None:
        """See `Store.put`."""
        del durable  # what the service has confirmed is
        self._upload(path, memoryview(data).cast("B"), if_absent=if_absent)

    def _upload(self, path: str, data: memoryview | bytes | Path, *, if_absent: bool) -> None:
        key = self._key(path)
        if if_absent:
            self._require_put_if_absent(path)
        with self._translated(path):
            obstore.put(self._store, key, data, mode="create" if if_absent else "overwrite")

    def _require_put_if_absent(self, path: str) -> None:
        if not self.supports_put_if_absent:
            raise UnsupportedError("the store has no put-if-absent", path=self._where(path))

    def open_writer(self, path: str) -> StoreWriter:
        """See `Store.open_writer`."""
        self._key(path)
        return SpooledWriter(self._where(path), lambda data: self._upload(path, data, if_absent=False))

    def copy(self, src: str, dst: str, *, if_absent: bool = False) -> None:
        """See `Store.copy`."""
        source, target = self._key(src), self._key(dst)
        if if_absent:
            # Few stores copy conditionally, all that matter put conditionally, and only manifests need it.
            self._require_put_if_absent(dst)
            self._upload(dst, memoryview(self.read(src)).cast("B"), if_absent=True)
            return
        with self._translated(src):
            obstore.copy(self._store, source, target)

    # Listing and deleting

    def list_dirs(self, prefix: str) -> list[str]:
        """See `Store.list_dirs`."""
        lead = self._folder(prefix)
        with self._translated(prefix):
            found = obstore.list_with_delimiter(self._store, lead or None)["common_prefixes"]
        return sorted(key.rstrip("/").rpartition("/")[2] for key in found)

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        return self._list(self._folder(prefix), start_after)

    def _folder(self, prefix: str) -> str:
        folder = validate_folder(prefix)
        return self._lead + folder + "/" if folder else self._lead

    def _list(self, lead: str, start_after: str | None) -> Iterator[ObjectInfo]:
        pages = iter(
            obstore.list(
                self._store,
                lead or None,
                offset=None if start_after is None else self._lead + start_after,
                chunk_size=_LIST_PAGE,
            )
        )
        found = self._infos(pages, lead)
        if not _lists_in_order(self._store):
            found = iter(sorted(found, key=lambda info: info.path))
        for info in found:
            if start_after is None or info.path > start_after:
                yield info

    def _infos(self, pages: Iterator[Any], lead: str) -> Iterator[ObjectInfo]:
        cut = len(self._lead)
        while True:
            with self._translated(lead[cut:]):
                page = next(pages, None)
            if page is None:
                return
            for entry in page:
                # Consoles mark a folder by an empty object with the key of the folder itself.
                if entry["path"].startswith(lead):
                    yield ObjectInfo(entry["path"][cut:], int(entry["size"]), entry["last_modified"])

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        key = self._key(path)
        try:
            with self._translated(path):
                obstore.delete(self._store, key)
        except FileMissingError:
            return

    def delete_many(self, paths: Iterable[str]) -> None:
        """See `Store.delete_many`."""
        known = list(paths)
        keys = [self._key(path) for path in known]
        for start in range(0, len(keys), _DELETE_PAGE):
            try:
                with self._translated(known[start]):
                    obstore.delete(self._store, keys[start : start + _DELETE_PAGE])
            except FileMissingError:
                # Stores without a bulk request stop at the first one that is missing.
                _map_threads(self.delete, known[start : start + _DELETE_PAGE])


def _map_threads(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    if len(items) <= 1:
        return [function(item) for item in items]
    # Made for this call: threads that wait in a pool would not survive the fork of a Spark worker.
    with ThreadPoolExecutor(min(_CONCURRENCY, len(items))) as pool:
        return list(pool.map(function, items))


def _lists_in_order(store: Any) -> bool:
    kind = type(store).__name__
    if kind == "S3Store":
        # Directory buckets (S3 Express) list in no order.
        return not str(store.config.get("bucket", "")).endswith("--x-s3")
    return kind in {"GCSStore", "AzureStore", "MemoryStore"}


@functools.lru_cache(maxsize=32)
def _connect(bucket: str, options: tuple[tuple[str, str], ...]) -> Any:
    """Make or reuse the client of a bucket: a new one starts without connections and credentials."""
    config: dict[str, str] = {}
    client: dict[str, str] = {}
    retries: dict[str, Any] = {}
    for name, value in options:
        key = name.lower()
        if key in _IGNORED:
            continue
        if key == "client_max_retries":
            retries["max_retries"] = _number(name, value)
        elif key == "client_retry_timeout":
            retries["retry_timeout"] = timedelta(seconds=_number(name, value))
        elif (short := key.removeprefix("aws_")) in _CLIENT_OPTIONS:
            client[short] = f"{value}s" if short in _DURATIONS and value.isdigit() else value
        else:
            config[key] = value
    try:
        return obstore.store.from_url(
            bucket, config=config, client_options=client or None, retry_config=retries or None
        )
    except exceptions.UnknownConfigurationKeyError as error:
        match = _UNKNOWN_KEY.search(str(error))
        raise InvalidArgumentError(
            "unknown storage option", path=bucket, field=match[1] if match else None
        ) from None
    except (exceptions.BaseError, OSError, ValueError) as error:
        reason = redact(str(error).split("\n\nDebug source", 1)[0].strip(), dict(options))
        raise InvalidArgumentError(f"the storage options do not work: {reason}", path=bucket) from None


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise InvalidArgumentError("the storage option is a whole number", field=name) from error
