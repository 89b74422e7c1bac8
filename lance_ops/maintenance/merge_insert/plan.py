"""Merge plan: matches in the source, and actions on all rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import InvalidArgumentError
from lance_ops.filter import Column, Expression
from lance_ops.filter.literals import from_scalar
from lance_ops.filter.predicates import And, InList
from lance_ops.filter.types.coercion import plain_type
from lance_ops.maintenance.delete.plan import FragmentMatch
from lance_ops.maintenance.merge_insert.clauses import SOURCE, Clauses, named_columns
from lance_ops.maintenance.merge_insert.search import JoinedRows, JoinTask, join_rows, share_fragments
from lance_ops.maintenance.merge_insert.source import SourceRows, refuse_duplicates
from lance_ops.maintenance.merge_insert.write import PairedPart
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.runner import Runner
from lance_ops.maintenance.tasks import run_tasks
from lance_ops.maintenance.text import count_text, table_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.join_keys import NOWHERE, KeyIndex, plain_keys
from lance_ops.table.manifest.fragments.totals import total_rows
from lance_ops.table.scan.pruner import IndexUse, Pruner, Pruning

Places = npt.NDArray[np.int64]

_ROWS_PER_TASK = 1 << 20
_ASK_INDEX_OF = ((20_000, 32), (200_000, 1024))
"""Limits for the use of an index: maximum keys, if the dataset has this many times more rows."""


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Plan of a merge; prints as a table.

    Attributes:
        uri: The dataset.
        version: Version that it was planned from.
        on: Key columns.
        clauses: Clauses of the merge.
        source_rows: Rows of the source.
        total_rows: Live rows of the dataset.
        joined: Matches by fragment.
        inserted: New rows of the source.
        indices: Indices used to find matches; empty for a scan of the key.
    """

    uri: str
    version: int
    on: tuple[str, ...]
    clauses: Clauses
    source_rows: int
    total_rows: int
    joined: tuple[JoinedRows, ...]
    inserted: Places
    indices: tuple[IndexUse, ...] = ()

    @property
    def uses_index(self) -> bool:
        """True if an index found the candidates: nothing else is read of the fragments that it covers."""
        return bool(self.indices)

    @property
    def found_by(self) -> str:
        """Description of how matches are found."""
        if not self.indices:
            return "a scan of the key"
        names = " and ".join(sorted({f"{use.kind} index {use.index}" for use in self.indices}))
        covered = max(use.fragments for use in self.indices)
        rows = min(use.rows for use in self.indices)
        return f"{names}, {count_text(rows, 'row')} of {count_text(covered, 'fragment')}"

    @property
    def matches(self) -> tuple[FragmentMatch, ...]:
        """Rows to mark deleted, by fragment."""
        return tuple(match for item in self.joined if (match := item.match) is not None)

    @property
    def parts(self) -> tuple[PairedPart, ...]:
        """Rows updated from the source."""
        if not self.clauses.updates:
            return ()
        return tuple(
            PairedPart(item.fragment, item.offsets, item.rows) for item in self.joined if len(item.offsets)
        )

    @property
    def rows_updated(self) -> int:
        """Number of updated rows."""
        return sum(len(item.offsets) for item in self.joined) if self.clauses.updates else 0

    @property
    def rows_deleted(self) -> int:
        """Number of deleted rows."""
        return sum(len(item.offsets) + len(item.unmatched) for item in self.joined) - self.rows_updated

    @property
    def rows_inserted(self) -> int:
        """Number of inserted rows."""
        return len(self.inserted)

    @property
    def changes_nothing(self) -> bool:
        """True if no row is changed."""
        return not (len(self.inserted) or self.matches)

    def to_dict(self) -> dict[str, object]:
        """Numbers and ids as JSON values."""
        return {
            "operation": "merge_insert",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "on": list(self.on),
            "clauses": str(self.clauses),
            "source_rows": self.source_rows,
            "total_rows": self.total_rows,
            "rows_inserted": self.rows_inserted,
            "rows_updated": self.rows_updated,
            "rows_deleted": self.rows_deleted,
            "uses_index": self.uses_index,
            "found_by": self.found_by,
            "fragments": [
                {
                    "fragment": match.fragment.id,
                    "live_rows": match.live_rows,
                    "rows_matched": len(match.matched),
                    "removed": match.empties,
                }
                for match in self.matches
            ],
        }

    def __str__(self) -> str:
        head = (
            f"merge of {count_text(self.source_rows, 'row')} on {', '.join(self.on)} into version "
            f"{self.version} of {self.uri}, {count_text(self.total_rows, 'row')} ({self.clauses}), found by "
            f"{self.found_by}"
        )
        if self.changes_nothing:
            return f"{head}: nothing to insert, update or delete"
        rows = [
            (
                str(match.fragment.id),
                f"{match.live_rows:,}",
                f"{len(match.matched):,}",
                "is emptied" if match.empties else f"keeps {match.live_rows - len(match.matched):,}",
            )
            for match in self.matches
        ]
        touched = f"inserts {self.rows_inserted:,}, updates {self.rows_updated:,}"
        lines = [f"{head}: {touched}, deletes {self.rows_deleted:,}"]
        if rows:
            lines.append(table_text(("fragment", "live rows", "touched", "then"), rows))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class SourceKeys:
    """The keys of a source, numbered once for all plans.

    Attributes:
        index: Lookup of keys for rows of the dataset.
        firsts: The first row with the key of each row; -1 for a null.
    """

    index: KeyIndex
    firsts: Places

    @classmethod
    def of(cls, source: SourceRows, on: Sequence[str]) -> "SourceKeys":
        """Number the keys of a source."""
        return cls(*KeyIndex.of([plain_keys(source.table[name]) for name in on]))


def plan_merge(
    dataset: Dataset,
    source: SourceRows,
    keys: SourceKeys,
    on: tuple[str, ...],
    clauses: Clauses,
    *,
    runner: Runner,
    report: Reporter,
    pruners: Sequence[Pruner],
) -> MergePlan:
    """Join the source with a version. Reads the key, and the columns of conditions.

    Raises:
        PredicateError: A condition does not parse, or names an unknown column.
        InvalidArgumentError: Several rows of the source have the same effective key, or rows match although
            no match is allowed.
    """
    pruning = None if clauses.deletes_unmatched else _ask_indices(dataset, source, on, pruners)
    tasks = _tasks(dataset, source, keys, on, clauses, pruning)
    found = run_tasks(runner, join_rows, tasks, report=report, message="joining fragments")
    joined = tuple(item for items in found for item in items)
    inserted = settle(source, keys, on, clauses, joined)
    return MergePlan(
        dataset.uri,
        dataset.version,
        on,
        clauses,
        source.num_rows,
        total_rows(dataset.fragments),
        joined,
        inserted,
        indices=() if pruning is None else pruning.uses,
    )


def _tasks(
    dataset: Dataset,
    source: SourceRows,
    keys: SourceKeys,
    on: tuple[str, ...],
    clauses: Clauses,
    pruning: Pruning | None,
) -> list[JoinTask]:
    condition = clauses.parse_condition(source.table.schema, dataset.schema)
    unmatched = clauses.parse_unmatched(dataset.schema)
    compared = None
    if condition is not None:
        wanted = named_columns(condition, SOURCE)
        compared = source.table.select([name for name in source.table.column_names if name in wanted])
    fragments = [
        fragment
        for fragment in dataset.fragments
        if pruning is None
        or fragment.id not in pruning.covered_fragment_ids
        or len(pruning.offsets_in(fragment.id))
    ]
    return [
        JoinTask(
            dataset.narrowed(share),
            on,
            keys.index,
            condition,
            compared,
            touches_matched=clauses.touches_matched,
            deletes_unmatched=clauses.deletes_unmatched,
            unmatched=unmatched,
            candidates=tuple(
                pruning.offsets_in(fragment.id)
                if pruning is not None and fragment.id in pruning.covered_fragment_ids
                else None
                for fragment in share
            ),
            staying=source.staying if source.leaving else None,
        )
        for share in share_fragments(fragments, _ROWS_PER_TASK)
    ]


def _ask_indices(
    dataset: Dataset, source: SourceRows, on: tuple[str, ...], pruners: Sequence[Pruner]
) -> Pruning | None:
    """Return the candidate rows for these keys from an index; None without one, or if a scan is cheaper."""
    total = total_rows(dataset.fragments)
    few = any(source.num_rows <= keys and source.num_rows * times < total for keys, times in _ASK_INDEX_OF)
    if not pruners or not few:
        return None
    parts = tuple(_is_in_source(dataset, source, name) for name in on)
    condition = And(parts) if len(parts) > 1 else parts[0]
    found = (pruner.prune(dataset, condition) for pruner in pruners)
    prunings = [item for item in found if item is not None]
    return max(prunings, key=lambda item: len(item.covered_fragment_ids), default=None)


def _is_in_source(dataset: Dataset, source: SourceRows, name: str) -> Expression:
    kind = plain_type(dataset.schema.field(name).type)
    column = pc.unique(source.table[name].cast(kind)).drop_null()
    return InList(Column((name,), kind), tuple(from_scalar(scalar) for scalar in column))


def settle(
    source: SourceRows,
    keys: SourceKeys,
    on: tuple[str, ...],
    clauses: Clauses,
    joined: Sequence[JoinedRows],
    *,
    numbered: bool = True,
) -> Places:
    """Return the rows of the source to insert; checks the clauses.

    Args:
        source: The source, or some rows of it with all those of their keys.
        keys: Its keys.
        on: Key columns.
        clauses: Clauses of the merge.
        joined: Its matches.
        numbered: Include row numbers of the source in errors.

    Raises:
        InvalidArgumentError: Several rows have the same effective key, or rows match although no match is
            allowed.
    """
    rows = source.num_rows
    partnered = np.zeros(rows, np.bool_)
    for item in joined:
        partnered[item.partners] = True
    named = source.table.select(list(on))
    if clauses.when_matched == "fail" and partnered.any():
        row = int(np.flatnonzero(partnered)[0])
        key = ", ".join(f"{name} = {named[name][row]}" for name in on)
        which = f"row {row}" if numbered else "a row"
        raise InvalidArgumentError(
            f"{which} of the source has an existing key ({key}), {count_text(int(partnered.sum()), 'key')} "
            "of it in total; nothing was changed",
            field="when_matched",
        )
    firsts = keys.firsts
    valid = firsts != NOWHERE
    matched = np.zeros(rows, np.bool_)
    matched[valid] = partnered[firsts[valid]]
    later = valid & (firsts != np.arange(rows))
    if clauses.on_duplicates == "fail":
        acts = np.zeros(rows, np.bool_)
        if clauses.touches_matched:
            acts |= matched
        if clauses.inserts:
            acts |= ~matched
        refuse_duplicates(named, firsts, np.flatnonzero(later & acts), numbered=numbered)
    if not clauses.inserts:
        return np.zeros(0, np.int64)
    return np.flatnonzero((~matched & ~later)[: source.staying])


def key_table(source: SourceRows, on: Sequence[str], rows: Places) -> pa.Table:
    """Keys of some rows of the source."""
    return source.table.select(list(on)).take(pa.array(rows))
