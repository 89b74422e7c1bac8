"""Object stores (S3, Google Cloud Storage, Azure Blob) through obstore, natively.

obstore's own fsspec adapter is never used: there, put-if-absent silently overwrites.
"""

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import obstore
import pyarrow as pa
from obstore import exceptions

from lance_ops.errors import (
    CorruptFileError,
    FileMissingError,
    StorageError,
    UnsupportedError,
)
from lance_ops.storage.failures import already_exists
from lance_ops.storage.objects.client import connect, is_amazon
from lance_ops.storage.objects.failures import IgnoredRangeError, is_cut_off, is_panic, translate
from lance_ops.storage.options import conditional_put_disabled, plain_options, text_options
from lance_ops.storage.paths import (
    join_bucket,
    join_uri,
    just_before,
    split_bucket,
    validate_folder,
    validate_relative_path,
)
from lance_ops.storage.ranges import check_possible, cut_ranges, plan_merged_reads, resolve_range
from lance_ops.storage.retry import retry
from lance_ops.storage.spooled_writer import SpooledWriter
from lance_ops.storage.store import BytesLike, Durability, ObjectInfo, Store, StoreWriter

_T = TypeVar("_T")
_GAP = 1 << 20
_MAX_MERGED = 16 << 20
_PIECE = 4 << 20
_CONCURRENCY = 64
_DELETES = 16
_LIST_PAGE = 1000
# Maximum keys per delete request. Servers delete them in sequence: several smaller requests are faster.
_LEAST_DELETED, _MOST_DELETED = 50, 1000

# Larger objects are uploaded in parts, which cannot be conditional.
_MOST_IN_ONE_PUT = 5 << 30

# Seconds before each further request when the answer was cut off.
_PAUSES = (0.1, 0.2, 0.4, 0.8)


class ObjectStore:
    """A prefix of a bucket.

    Args:
        uri: `s3://bucket/prefix` and the like; percent escapes in it are decoded, as pylance does.
        options: Storage options with the names that pylance takes (`aws_access_key_id`, `aws_region`,
            `aws_endpoint`, `allow_http`, `client_max_retries`, `timeout`, ...). `aws_conditional_put` =
            "disabled" says that the server ignores conditional writes.
        native: An obstore store of the whole bucket, instead of a new connection; not picklable then.
    """

    def __init__(self, uri: str, options: Mapping[str, str] | None = None, native: Any = None) -> None:
        self._uri = uri
        self._options = text_options(options)
        bucket, prefix = split_bucket(uri)
        self._injected = native
        self._store = native if native is not None else connect(bucket, tuple(sorted(self._options.items())))
        self._lead = prefix + "/" if prefix else ""
        self._exact = type(self._store).__name__ != "S3Store" or is_amazon(self._options)

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
        """True unless the options disable conditional writes."""
        return not conditional_put_disabled(self._options)

    @property
    def server(self) -> Hashable:
        """See `TrustsServer.server`."""
        if self._injected is not None:
            return id(self._injected)
        return (split_bucket(self._uri)[0], plain_options(self._options))

    def child(self, relative: str) -> Store:
        """See `Store.child`."""
        return ObjectStore(join_bucket(self._uri, relative), self._options, self._injected)

    def _key(self, path: str) -> str:
        return self._lead + validate_relative_path(path)

    def _where(self, path: str) -> str:
        return join_uri(self._uri, path)

    @contextlib.contextmanager
    def _translated(self, path: str, *, conditional: bool = False) -> Iterator[None]:
        try:
            yield
        except (exceptions.BaseError, OSError) as error:
            # The text of the cause may hold secrets that the translated one does not.
            raise translate(error, self._where(path), self._options, conditional=conditional) from None
        except BaseException as error:
            if not is_panic(error):
                raise
            raise translate(error, self._where(path), self._options) from None

    def _again(self, path: str, request: Callable[[], _T]) -> _T:
        """Send a request that may safely be sent twice, again when its answer is cut off."""
        with self._translated(path):
            return retry(request, _PAUSES, on=exceptions.BaseError, when=is_cut_off)

    # Reading

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """See `Store.read`."""
        where = self._where(path)
        check_possible(where, offset, length)
        key = self._key(path)
        if length is None and offset == 0:
            with self._translated(path):
                return pa.py_buffer(obstore.get(self._store, key).bytes())
        if not length:
            length = resolve_range(where, offset, length, self.size(path))
        return self._read_parts(path, [(offset, length)])[0] if length else pa.py_buffer(b"")

    def _read_parts(self, path: str, parts: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Read ranges that are not empty."""
        try:
            return _map_threads(lambda part: self._read_part(path, *part), parts)
        except IgnoredRangeError:
            return self._again(path, lambda: self._cut_parts(path, parts))

    def _cut_parts(self, path: str, parts: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """Cut ranges out of the whole object, which is not kept in memory."""
        whole = obstore.get(self._store, self._key(path))
        for offset, length in parts:
            resolve_range(self._where(path), offset, length, int(whole.meta["size"]))
        return cut_ranges(whole.stream(min_chunk_size=_PIECE), parts)

    def _read_part(self, path: str, offset: int, length: int) -> pa.Buffer:
        where = self._where(path)
        try:
            with self._translated(path):
                data = obstore.get_range(self._store, self._key(path), start=offset, length=length)
        except IgnoredRangeError:
            raise
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
        # Not obstore.get_ranges: it panics on ranges beyond the end, which damaged metadata may contain.
        for offset, length in ranges:
            check_possible(self._where(path), offset, length)
        results = [pa.py_buffer(b"")] * len(ranges)
        reads = plan_merged_reads(ranges, gap=_GAP, max_length=_MAX_MERGED)
        buffers = self._read_parts(path, [(read.offset, read.length) for read in reads])
        for read, buffer in zip(reads, buffers, strict=True):
            for index in read.parts:
                offset, length = ranges[index]
                results[index] = buffer.slice(offset - read.offset, length)
        return results

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        """See `Store.read_tail`."""
        check_possible(self._where(path), 0, length)
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
        if if_absent and isinstance(data, Path) and data.stat().st_size > _MOST_IN_ONE_PUT:
            if self.exists(path):
                raise already_exists(self._where(path))
        elif if_absent:
            with self._translated(path, conditional=True):
                obstore.put(self._store, key, data, mode="create")
            return
        self._again(path, lambda: obstore.put(self._store, key, data, mode="overwrite"))

    def _require_put_if_absent(self, path: str) -> None:
        if not self.supports_put_if_absent:
            raise UnsupportedError("the store has no put-if-absent", path=self._where(path))

    def open_writer(self, path: str, *, if_absent: bool = False, durable: Durability = "now") -> StoreWriter:
        """See `Store.open_writer`."""
        del durable  # what the service has confirmed is
        self._key(path)
        if if_absent:
            self._require_put_if_absent(path)
        return SpooledWriter(self._where(path), lambda data: self._upload(path, data, if_absent=if_absent))

    def copy(self, src: str, dst: str, *, if_absent: bool = False) -> None:
        """See `Store.copy`."""
        source, target = self._key(src), self._key(dst)
        if if_absent:
            # Few stores copy conditionally, all that matter put conditionally, and only manifests need it.
            self._require_put_if_absent(dst)
            self._upload(dst, memoryview(self.read(src)).cast("B"), if_absent=True)
            return
        self._again(src, lambda: obstore.copy(self._store, source, target))

    # Listing and deleting

    def list_dirs(self, prefix: str) -> list[str]:
        """See `Store.list_dirs`."""
        lead = self._folder(prefix)
        found = self._again(prefix, lambda: obstore.list_with_delimiter(self._store, lead or None))
        leads = [key.rstrip("/") + "/" for key in found["common_prefixes"]]
        if not self._exact:
            # Folders of a file system behind the server, which outlive what was in them.
            full = _map_threads(lambda lead: next(self._infos(lead, None), None) is not None, leads)
            leads = [lead for lead, is_full in zip(leads, full, strict=True) if is_full]
        return sorted(lead.rstrip("/").rpartition("/")[2] for lead in leads)

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        return self._list(self._folder(prefix), start_after)

    def _folder(self, prefix: str) -> str:
        folder = validate_folder(prefix)
        return self._lead + folder + "/" if folder else self._lead

    def _list(self, lead: str, start_after: str | None) -> Iterator[ObjectInfo]:
        after = None if start_after is None else self._lead + start_after
        if _lists_in_order(self._store):
            if after is not None and not self._exact:
                after = just_before(after)
            found = self._infos(lead, after)
            if not self._exact:
                found = _ordered(found, len(lead) - len(self._lead))
        else:
            whole = self._again(lead[len(self._lead) :], lambda: list(self._pages(lead, after)))
            found = iter(sorted(self._parse(whole, lead), key=lambda info: info.path))
        for info in found:
            if start_after is None or info.path > start_after:
                yield info

    def _pages(self, lead: str, after: str | None) -> Iterator[Any]:
        return iter(obstore.list(self._store, lead or None, offset=after, chunk_size=_LIST_PAGE))

    def _infos(self, lead: str, after: str | None) -> Iterator[ObjectInfo]:
        """List in key order; a truncated listing continues after its last key."""
        path = lead[len(self._lead) :]
        pages: Iterator[Any] | None = None

        def next_page() -> Any:
            nonlocal pages
            # An iterator that failed is at its end.
            going, pages = pages or self._pages(lead, after), None
            page = next(going, None)
            pages = going
            return page

        while (page := self._again(path, next_page)) is not None:
            if page:
                after = page[-1]["path"]
            yield from self._parse([page], lead)

    def _parse(self, pages: Iterable[Any], lead: str) -> Iterator[ObjectInfo]:
        cut = len(self._lead)
        for page in pages:
            for entry in page:
                # Consoles mark a folder by an empty object with the key of the folder itself.
                if entry["path"].startswith(lead):
                    size, modified = int(entry["size"]), entry["last_modified"]
                    mark = f"{size}.{entry.get('e_tag') or modified}"
                    yield ObjectInfo(entry["path"][cut:], size, modified, mark)

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        key = self._key(path)
        try:
            self._again(path, lambda: obstore.delete(self._store, key))
        except FileMissingError:
            return

    def delete_many(self, paths: Iterable[str]) -> None:
        """See `Store.delete_many`."""
        known = list(paths)
        keys = [self._key(path) for path in known]
        size = max(_LEAST_DELETED, min(_MOST_DELETED, -(-len(keys) // _DELETES)))

        def delete_page(start: int) -> None:
            page = keys[start : start + size]
            try:
                self._again(known[start], functools.partial(obstore.delete, self._store, page))
            except FileMissingError:
                # Stores without a bulk request stop at the first one that is missing.
                for path in known[start : start + size]:
                    self.delete(path)

        _map_threads(delete_page, range(0, len(keys), size), _DELETES)


def _ordered(found: Iterator[ObjectInfo], cut: int) -> Iterator[ObjectInfo]:
    """Sort a listing that may be in folder order by path.

    In folder order "a/b" comes before "a-b". Objects before the first folder have the same position in both
    orders, so flat listings, which may be long and partly consumed, are streamed.
    """
    for info in found:
        if "/" in info.path[cut:]:
            yield from sorted([info, *found], key=lambda info: info.path)
            return
        yield info


def _map_threads(
    function: Callable[[Any], Any], items: Sequence[Any], threads: int = _CONCURRENCY
) -> list[Any]:
    if len(items) <= 1:
        return [function(item) for item in items]
    # Made for this call: threads that wait in a pool would not survive the fork of a Spark worker.
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        return list(pool.map(function, items))


def _lists_in_order(store: Any) -> bool:
    kind = type(store).__name__
    if kind == "S3Store":
        # Directory buckets (S3 Express) list in no order.
        return not str(store.config.get("bucket", "")).endswith("--x-s3")
    return kind in {"GCSStore", "AzureStore", "MemoryStore"}
