"""Reads of the peer in the words of lance_ops: the same query of the same version of the same dataset."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from lance.dataset import _scanner_from_snapshot
from shadow_search import (
    Search,
    approximates,
    is_fuzzy_on_uncovered_rows,
    repeats_words_with_slop,
    searches_phrases_by_grams,
    text_query,
)

import lance_ops as lo
from lance_ops.pb import table_pb2

# What a scanner of the peer can be told, that lance_ops has no word for; each with its idle values.
_NOT_OURS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "_search_filter": ("a search as filter", (None,)),
    "_substrait_filter": ("a filter as a pyarrow expression", (None,)),
    "_substrait_aggregate": ("aggregates", (None,)),
    "_orderings": ("order_by", (None, [], ())),
    "_include_deleted_rows": ("include_deleted_rows", (None, False)),
    "_index_segments": ("index_segments", (None,)),
    "_row_addr_allowlist": ("lists of row addresses", (None,)),
    "_row_addr_blocklist": ("lists of row addresses", (None,)),
    "_disable_scoring_autoprojection": ("disable_scoring_autoprojection", (None, False)),
}
_BLOB = b"lance-encoding:blob"


class NotOursError(Exception):
    """lance_ops has no such call."""


@dataclass(frozen=True)
class Ours:
    """A call of lance_ops that means the same as one of the peer.

    Attributes:
        answer: Makes the call.
        ordered: Whether the order of rows is promised.
        search: How answers to a search are compared; None for other reads.
    """

    answer: Callable[[], Any]
    ordered: bool = True
    search: Search | None = None


def location(inner: Any) -> str:
    """Where a dataset of the peer lies: of a branch that was checked out, the peer tells where main does.

    Args:
        inner: The `_ds` of a dataset.
    """
    uri = str(inner.uri)
    branch = table_pb2.Manifest.FromString(inner.serialized_manifest()).branch
    folder = f"/tree/{branch}"
    return uri if not branch or uri.rstrip("/").endswith(folder) else uri.rstrip("/") + folder


def open_ours(dataset: Any, *, newest: bool = False) -> lo.Dataset:
    """The version that a dataset of the peer holds, opened by lance_ops.

    Args:
        dataset: Of the peer.
        newest: The newest version instead.

    Raises:
        NotOursError: It lies where lance_ops cannot read.
    """
    uri = location(dataset._ds)
    if uri.startswith(("memory:", "shared-memory:")) or "memory://" in uri:
        raise NotOursError("a dataset in the memory of the peer")
    if getattr(dataset, "_namespace_client", None) is not None:
        raise NotOursError("a dataset of a namespace")
    version = None if newest else dataset._ds.version()
    return lo.dataset(uri, version=version, storage_options=dataset._storage_options)


def has_blobs(field: pa.Field) -> bool:
    """Whether a field is or holds a blob."""
    metadata = field.metadata or {}
    children = [field.type.field(number) for number in range(getattr(field.type, "num_fields", 0))]
    extension = isinstance(field.type, pa.BaseExtensionType) and field.type.extension_name == "lance.blob.v2"
    named = metadata.get(b"ARROW:extension:name") == b"lance.blob.v2"
    return _BLOB in metadata or extension or named or any(has_blobs(child) for child in children)


def _has_blobs_v2(field: pa.Field) -> bool:
    children = [field.type.field(number) for number in range(getattr(field.type, "num_fields", 0))]
    is_blob = isinstance(field.type, pa.BaseExtensionType) and field.type.extension_name == "lance.blob.v2"
    return is_blob or any(_has_blobs_v2(child) for child in children)


def _columns(plain: Any, transform: Any) -> list[str] | dict[str, str] | None:
    if transform:
        return dict(transform)
    return None if plain is None else list(plain)


def _check_blobs(dataset: lo.Dataset, columns: Any, handling: object) -> None:
    named = dataset.schema.names if columns is None else columns
    texts = list(named.values()) if isinstance(named, dict) else list(named)
    fields = [field for field in dataset.schema if any(field.name in text for text in texts)]
    if handling != "all_binary" and any(has_blobs(field) for field in fields):
        raise NotOursError("descriptions of blobs instead of their bytes")
    if handling == "all_binary" and any(_has_blobs_v2(field) for field in fields):
        raise NotOursError("bytes in the place of values of the blob type")
    if handling == "all_descriptions":
        raise NotOursError("descriptions of blobs instead of their bytes")


def scan(scanner: Any) -> Ours:
    """Of `LanceScanner`."""
    options = scanner._snapshot
    if options is None:
        raise NotOursError("a scanner without its options")
    for key, (words, idle) in _NOT_OURS.items():
        if not any(options.get(key) is value or options.get(key) == value for value in idle):
            raise NotOursError(words)
    dataset = open_ours(scanner._ds)
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
        arguments["use_scalar_index"] = False
    if options["_fast_search"]:
        arguments["fast_search"] = True
    search = _add_search(scanner, dataset, arguments)
    ordered = bool(options["_scan_in_order"])
    return Ours(lambda: dataset.to_table(**arguments), ordered=ordered, search=search)


def _add_search(scanner: Any, dataset: lo.Dataset, arguments: dict[str, Any]) -> Search | None:
    """Add what a scanner of the peer searches for to the arguments of a scan."""
    options = scanner._snapshot
    given = options.get("_shadow_nearest"), options.get("_shadow_text"), options.get("_shadow_minhash")
    if not any(given):
        return None
    nearest, text, minhash = given
    if options["_prefilter"]:
        arguments["prefilter"] = True
    if minhash:
        arguments["nearest"] = minhash["query"]
        return Search("_distance")
    if text:
        arguments["full_text_query"] = text_query(text)
        query = arguments["full_text_query"]
        remark = "phrase by n-grams: " if searches_phrases_by_grams(dataset, query) else ""
        if repeats_words_with_slop(query):
            remark = "phrase that repeats a word: "
        elif is_fuzzy_on_uncovered_rows(dataset, query):
            remark = "fuzzy words where no index is: "

        def unlimited() -> tuple[pa.Table, pa.Table]:
            again = {**options, "_limit": None}
            theirs = _scanner_from_snapshot(scanner._ds, again).to_table()
            return dataset.to_table(**{**arguments, "limit": None}), theirs

        return Search(
            "_score",
            limit=_end(options),
            remark=remark,
            unlimited=None if _end(options) is None else unlimited,
            more=lambda: _higher(dataset, arguments),
        )
    named = {name: value for name, value in nearest.items() if value is not None}
    if named.get("query_parallelism") is not None:
        # How fast the peer answers, not what.
        named.pop("query_parallelism")
    arguments["nearest"] = named
    # A filter after the search leaves few of its rows, too few to tell how near they are.
    kept = arguments["filter"] if options["_prefilter"] else None
    with_ids = {**arguments, "with_row_id": True, "filter": kept}

    def theirs() -> pa.Table:
        again = {**options, "_with_row_id": True, "_filter": kept}
        return _scanner_from_snapshot(scanner._ds, again).to_table()

    return Search(
        "_distance",
        approximate=named.get("use_index", True) and approximates(dataset, named["column"]),
        limit=min(n for n in (named.get("k") or _end(options) or 10, _end(options)) if n is not None),
        more=lambda: _higher(dataset, arguments),
        exact=lambda: dataset.to_table(**{**with_ids, "nearest": {**named, "use_index": False}}),
        ours=lambda: dataset.to_table(**with_ids),
        theirs=theirs,
    )


def _end(options: dict[str, Any]) -> int | None:
    return None if options["_limit"] is None else int(options["_limit"])


def _higher(dataset: lo.Dataset, arguments: dict[str, Any]) -> pa.Table:
    wider = {**arguments, "limit": None, "offset": None}
    if "nearest" in wider:
        wider["nearest"] = {**wider["nearest"], "k": 1000}
    return dataset.to_table(**wider)


def scanner_count(scanner: Any) -> Ours:
    """Of `LanceScanner.count_rows`."""
    return Ours(lambda: scan(scanner).answer().num_rows)


def dataset_count(dataset: Any, filter: Any = None, **more: Any) -> Ours:  # noqa: A002 - the peer's name
    """Of `LanceDataset.count_rows`."""
    if more or isinstance(filter, pa.compute.Expression):
        raise NotOursError("a filter as a pyarrow expression")
    return Ours(lambda: open_ours(dataset).count_rows(filter))


def _take(dataset: Any, rows: Any, columns: Any, by: str) -> Ours:
    ours = open_ours(dataset)
    pairs = list(columns.items()) if isinstance(columns, dict) else None
    names = _columns(None if pairs else columns, pairs)
    _check_blobs(ours, names, None)
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        rows = rows.to_pylist()
    return Ours(lambda: ours.take(rows, names, by=by))


def dataset_take(dataset: Any, indices: Any, columns: Any = None) -> Ours:
    """Of `LanceDataset.take`."""
    return _take(dataset, indices, columns, "offset")


def dataset_take_rows(dataset: Any, row_ids: Any, columns: Any = None, **more: Any) -> Ours:
    """Of `LanceDataset._take_rows`."""
    if any(more.values()):
        raise NotOursError("rows as if nothing were deleted")
    return _take(dataset, row_ids, columns, "id")


def dataset_schema(dataset: Any) -> Ours:
    """Of `LanceDataset.schema`."""
    if dataset._default_scan_options:
        raise NotOursError("default options of scans")
    return Ours(lambda: _Schema(open_ours(dataset).schema))


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


def dataset_versions(dataset: Any) -> Ours:
    """Of `LanceDataset.versions`."""
    # The version that the peer holds may be gone.
    return Ours(lambda: _Versions(open_ours(dataset, newest=True).versions()))


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


def dataset_fragments(dataset: Any, filter: Any = None) -> Ours:  # noqa: A002 - the peer's name
    """Of `LanceDataset.get_fragments`."""
    if filter is not None:
        raise NotOursError("fragments by filter")
    return Ours(lambda: _Fragments(open_ours(dataset).fragments))


def fragment_count(fragment: Any, filter: Any = None) -> Ours:  # noqa: A002 - the peer's name
    """Of `LanceFragment.count_rows`."""
    if filter is not None and not isinstance(filter, str):
        raise NotOursError("a filter as a pyarrow expression")
    scan = {"columns": [], "filter": filter, "fragments": [fragment.fragment_id]}
    return Ours(lambda: open_ours(fragment._ds).scanner(**scan).count_rows())


def fragment_take(fragment: Any, indices: Any, columns: Any = None) -> Ours:
    """Of `LanceFragment.take`."""
    dataset = open_ours(fragment._ds)
    before = itertools.takewhile(lambda one: one.id != fragment.fragment_id, dataset.fragments)
    start = sum(one.num_rows for one in before)
    rows = indices.to_pylist() if isinstance(indices, pa.Array) else list(indices)
    return _take(fragment._ds, [start + int(row) for row in rows], columns, "offset")
