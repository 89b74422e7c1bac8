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
            `distance_range` (least included, greatest excluded) and `use_index`. Rows come with `_distance`,
            least first; several vectors as `q` are searched one after the other, with `query_index` as the
            first column. `ef` is taken and changes nothing: partitions with graphs are read whole and each
            row is compared with `q`, which finds no less than a walk along a graph with any `ef`.
        full_text_query: Search for words: a text, a mapping, or a query such as `MatchQuery`.
            Rows come with `_score`, greatest first.
        prefilter: Let a search find rows that meet the filter only, instead of leaving those out afterwards
            that do not.
        fast_search: Find indexed rows only: by a search, and by the indices that serve the filter.
        use_scalar_index: Let indices narrow the scan of the filter.
        pruners: What narrows the scan; those of the dataset, its indices as a rule, when None.
        order_by: Names of columns to sort the rows by, least first and nulls last, or sort keys of pylance.
            The rows have to fit in memory.
        threads: Threads that read ahead, each holding some 32 MB of files and what is unpacked of them;
            1 reads when rows are asked for. As many as cores, four at most, when None. A search takes no
            notice.
        mem_wal: Also read flushed generations and log entries of MemWAL that are not merged into the version:
            the newest row of each primary key is returned, and no row of a deleted key. Without it, a scan
            returns the rows of the version alone.
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
    order_by: Sequence[Any] | None
    threads: int | None
    mem_wal: bool


TUNING = (
    "batch_readahead",
    "batch_size_bytes",
    "disable_scoring_autoprojection",
    "fragment_readahead",
    "io_buffer_size",
    "late_materialization",
    "scan_in_order",
    "strict_batch_size",
    "use_stats",
)
"""Options of pylance that tune its scans and never change the rows: taken, without an effect."""

REFUSED: Mapping[str, str] = {
    "blob_handling": "blobs are read as bytes",
    "include_deleted_rows": "deleted rows are never returned; open an older version of the dataset",
    "index_segments": "choose the indices with use_scalar_index=False or pruners=...",
    "row_addr_allowlist": "select rows with take(rows, by='address')",
    "row_addr_blocklist": "select rows with a filter on `_rowaddr`",
    "scan_stats_callback": "explain() describes what a scan reads",
}
"""Options of pylance that have no counterpart here, and what to do instead."""
