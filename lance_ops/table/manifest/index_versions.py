"""Index versions: whether a segment refers to rows by id or by address, and which readers support it.

In a table without stable row ids the two are the same numbers. Otherwise a reader that confuses them finds
nothing, without an error, and only the kind and the version of a segment distinguish them: the flag of the
table does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from google.protobuf.message import DecodeError

from lance_ops.pb import index_pb2
from lance_ops.table.manifest.index_metadata import IndexMetadata


class RowNames(Enum):
    """Row references of a segment in a table with stable row ids."""

    IDS = "row ids"
    """Unchanged when rows move."""
    ADDRESSES = "row addresses"
    """Or offsets in a fragment: a rewrite changes them."""


@dataclass(frozen=True, slots=True)
class KindVersions:
    """The versions of a kind.

    Attributes:
        names: Row references of each version.
        written: The version that lance_ops records: of several with row ids the one most widely supported.
    """

    names: Mapping[int, RowNames]
    written: int = 0

    def to_write(self, names: RowNames) -> int:
        """Return the version of a new segment in a table with stable row ids."""
        if self.names[self.written] is names:
            return self.written
        # Zones never refer to rows by id, and kinds with one version have that one.
        return next((version for version, found in self.names.items() if found is names), self.written)


_IDS, _ADDRESSES = RowNames.IDS, RowNames.ADDRESSES
_EITHER = KindVersions({0: _IDS, 1: _ADDRESSES})

INDEX_VERSIONS: Mapping[str, KindVersions] = {
    "btreeindexdetails": _EITHER,
    "bitmapindexdetails": _EITHER,
    "labellistindexdetails": KindVersions({0: _IDS, 1: _IDS, 2: _ADDRESSES}, written=1),
    "ngramindexdetails": _EITHER,
    "rtreeindexdetails": _EITHER,
    "zonemapindexdetails": KindVersions({0: _ADDRESSES}),
    "bloomfilterindexdetails": KindVersions({0: _ADDRESSES}),
    # 0 has its tokens in a column, the others as a transducer; 2 has smaller posting lists, 3 also impacts.
    "invertedindexdetails": KindVersions({0: _IDS, 1: _IDS, 2: _IDS, 3: _IDS}),
    # pylance writes 1 (2 for IVF_RQ) and reads 0; its releases up to 0.30 use an entry of 0 only.
    "vectorindexdetails": KindVersions({0: _IDS, 1: _IDS, 2: _IDS}),
    "minhashlshindexdetails": KindVersions({0: _IDS}),
    # Contains an index of another kind on values in documents, with the row references of that kind.
    "jsonindexdetails": KindVersions({0: _IDS}),
}
"""Versions by `IndexMetadata.kind`."""


def row_names(index: IndexMetadata) -> RowNames | None:
    """Return the row references of a segment with stable row ids; None for an unknown kind or version."""
    if index.kind == "jsonindexdetails":
        try:
            target = index_pb2.JsonIndexDetails.FromString(index.details).target_details
        except DecodeError:
            return None
        index = replace(index, type_url=target.type_url)
    known = INDEX_VERSIONS.get(index.kind or "")
    return None if known is None else known.names.get(index.index_version or 0)


def holds_stable_row_ids(index: IndexMetadata) -> bool:
    """Return whether the entries of a segment are row ids if the dataset has stable ones."""
    return row_names(index) is RowNames.IDS
