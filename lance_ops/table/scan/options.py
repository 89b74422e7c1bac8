"""Scan options: arguments of all read methods besides columns, filter, limit and offset."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.pruner import Pruner


class ScanOptions(TypedDict, total=False):
    """Options of a read; keyword arguments of `scanner`, `to_table`, `to_batches`, `to_pandas` and `head`.

    Attributes:
        with_row_id: Add the column `_rowid`.
        with_row_address: Add the column `_rowaddr`.
        fragments: Fragments to read, by id or as objects, in this order.
        batch_size: Maximum rows of a batch.
        nearest: Search for the vectors nearest to one: `column` and `q`, and as far as wanted `k` (10),
            `metric`, `nprobes` (or `minimum_nprobes`, `maximum_nprobes`), `refine_factor`, `ef`,
            `distance_range` (least included, greatest excluded) and `use_index`. Rows are returned with
            `_distance`, least first; several vectors as `q` are searched in sequence, with `query_index` as
            the first column. `ef` is accepted and ignored: partitions with graphs are read completely and
            each row is compared with `q`, which finds at least as much as a graph search with any `ef`.
        full_text_query: Search for words: a string, a mapping, or a query of
            `lance_ops.index.inverted.query`. Rows are returned with `_score`, greatest first.
        prefilter: Apply the filter before a search instead of to its result.
        fast_search: Return only indexed rows, of a search and of filters with an index.
        use_scalar_index: Use scalar indices for the filter.
        pruners: Prune the scan; those of the dataset, usually its indices, when None.
        threads: Threads that read ahead, each with about 32 MB of files and their decoded values; with 1,
            rows are read on demand. When None, the number of cores, at most four. Ignored by searches.
    """

    with_row_id: bool
    with_row_address: bool
    fragments: Sequence[int | Fragment] | None
    batch_size: int | None
    nearest: Mapping[str, Any] | None
    full_text_query: Any
    prefilter: bool
    fast_search: bool
    use_scalar_index: bool
    pruners: Sequence[Pruner] | None
    threads: int | None
