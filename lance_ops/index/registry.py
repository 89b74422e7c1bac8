"""The kinds of index that lance_ops can use, or move along at least.

A kind is looked up by the type URL of an index entry. Indices of other kinds are listed and kept, and never
used (architecture, invariant 7). Of several indices on a column, a filter asks them in this order.
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
    """The kind of an index entry, or None when it is not one of ours or of a version we do not know.

    Nor is a segment that carries columns beside its keys: what is written in its place would lack them.
    """
    if segment.covering_fields:
        return None
    return next((kind for kind in _BY_DETAILS.get(segment.kind or "", ()) if kind.can_read(segment)), None)


def why_not_indexed_here(dataset: Snapshot, segment: IndexMetadata) -> str | None:
    """Why a segment of a known kind is of no use here although it is sound: pylance indexes more columns.

    Args:
        dataset: The version that it belongs to.
        segment: One of its segments.

    Returns:
        What the column has that the kind does not take here, such as a type of its values, or that the entry
        has fields which are not known here; None otherwise.
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
    """Return how an index is made, for segments that are built like those it has.

    There is no default in the place of what is not known: a rebuild would make another index of it.

    Args:
        dataset: The version that it belongs to.
        segments: Its segments, oldest first. The newest that can be read tells.

    Raises:
        UnreadableIndexError: No segment can be read, or one asks for what nothing here can do; then the cause
            is an `UnsupportedError`.
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
    """The kind a user asks for, ignoring case.

    Raises:
        InvalidArgumentError: there is none of this name.
    """
    check_type(name, str, "the name of a kind of index", field="kind")
    for kind in KINDS:
        if kind.name.lower() == name.lower():
            return kind
    known = ", ".join(kind.name for kind in KINDS if kind.can_build)
    raise InvalidArgumentError(f"no index kind {name!r}", field="kind", hint=f"known kinds: {known}")
