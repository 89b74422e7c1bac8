"""Index statistics of a version: a summary of each index, and the statistics of pylance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_ops.errors import InvalidArgumentError, LanceOpsError, public
from lance_ops.index.coverage import IndexCoverage, coverage, effective_fragments
from lance_ops.index.registry import kind_of
from lance_ops.table.dataset import Dataset, Target, open_dataset
from lance_ops.table.manifest.fragments.totals import rows_of
from lance_ops.table.manifest.index_metadata import IndexMetadata

_PEER_NAMES: Mapping[str, str] = {
    "BTREE": "BTree",
    "BITMAP": "Bitmap",
    "LABEL_LIST": "LabelList",
    "INVERTED": "Inverted",
    "NGRAM": "NGram",
    "ZONEMAP": "ZoneMap",
    "BLOOMFILTER": "BloomFilter",
    "RTREE": "RTree",
    "JSON": "Json",
    "MINHASHLSH": "MinHashLsh",
}


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """One index of a version, all its segments together.

    Attributes:
        name: Of the index.
        index_type: Its kind, as pylance writes it; from the type URL if unknown to lance_ops.
        type_url: As recorded; None for the oldest writers.
        fields: Ids of the indexed fields.
        field_names: Their paths; None for one that the schema does not have.
        num_segments: Segments.
        num_rows_indexed: Live rows that they cover.
        num_rows_unindexed: Live rows that a query has to scan.
        num_fragments_indexed: Fragments that they cover.
        num_fragments_unindexed: The other fragments.
        total_size_bytes: Recorded size of the files; None when a writer did not record it.
        readable: True if lance_ops supports the layout, at least for remaps.
    """

    name: str
    index_type: str
    type_url: str | None
    fields: tuple[int, ...]
    field_names: tuple[str | None, ...]
    num_segments: int
    num_rows_indexed: int
    num_rows_unindexed: int
    num_fragments_indexed: int
    num_fragments_unindexed: int
    total_size_bytes: int | None
    readable: bool

    @property
    def coverage(self) -> float:
        """Share of live rows that are covered; 1 for an empty dataset."""
        rows = self.num_rows_indexed + self.num_rows_unindexed
        return 1.0 if not rows else self.num_rows_indexed / rows


@public(dataset="uri_or_dataset")
def describe_indices(
    uri_or_dataset: Target, *, storage_options: Mapping[str, str] | None = None
) -> tuple[IndexDescription, ...]:
    """Describe all indices of a version, by name; reads no index file but what tells vector kinds apart.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`, which is described at its own version.
        storage_options: For opening the dataset.

    Examples:
        >>> done = lo.create_index("events.lance", "id")
        >>> [(index.name, index.index_type) for index in lo.describe_indices("events.lance")]
        [('id_idx', 'BTree')]
    """
    dataset = open_dataset(uri_or_dataset, storage_options)
    return tuple(_describe(dataset, item) for item in coverage(dataset))


@public(dataset="uri_or_dataset")
def index_statistics(
    uri_or_dataset: Target, name: str, *, storage_options: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Statistics of an index by the names that the peer gives them; segments that cannot be read say why.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        name: Of the index.
        storage_options: For opening the dataset.

    Raises:
        InvalidArgumentError: There is no index of this name.

    Examples:
        >>> done = lo.create_index("events.lance", "id")
        >>> lo.index_statistics("events.lance", "id_idx")["num_indexed_rows"]
        10
    """
    dataset = open_dataset(uri_or_dataset, storage_options)
    found = {item.name: item for item in coverage(dataset)}
    if name not in found:
        raise InvalidArgumentError(
            f"no index {name!r}",
            path=dataset.uri,
            field="name",
            hint=f"indices: {', '.join(found) or 'none'}",
        )
    item = found[name]
    segments = [_segment(dataset, segment) for segment in item.segments]
    updated = max((segment.created_at or 0 for segment in item.segments), default=0)
    return {
        "index_type": _index_type(item, segments),
        "name": name,
        "num_indices": len(segments),
        "num_segments": len(segments),
        "indices": segments,
        "segments": segments,
        "num_indexed_fragments": len(item.covered),
        "num_indexed_rows": item.rows - item.unindexed_rows,
        "num_unindexed_fragments": len(item.uncovered),
        "num_unindexed_rows": item.unindexed_rows,
        "num_indexed_rows_per_delta": [_rows(dataset, segment) for segment in item.segments],
        "updated_at_timestamp_ms": updated or None,
    }


def _describe(dataset: Dataset, item: IndexCoverage) -> IndexDescription:
    sizes = [file.size_bytes for segment in item.segments for file in segment.files]
    is_vector = item.kind == "vectorindexdetails"
    told = [_segment(dataset, segment) for segment in item.segments[:1]] if is_vector else []
    return IndexDescription(
        name=item.name,
        index_type=_index_type(item, told),
        type_url=item.segments[0].type_url,
        fields=item.fields,
        field_names=tuple(_path(dataset, field_id) for field_id in item.fields),
        num_segments=len(item.segments),
        num_rows_indexed=item.rows - item.unindexed_rows,
        num_rows_unindexed=item.unindexed_rows,
        num_fragments_indexed=len(item.covered),
        num_fragments_unindexed=len(item.uncovered),
        total_size_bytes=sum(sizes) if all(segment.files for segment in item.segments) else None,
        readable=all(kind_of(segment) is not None for segment in item.segments),
    )


def _index_type(item: IndexCoverage, segments: Sequence[Mapping[str, Any]]) -> str:
    for segment in segments:
        if isinstance(told := segment.get("index_type"), str):
            return told
    kind = kind_of(item.segments[0])
    if kind is not None:
        return _PEER_NAMES.get(kind.name, kind.name)
    url = item.segments[0].type_url
    return (
        "unknown" if url is None else url.rsplit("/", 1)[-1].rsplit(".", 1)[-1].removesuffix("IndexDetails")
    )


def _segment(dataset: Dataset, segment: IndexMetadata) -> dict[str, Any]:
    kind = kind_of(segment)
    if kind is None:
        return {}
    try:
        return dict(kind.statistics(dataset, segment))
    except LanceOpsError as error:
        return {"error": str(error)}


def _rows(dataset: Dataset, segment: IndexMetadata) -> int:
    covered = effective_fragments(dataset.manifest, segment)
    return rows_of(dataset.fragments, covered)


def _path(dataset: Dataset, field_id: int) -> str | None:
    try:
        return dataset.lance_schema.path(field_id)
    except (LanceOpsError, LookupError):
        return None
