"""What the index version of a segment says: whether it names rows by id or by address, and who can read it.

In a table without stable row ids the two are the same numbers. In one with them a reader that takes one for
the other finds nothing, without an error, and only the kind and the version of a segment tell which it is:
the flag of the table does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from google.protobuf.message import DecodeError

from lance_ops.pb import index_pb2
from lance_ops.table.manifest.index_metadata import IndexMetadata


class RowNames(Enum):
    """How a segment names rows in a table with stable row ids."""

    IDS = "row ids"
    """They stay when rows move."""
    ADDRESSES = "row addresses"
    """Or positions in a fragment: a rewrite changes them."""


@dataclass(frozen=True, slots=True)
class KindVersions:
    """The versions of a kind.

    Attributes:
        names: How rows are named in each.
        written: The version that lance_ops records: of several for row ids the one that most readers know.
    """

    names: Mapping[int, RowNames]
    written: int = 0

    def to_write(self, names: RowNames) -> int:
        """The version of a new segment in a table with stable row ids."""
        if self.names[self.written] is names:
            return self.written
        # Zones name none by id, and what has one version holds what it holds.
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
    # 0 has its words in a column, the others as a transducer; 2 smaller posting lists, 3 impacts, too.
    "invertedindexdetails": KindVersions({0: _IDS, 1: _IDS, 2: _IDS, 3: _IDS}),
    # The peer writes 1 (2 for IVF_RQ) and reads 0; its releases up to 0.30 use an entry of 0 only.
    "vectorindexdetails": KindVersions({0: _IDS, 1: _IDS, 2: _IDS}),
    "minhashlshindexdetails": KindVersions({0: _IDS}),
    # An index of another kind, of the values in documents: rows are named as that names them.
    "jsonindexdetails": KindVersions({0: _IDS}),
}
"""By the kind of `IndexMetadata.kind`."""


def row_names(index: IndexMetadata) -> RowNames | None:
    """How a segment names rows in a table with stable row ids; None for an unknown kind or version."""
    if index.kind == "jsonindexdetails":
        try:
            target = index_pb2.JsonIndexDetails.FromString(index.details).target_details
        except DecodeError:
            return None
        index = replace(index, type_url=target.type_url)
    known = INDEX_VERSIONS.get(index.kind or "")
    return None if known is None else known.names.get(index.index_version or 0)


def holds_stable_row_ids(index: IndexMetadata) -> bool:
    """Whether the entries of a segment are row ids if the dataset has stable ones."""
    return row_names(index) is RowNames.IDS
