"""Full-text searches of a dataset, by us and by the peer, as rows with scores."""

from collections.abc import Iterator
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from lance_ops.index.column import column_values
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.inverted.query import columns_of, parse_text_query
from lance_ops.index.inverted.search import TextSource, search_text
from lance_ops.index.reading import current_addresses
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.index.scored import Locate
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import row_addresses
from lance_ops.table.manifest.row_set import Addresses

_INVERTED = "/lance.table.invertedindexdetails"


def search_ours(uri: str, query: object, limit: int | None = None) -> dict[int, float]:
    """Addresses of the rows that we find, with their scores."""
    dataset = Dataset.open(uri)
    indexed = [
        dataset.lance_schema.path(segment.fields[0])
        for segment in dataset.indices
        if (segment.type_url or "").lower() == _INVERTED
    ]
    parsed = parse_text_query(query, list(dict.fromkeys(indexed)))
    sources = {path: text_source(dataset, path) for path in columns_of(parsed)}
    found = search_text(dataset, sources, parsed, limit)
    return dict(zip(found.addresses.tolist(), found.scores.tolist(), strict=True))


def search_peer(uri: str, query: object, limit: int | None = None) -> dict[int, float]:
    """Addresses of the rows that the peer finds, with their scores."""
    table = lance.dataset(uri).to_table(
        columns=["_rowaddr", "_score"], full_text_query=query, limit=limit, with_row_address=True
    )
    return dict(zip(table["_rowaddr"].to_pylist(), table["_score"].to_pylist(), strict=True))


def text_source(dataset: Dataset, path: str) -> TextSource:
    """Where the texts of a column are: all segments, and all fragments that none of them covers."""
    field = dataset.lance_schema.field(path)
    segments = [
        segment
        for segment in dataset.indices
        if segment.fields == (field.id,) and (segment.type_url or "").lower() == _INVERTED
    ]
    covered = frozenset().union(*(effective_fragments(dataset.manifest, segment) for segment in segments))
    others = [fragment.id for fragment in dataset.fragments if fragment.id not in covered]

    def unindexed() -> Iterator[pa.Table]:
        return column_values(dataset, path, others, documents_as_text=True) if others else iter(())

    return TextSource(tuple((segment, locate(dataset, segment)) for segment in segments), unindexed)


def locate(dataset: Dataset, segment: IndexMetadata) -> Locate:
    """Where the rows of a segment lie, deleted ones left out."""
    covered = effective_fragments(dataset.manifest, segment)

    def find(rows: Addresses) -> tuple[Addresses, Any]:
        if dataset.manifest.uses_stable_row_ids:
            return locate_row_ids(dataset, segment, covered, rows)
        addresses, kept = current_addresses(dataset, segment, rows)
        kept = kept & np.isin(addresses >> np.uint64(32), np.array(sorted(covered), np.uint64))
        for fragment in dataset.fragments:
            deleted = dataset.deletion_vector(fragment)
            if deleted is not None:
                kept &= ~np.isin(addresses, row_addresses(fragment.id, deleted.offsets()))
        return addresses, kept

    return find


def same_hits(ours: dict[int, float], theirs: dict[int, float]) -> bool:
    """Whether both found the same rows with the same scores, as single precision allows."""
    return ours.keys() == theirs.keys() and all(
        abs(score - theirs[row]) <= 1e-5 * max(1.0, abs(score)) for row, score in ours.items()
    )
