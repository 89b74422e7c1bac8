"""Registry of the index kinds that lance_ops can use, or at least remap.

A kind is looked up by the type URL of an index entry. Indices of other kinds are listed and preserved, never
used (architecture, invariant 7). A filter uses several indices on a column in this order.
"""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from lance_ops.errors import InvalidArgumentError, UnreadableIndexError, UnsupportedError, check_type
from lance_ops.index.bitmap.kind import BitmapKind
from lance_ops.index.bloom_filter.kind import BloomFilterKind
from lance_ops.index.btree.kind import BTreeKind
from lance_ops.index.inverted.kind import InvertedKind
from lance_ops.index.json.kind import JsonKind
from lance_ops.index.kind import IndexKind, Parameters
from lance_ops.index.label_list.kind import LabelListKind
from lance_ops.index.min_hash_lsh.kind import MinHashLshKind
from lance_ops.index.ngram.kind import NGramKind
from lance_ops.index.reading import reading
from lance_ops.index.rtree.kind import RTreeKind
from lance_ops.index.vector.kind import VECTOR_KINDS
from lance_ops.index.zone_map.kind import ZoneMapKind
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.snapshot import Snapshot

_PLAIN_KINDS: tuple[IndexKind, ...] = (
    BTreeKind(),
    BitmapKind(),
    LabelListKind(),
    NGramKind(),
    RTreeKind(),
    ZoneMapKind(),
    BloomFilterKind(),
    InvertedKind(),
    MinHashLshKind(),
    *VECTOR_KINDS,
)

KINDS: tuple[IndexKind, ...] = (*_PLAIN_KINDS, JsonKind(_PLAIN_KINDS))

_BY_DETAILS: dict[str, list[IndexKind]] = {}
for _kind in KINDS:
    _BY_DETAILS.setdefault(_kind.type_url.rsplit(".", 1)[-1].lower(), []).append(_kind)


def kind_of(segment: IndexMetadata) -> IndexKind | None:
    """Return the kind of an index entry, or None for an unknown kind or version.

    Also None for a segment with covering columns: a rewritten one would lack them.
    """
    if segment.covering_fields:
        return None
    return next((kind for kind in _BY_DETAILS.get(segment.kind or "", ()) if kind.can_read(segment)), None)


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
    for kind in KINDS:
        if kind.name.lower() == name.lower():
            return kind
    known = ", ".join(kind.name for kind in KINDS if kind.can_build)
    raise InvalidArgumentError(f"no index kind {name!r}", field="kind", hint=f"known kinds: {known}")
