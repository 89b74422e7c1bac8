"""Every read of the peer answered a second time by lance_ops.

`install` replaces the few methods of the peer's Python classes that all of its reads go through. Each
replacement runs the peer's own method, asks lance_ops the same about the same version of the same dataset,
and counts how the two answers compare; what the caller sees is always the peer's answer.
"""

import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from lance.dataset import LanceDataset, LanceScanner
from lance.fragment import LanceFragment
from shadow_compare import difference
from shadow_report import Outcome, Tally

import lance_ops as lo
from lance_ops.errors import LanceOpsError

# What a scanner of the peer can be told, that lance_ops has no word for; each with its idle values.
_NOT_OURS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "_nearest": ("vector search", (None,)),
    "_minhash_query": ("minhash search", (None,)),
    "_full_text_query": ("full text search", (None,)),
    "_search_filter": ("a search as filter", (None,)),
    "_substrait_filter": ("a filter as a pyarrow expression", (None,)),
    "_substrait_aggregate": ("aggregates", (None,)),
    "_orderings": ("order_by", (None, [], ())),
    "_include_deleted_rows": ("include_deleted_rows", (None, False)),
    "_index_segments": ("index_segments", (None,)),
    "_row_addr_allowlist": ("lists of row addresses", (None,)),
    "_row_addr_blocklist": ("lists of row addresses", (None,)),
    "_fast_search": ("fast_search", (None, False)),
}
_BLOB = b"lance-encoding:blob"
_labels = threading.local()


class NotOursError(Exception):
    """lance_ops has no such call."""


@dataclass(frozen=True)
class Ours:
    """A call of lance_ops that means the same as one of the peer.

    Attributes:
        answer: Makes the call.
        ordered: Whether the order of rows is promised.
    """

    answer: Callable[[], Any]
    ordered: bool = True


def install(tally: Tally) -> Callable[[], None]:
    """Shadow the peer's classes in this process.

    Args:
        tally: Where every call is counted.

    Returns:
        Puts the peer's own methods back.
    """
    dataset, scanner, fragment = LanceDataset, LanceScanner, LanceFragment
    undo: list[Callable[[], None]] = []

    def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        old = owner.__dict__[name]
        setattr(owner, name, make(old))
        undo.append(lambda: setattr(owner, name, old))

    for owner, names in {
        dataset: ("to_table", "to_batches", "to_pandas", "head", "slice", "sample"),
        scanner: ("to_table", "to_batches", "to_pandas", "head"),
        fragment: ("to_table", "to_batches", "to_pandas", "head"),
    }.items():
        for name in names:
            replace(owner, name, functools.partial(_labelled, f"{owner.__name__}.{name}"))
    replace(scanner, "to_reader", lambda old: _shadow_reader(tally, old))
    for owner, name, translate in (
        (scanner, "count_rows", _scanner_count),
        (dataset, "count_rows", _dataset_count),
        (dataset, "take", _dataset_take),
        (dataset, "_take_rows", _dataset_take_rows),
        (dataset, "versions", _dataset_versions),
        (dataset, "get_fragments", _dataset_fragments),
        (fragment, "count_rows", _fragment_count),
        (fragment, "take", _fragment_take),
    ):
        replace(owner, name, functools.partial(_shadowed, tally, f"{owner.__name__}.{name}", translate))
    schema = dataset.__dict__["schema"]
    dataset.schema = property(_shadowed(tally, "LanceDataset.schema", _dataset_schema, schema.fget))
    undo.append(lambda: setattr(dataset, "schema", schema))
    return lambda: [put_back() for put_back in reversed(undo)] and None


# --- what the peer's methods become


def _labelled(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, known by its name to the reads within; the outermost name counts."""

    @functools.wraps(method)
    def labelled(*args: Any, **kwargs: Any) -> Any:
        with _label(name):
            answer = method(*args, **kwargs)
        return _labelled_batches(name, answer) if isinstance(answer, Iterator) else answer

    return labelled


def _labelled_batches(name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while True:
        with _label(name):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextmanager
def _label(name: str) -> Iterator[None]:
    before = getattr(_labels, "name", None)
    _labels.name = before or name
    try:
        yield
    finally:
        _labels.name = before


def _shadowed(
    tally: Tally, name: str, translate: Callable[..., Ours], method: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(method)
    def shadowed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(_labels, "quiet", False):
            return method(self, *args, **kwargs)
        with _quiet():
            theirs, error = _attempt(lambda: method(self, *args, **kwargs))
            _compare(tally, name, lambda: translate(self, *args, **kwargs), theirs, error, (args, kwargs))
        if error is not None:
            raise error
        return theirs

    return shadowed


def _shadow_reader(tally: Tally, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def to_reader(self: Any) -> pa.RecordBatchReader:
        if getattr(_labels, "quiet", False):
            return method(self)
        name = getattr(_labels, "name", None) or "LanceScanner.to_reader"
        with _quiet():
            call = _told(self)
            reader, error = _attempt(lambda: method(self))
            if error is not None:
                _compare(tally, name, lambda: _scan(self), None, error, call)
                raise error
            batches: list[pa.RecordBatch] = []
            _, error = _attempt(lambda: batches.extend(reader))
            theirs = pa.Table.from_batches(batches, schema=reader.schema)
            _compare(tally, name, lambda: _scan(self), theirs, error, call)
        return pa.RecordBatchReader.from_batches(reader.schema, _again(batches, error))

    return to_reader


def _told(scanner: Any) -> dict[str, Any]:
    """What a scanner was told, without what it was not."""
    options = scanner._snapshot or {}
    return {key: value for key, value in options.items() if value is not None and value is not False}


@contextmanager
def _quiet() -> Iterator[None]:
    """Reads that the peer makes to answer a read are not counted themselves."""
    _labels.quiet = True
    try:
        yield
    finally:
        _labels.quiet = False


def _again(batches: list[pa.RecordBatch], error: BaseException | None) -> Iterator[pa.RecordBatch]:
    yield from batches
    if error is not None:
        raise error


def _attempt(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # The peer's panics are no `Exception`.
        return None, error


def _compare(
    tally: Tally,
    name: str,
    translate: Callable[[], Ours],
    theirs: Any,
    error: BaseException | None,
    call: object,
) -> None:
    shown = repr(call)[:300]
    try:
        ours = translate()
        mine = ours.answer()
    except NotOursError as missing:
        tally.add(Outcome.NOT_OURS, name, shown, str(missing))
    except LanceOpsError as refusal:
        detail = f"{type(refusal).__name__}: {refusal.message}"
        if error is None:
            tally.add(Outcome.REFUSED, name, shown, detail)
        else:
            tally.add(Outcome.BOTH_REFUSE, name, shown, f"{detail} | {error}")
    except Exception as crash:
        tally.add(Outcome.CRASHED, name, shown, f"{type(crash).__name__}: {crash}")
    else:
        if error is not None:
            tally.add(Outcome.ONLY_OURS, name, shown, f"{type(error).__name__}: {error}")
            return
        if isinstance(theirs, pa.Table):
            found = difference(mine, theirs, ordered=ours.ordered)
        else:
            found = None if mine == theirs else f"ours {str(mine)[:300]} | theirs {str(theirs)[:300]}"
        tally.add(Outcome.EQUAL if found is None else Outcome.DIFFERENT, name, shown, found or "")


# --- the same in the words of lance_ops


def _open(dataset: Any, *, newest: bool = False) -> lo.Dataset:
    uri = str(dataset.uri)
    if uri.startswith(("memory:", "shared-memory:")) or "memory://" in uri:
        raise NotOursError("a dataset in the memory of the peer")
    if getattr(dataset, "_namespace_client", None) is not None:
        raise NotOursError("a dataset of a namespace")
    version = None if newest else dataset._ds.version()
    return lo.dataset(uri, version=version, storage_options=dataset._storage_options)


def _has_blobs(field: pa.Field) -> bool:
    metadata = field.metadata or {}
    children = [field.type.field(number) for number in range(getattr(field.type, "num_fields", 0))]
    extension = isinstance(field.type, pa.BaseExtensionType) and field.type.extension_name == "lance.blob.v2"
    named = metadata.get(b"ARROW:extension:name") == b"lance.blob.v2"
    return _BLOB in metadata or extension or named or any(_has_blobs(child) for child in children)


def _columns(plain: Any, transform: Any) -> list[str] | None:
    if transform:
        if any(name != expression for name, expression in transform):
            raise NotOursError("columns computed by expressions")
        return [name for name, _ in transform]
    return None if plain is None else list(plain)


def _check_blobs(dataset: lo.Dataset, columns: list[str] | None, handling: object) -> None:
    fields = dataset.schema if columns is None else [f for f in dataset.schema if f.name in columns]
    if handling != "all_binary" and any(_has_blobs(field) for field in fields):
        raise NotOursError("descriptions of blobs instead of their bytes")
    if handling == "all_descriptions":
        raise NotOursError("descriptions of blobs instead of their bytes")


def _scan(scanner: Any) -> Ours:
    options = scanner._snapshot
    if options is None:
        raise NotOursError("a scanner without its options")
    for key, (words, idle) in _NOT_OURS.items():
        if not any(options.get(key) is value or options.get(key) == value for value in idle):
            raise NotOursError(words)
    dataset = _open(scanner._ds)
    columns = _columns(options["_columns"], options["_columns_with_transform"])
    _check_blobs(dataset, columns, options["_blob_handling"])
    fragments = options["_fragments"]
    arguments: dict[str, Any] = {
        "columns": columns,
        "filter": options["_filter"],
        "limit": options["_limit"],
        "offset": options["_offset"],
        "with_row_id": bool(options["_with_row_id"]),
        "with_row_address": bool(options["_with_row_address"]),
        "fragments": None if fragments is None else [fragment.id() for fragment in fragments],
    }
    if options["_use_scalar_index"] is False:
        arguments["pruners"] = ()
    return Ours(lambda: dataset.to_table(**arguments), ordered=bool(options["_scan_in_order"]))


def _scanner_count(scanner: Any) -> Ours:
    return Ours(lambda: _scan(scanner).answer().num_rows)


def _dataset_count(dataset: Any, filter: Any = None, **more: Any) -> Ours:  # noqa: A002 - the peer's name
    if more or isinstance(filter, pa.compute.Expression):
        raise NotOursError("a filter as a pyarrow expression")
    return Ours(lambda: _open(dataset).count_rows(filter))


def _take(dataset: Any, rows: Any, columns: Any, by: str) -> Ours:
    ours = _open(dataset)
    pairs = list(columns.items()) if isinstance(columns, dict) else None
    names = _columns(None if pairs else columns, pairs)
    _check_blobs(ours, names, None)
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        rows = rows.to_pylist()
    return Ours(lambda: ours.take(rows, names, by=by))


def _dataset_take(dataset: Any, indices: Any, columns: Any = None) -> Ours:
    return _take(dataset, indices, columns, "offset")


def _dataset_take_rows(dataset: Any, row_ids: Any, columns: Any = None, **more: Any) -> Ours:
    if any(more.values()):
        raise NotOursError("rows as if nothing were deleted")
    return _take(dataset, row_ids, columns, "id")


def _dataset_schema(dataset: Any) -> Ours:
    if dataset._default_scan_options:
        raise NotOursError("default options of scans")
    return Ours(lambda: _Schema(_open(dataset).schema))


class _Schema:
    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return bool(self.schema.equals(other, check_metadata=True))

    def __hash__(self) -> int:
        return hash(str(self.schema))

    def __str__(self) -> str:
        return str(self.schema)


class _Versions:
    """Numbers and moments of versions; the peer's moments have no zone."""

    def __init__(self, versions: list[Any]) -> None:
        self.pairs = [(item.version, item.timestamp.timestamp()) for item in versions]

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, list)
        theirs = [(item["version"], item["timestamp"].timestamp()) for item in other]
        # Nanoseconds of a manifest as microseconds, which the peer rounds and lance_ops cuts off.
        return len(theirs) == len(self.pairs) and all(
            mine[0] == yours[0] and abs(mine[1] - yours[1]) < 2e-6
            for mine, yours in zip(self.pairs, theirs, strict=True)
        )

    def __hash__(self) -> int:
        return hash(tuple(self.pairs))

    def __str__(self) -> str:
        return str(self.pairs)


def _dataset_versions(dataset: Any) -> Ours:
    # The version that the peer holds may be gone.
    return Ours(lambda: _Versions(_open(dataset, newest=True).versions()))


class _Fragments:
    """Ids and numbers of rows of fragments."""

    def __init__(self, fragments: Any) -> None:
        self.rows = [(item.id, item.physical_rows, item.physical_rows - item.num_rows) for item in fragments]

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, list)
        return self.rows == [(item.fragment_id, item.physical_rows, item.num_deletions) for item in other]

    def __hash__(self) -> int:
        return hash(tuple(self.rows))

    def __str__(self) -> str:
        return str(self.rows)


def _dataset_fragments(dataset: Any, filter: Any = None) -> Ours:  # noqa: A002 - the peer's name
    if filter is not None:
        raise NotOursError("fragments by filter")
    return Ours(lambda: _Fragments(_open(dataset).fragments))


def _fragment_count(fragment: Any, filter: Any = None) -> Ours:  # noqa: A002 - the peer's name
    if filter is not None and not isinstance(filter, str):
        raise NotOursError("a filter as a pyarrow expression")
    scan = {"columns": [], "filter": filter, "fragments": [fragment.fragment_id]}
    return Ours(lambda: _open(fragment._ds).scanner(**scan).count_rows())


def _fragment_take(fragment: Any, indices: Any, columns: Any = None) -> Ours:
    dataset = _open(fragment._ds)
    before = itertools.takewhile(lambda one: one.id != fragment.fragment_id, dataset.fragments)
    start = sum(one.num_rows for one in before)
    rows = indices.to_pylist() if isinstance(indices, pa.Array) else list(indices)
    return _take(fragment._ds, [start + int(row) for row in rows], columns, "offset")
