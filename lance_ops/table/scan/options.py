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
        threads: Threads that read ahead, each holding some 32 MB of files and what is unpacked of them;
            1 reads when rows are asked for. As many as cores, four at most, when None. A search takes no
            notice.
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
