"""The kinds of index that lance_ops can use, or move along at least.

A kind is looked up by the type URL of an index entry. Indices of other kinds are listed and kept, and never
used (architecture, invariant 7). Of several indices on a column, a filter asks them in this order.
"""

from lance_ops.errors import InvalidArgumentError, check_type
from lance_ops.index.bitmap.kind import BitmapKind
from lance_ops.index.bloom_filter.kind import BloomFilterKind
from lance_ops.index.btree.kind import BTreeKind
from lance_ops.index.inverted.kind import InvertedKind
from lance_ops.index.json.kind import JsonKind
from lance_ops.index.kind import IndexKind
from lance_ops.index.label_list.kind import LabelListKind
from lance_ops.index.min_hash_lsh.kind import MinHashLshKind
from lance_ops.index.ngram.kind import NGramKind
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
        What the column has that the kind does not take here, such as a type of its values; None otherwise.
    """
    kind = kind_of(segment)
    field = dataset.lance_schema.by_id(segment.fields[0]) if len(segment.fields) == 1 else None
    if kind is None or field is None:
        return None
    try:
        kind.check_field(field)
    except InvalidArgumentError as error:
        return error.message
    return None


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
