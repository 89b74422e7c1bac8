"""Registry of the index kinds that lance_ops can use, or at least remap.

A kind is looked up by the type URL of an index entry. Indices of other kinds are listed and preserved, never
used (architecture, invariant 7). A filter uses several indices on a column in this order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from google.protobuf.message import DecodeError

from lance_ops.errors import InvalidArgumentError, UnreadableIndexError, UnsupportedError, check_type
from lance_ops.index.kind import IndexKind, Parameters
from lance_ops.index.reading import reading
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class _Family:
    """Kinds whose index entries have the same type; their modules are imported when one of them is needed.

    Attributes: type_name: Last part of the type URL, in lower case. names: Names of the kinds, in capitals.
    load: Imports the kinds.
    """

    type_name: str
    names: tuple[str, ...]
    load: Callable[[], tuple[IndexKind, ...]]


@lru_cache(maxsize=1)
def _btree() -> tuple[IndexKind, ...]:
    from lance_ops.index.btree.kind import BTreeKind

    return (BTreeKind(),)


@lru_cache(maxsize=1)
def _bitmap() -> tuple[IndexKind, ...]:
    from lance_ops.index.bitmap.kind import BitmapKind

    return (BitmapKind(),)


@lru_cache(maxsize=1)
def _label_list() -> tuple[IndexKind, ...]:
    from lance_ops.index.label_list.kind import LabelListKind

    return (LabelListKind(),)


@lru_cache(maxsize=1)
def _ngram() -> tuple[IndexKind, ...]:
    from lance_ops.index.ngram.kind import NGramKind

    return (NGramKind(),)


@lru_cache(maxsize=1)
def _rtree() -> tuple[IndexKind, ...]:
    from lance_ops.index.rtree.kind import RTreeKind

    return (RTreeKind(),)


@lru_cache(maxsize=1)
def _zone_map() -> tuple[IndexKind, ...]:
    from lance_ops.index.zone_map.kind import ZoneMapKind

    return (ZoneMapKind(),)


@lru_cache(maxsize=1)
def _bloom_filter() -> tuple[IndexKind, ...]:
    from lance_ops.index.bloom_filter.kind import BloomFilterKind

    return (BloomFilterKind(),)


@lru_cache(maxsize=1)
def _inverted() -> tuple[IndexKind, ...]:
    from lance_ops.index.inverted.kind import InvertedKind

    return (InvertedKind(),)


@lru_cache(maxsize=1)
def _min_hash_lsh() -> tuple[IndexKind, ...]:
    from lance_ops.index.min_hash_lsh.kind import MinHashLshKind

    return (MinHashLshKind(),)


@lru_cache(maxsize=1)
def _vector() -> tuple[IndexKind, ...]:
    from lance_ops.index.vector.kind import VECTOR_KINDS

    return VECTOR_KINDS


@lru_cache(maxsize=1)
def _json() -> tuple[IndexKind, ...]:
    from lance_ops.index.json.kind import JsonKind

    return (JsonKind(tuple(kind for family in _PLAIN_FAMILIES for kind in family.load())),)


_PLAIN_FAMILIES = (
    _Family("btreeindexdetails", ("BTREE",), _btree),
    _Family("bitmapindexdetails", ("BITMAP",), _bitmap),
    _Family("labellistindexdetails", ("LABEL_LIST",), _label_list),
    _Family("ngramindexdetails", ("NGRAM",), _ngram),
    _Family("rtreeindexdetails", ("RTREE",), _rtree),
    _Family("zonemapindexdetails", ("ZONEMAP",), _zone_map),
    _Family("bloomfilterindexdetails", ("BLOOMFILTER",), _bloom_filter),
    _Family("invertedindexdetails", ("INVERTED",), _inverted),
    _Family("minhashlshindexdetails", ("MINHASHLSH",), _min_hash_lsh),
    _Family("vectorindexdetails", (), _vector),
)
FAMILIES = (*_PLAIN_FAMILIES, _Family("jsonindexdetails", ("JSON",), _json))
_BY_DETAILS = {family.type_name: family for family in FAMILIES}


def all_kinds() -> tuple[IndexKind, ...]:
    """Return all kinds, those that a filter uses first in front; imports the modules of each."""
    return tuple(kind for family in FAMILIES for kind in family.load())


def rank_of(kind: IndexKind) -> int:
    """Return the place of a kind in the order in which a filter uses several indices on a column."""
    return next(place for place, family in enumerate(FAMILIES) if family.type_name == _type_name(kind))


def _type_name(kind: IndexKind) -> str:
    return kind.type_url.rsplit(".", 1)[-1].lower()


def kind_of(segment: IndexMetadata) -> IndexKind | None:
    """Return the kind of an index entry, or None for an unknown kind or version.

    Also None for a segment with covering columns: a rewritten one would lack them.
    """
    if segment.covering_fields:
        return None
    family = _BY_DETAILS.get(segment.kind or "")
    return None if family is None else next((kind for kind in family.load() if kind.can_read(segment)), None)


def why_not_indexed_here(dataset: Snapshot, segment: IndexMetadata) -> str | None:
    """Return why a valid segment of a known kind cannot be used: pylance supports more columns.

    Args:
        dataset: The version that it belongs to.
        segment: One of its segments.

    Returns:
        The unsupported property of the column, such as a type, or unknown fields of the entry; None
        otherwise.
    """
    kind = kind_of(segment)
    field = dataset.lance_schema.by_id(segment.fields[0]) if len(segment.fields) == 1 else None
    if kind is None or field is None:
        return None
    try:
        kind.check_field(field)
        kind.check_details(segment)
    except DecodeError:
        return None
    except (InvalidArgumentError, UnsupportedError) as error:
        return error.message
    return None


def parameters_as_made(dataset: Snapshot, segments: Sequence[IndexMetadata]) -> Parameters:
    """Return the parameters of an index, for new segments of it.

    Unknown parameters have no defaults: a rebuild would change the index.

    Args:
        dataset: The version that it belongs to.
        segments: Its segments, oldest first. The newest readable one is used.

    Raises:
        UnreadableIndexError: No segment can be read, or one is not supported; then the cause is an
            `UnsupportedError`.
    """
    problem: UnreadableIndexError | None = None
    found: Parameters | None = None
    for segment in reversed(segments):
        kind = kind_of(segment)
        try:
            with reading(segment):
                if kind is None:
                    raise UnsupportedError("its layout is not known here")
                kind.check_details(segment)
            if found is None:
                found = kind.parameters_of(dataset, segment)
        except UnreadableIndexError as error:
            if isinstance(error.__cause__, UnsupportedError):
                raise
            problem = problem or error
    if found is None:
        assert problem is not None
        raise problem
    return found


def kind_by_name(name: str) -> IndexKind:
    """Return the kind of a name, ignoring case.

    Raises:
        InvalidArgumentError: the kind is unknown.
    """
    check_type(name, str, "the name of a kind of index", field="kind")
    wanted = name.upper()
    for family in FAMILIES:
        # Several names of one family are known when its modules are.
        if wanted in family.names or not family.names:
            for kind in family.load():
                if kind.name.upper() == wanted:
                    return kind
    known = ", ".join(kind.name for kind in all_kinds() if kind.can_build)
    raise InvalidArgumentError(f"no index kind {name!r}", field="kind", hint=f"known kinds: {known}")
