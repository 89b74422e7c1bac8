"""Merge insert: upsert and other merges by a key, exactly once with a job key.

Updated rows are marked deleted and written again, as in an update; new rows come after them. Rows keep their
stable ids. Concurrently added rows are checked for the same keys, and after a match everything is joined
again on the head, so that each key has one row.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal, Unpack, overload

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, public
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.merge_insert.added_keys import adds_of
from lance_ops.maintenance.merge_insert.clauses import (
    Clauses,
    OnDuplicates,
    WhenMatched,
    WhenNotMatched,
    clauses_of,
)
from lance_ops.maintenance.merge_insert.commit import MergedRows, commit_merged, told_keys
from lance_ops.maintenance.merge_insert.plan import MergePlan, SourceKeys, key_table, plan_merge
from lance_ops.maintenance.merge_insert.result import MergeResult
from lance_ops.maintenance.merge_insert.source import SourceRows, fit_source, read_source
from lance_ops.maintenance.merge_insert.write import MergeTask, carried_along, share_rows, write_merged
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.maintenance.sources.source import leave_unread
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.tasks import reading, run_tasks, said_by_rows
from lance_ops.maintenance.update.rewrite import data_paths, discard
from lance_ops.table.dataset import Dataset
from lance_ops.table.join_keys import primary_key
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.accelerators import default_pruners
from lance_ops.table.scan.pruner import Pruner

_ROWS_PER_TASK = 1 << 18
REPLANS = 20
"""Maximum new plans of a merge: each conflict means that another writer made progress."""


class MergeArguments(RunOptions, total=False):
    """Keyword arguments of `merge_insert`, beside `RunOptions`; see there.

    Attributes:
        when_matched: Action on rows whose key the source has.
        condition: Condition of `when_matched="update_if"`.
        when_not_matched: Action on rows of the source with a new key.
        when_not_matched_by_source: Action on rows whose key the source lacks.
        on_duplicates: Action on several rows of the source with one key.
        use_index: Allow an index on the key to find matches.
    """

    when_matched: WhenMatched | None
    condition: str | None
    when_not_matched: WhenNotMatched | None
    when_not_matched_by_source: str | None
    on_duplicates: OnDuplicates
    use_index: bool


@overload
def merge_insert(
    uri_or_dataset: Target,
    data: Any,
    on: str | Sequence[str] | None = None,
    *,
    dry_run: Literal[False] = False,
    **arguments: Unpack[MergeArguments],
) -> MergeResult: ...
@overload
def merge_insert(
    uri_or_dataset: Target,
    data: Any,
    on: str | Sequence[str] | None = None,
    *,
    dry_run: Literal[True],
    **arguments: Unpack[MergeArguments],
) -> MergePlan: ...
@overload
def merge_insert(
    uri_or_dataset: Target,
    data: Any,
    on: str | Sequence[str] | None = None,
    *,
    dry_run: bool,
    **arguments: Unpack[MergeArguments],
) -> MergeResult | MergePlan: ...
@public(target="uri_or_dataset", conflict_retries="max_replans")
@cleans_up
def merge_insert(
    uri_or_dataset: Target,
    data: Any,
    on: str | Sequence[str] | None = None,
    *,
    when_matched: WhenMatched | None = None,
    condition: str | None = None,
    when_not_matched: WhenNotMatched | None = None,
    when_not_matched_by_source: str | None = None,
    on_duplicates: OnDuplicates = "fail",
    use_index: bool = True,
    dry_run: bool = False,
    **run: Unpack[RunOptions],
) -> MergeResult | MergePlan:
    """Merge rows into a dataset by a key, in one commit. Without changes, nothing is committed.

    Without any `when_...` clause this is an upsert: rows with a known key are updated, where `condition` is
    true if there is one, and the others are added. With one, the clauses that are left out do nothing.

    A null in a key equals nothing: such rows of the source are new, and such rows of the dataset have no
    partner.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        data: See `write_dataset`; columns are matched by name. It may lack columns: rows that are updated
            keep theirs, rows that are inserted have nulls there.
        on: Columns of the key; the primary key that the schema declares when None.
        when_matched: What becomes of rows of which the source has the key: "update_all" gives them its
            values; "update_if" does where `condition` is true; "delete" removes them; "fail" raises an error
            when there is one; "do_nothing", as None, leaves them.
        condition: SQL over `source.` and `target.` columns, such as "source.seen > target.seen".
        when_not_matched: "insert_all" inserts rows of the source with a new key; "do_nothing", like None,
            ignores them.
        when_not_matched_by_source: Action on rows of the dataset whose key the source lacks: "delete" deletes
            them all; an SQL condition deletes those for which it is true; "do_nothing", like None, keeps
            them.
        on_duplicates: Several rows of the source with one key that has an effect: "fail" raises an error that
            names them, "first" uses the first of them.
        use_index: Allow an index on the key to find matches of a small source.
        dry_run: Join without writing, and return the plan.
        **run: See `RunOptions`; the default of `max_replans` is 20.

    Raises:
        InvalidArgumentError: The key does not exist, no clause changes anything, rows of the source have the
            same key, or a row matches with "fail". Nothing was changed.
        SchemaMismatchError: The source does not fit the dataset; lists every mismatch.
        PredicateError: A condition does not parse, or names a column that is not there.
        CommitConflictError: Another commit stands in the way.

    Examples:
        >>> new = pa.table({"id": [9, 10], "kind": ["c", "c"]})
        >>> merged = lo.merge_insert("events.lance", new, on="id")
        >>> merged.rows_updated, merged.rows_inserted
        (1, 1)
    """
    clauses = clauses_of(
        when_matched=when_matched,
        condition=condition,
        when_not_matched=when_not_matched,
        when_not_matched_by_source=when_not_matched_by_source,
        on_duplicates=on_duplicates,
    )
    return _merge(uri_or_dataset, data, on, clauses, use_index=use_index, dry_run=dry_run, run=run)


@cleans_up
def merge_changes(
    target: Target,
    data: Any,
    leaving: pa.Table,
    on: Sequence[str],
    *,
    on_duplicates: OnDuplicates = "fail",
    **run: Unpack[RunOptions],
) -> MergeResult:
    """Update or insert the rows of some keys, and delete the rows of other keys, in one commit.

    Args:
        target: URI or path of the dataset, or a `Dataset`.
        data: Rows to update or to add, see `merge_insert`.
        leaving: Keys of the rows to delete, each once; those that are not there are passed over. Its columns
            are those of the key.
        on: Columns of the key.
        on_duplicates: See `merge_insert`.
        **run: See `RunOptions`; the default of `max_replans` is 20.

    Raises:
        InvalidArgumentError: The key does not exist, rows have the same key, or a key is both kept and
            deleted.
        SchemaMismatchError: The source does not fit the dataset; lists every mismatch.
        CommitConflictError: Another commit conflicts.
    """
    clauses = Clauses(when_matched="update_all", when_not_matched="insert_all", on_duplicates=on_duplicates)
    result = _merge(target, data, on, clauses, use_index=True, dry_run=False, run=run, leaving=leaving)
    assert isinstance(result, MergeResult)
    return result


def _merge(
    target: Target,
    data: Any,
    on: str | Sequence[str] | None,
    clauses: Clauses,
    *,
    use_index: bool,
    dry_run: bool,
    run: RunOptions,
    leaving: pa.Table | None = None,
) -> MergeResult | MergePlan:
    call = Run.start("merge_insert", target, run, max_replans=REPLANS)
    key = key_of(call.dataset, on)
    done = partial(MergeResult, on=key)
    if not dry_run:
        found = call.find_job()
        if found is not None:
            leave_unread(data)
            return done(**found)
    base = call.dataset
    schema = base.lance_schema
    source = read_source(data, schema, key, inserts=clauses.inserts, uri=call.store.uri, leaving=leaving)
    try:
        keys = SourceKeys.of(source, key)
        pruners: Sequence[Pruner] = default_pruners() if use_index else ()

        def plan(dataset: Dataset) -> MergePlan:
            nonlocal base, keys
            if dataset.lance_schema.fields != base.lance_schema.fields:
                fit_source(source, base, dataset, key, inserts=clauses.inserts)
                base, keys = dataset, SourceKeys.of(source, key)
            with said_by_rows():
                return plan_merge(
                    dataset,
                    source,
                    keys,
                    key,
                    clauses,
                    runner=call.runner,
                    report=call.report,
                    pruners=pruners,
                )

        if dry_run:
            return plan(call.dataset)

        def commit(attempt: Attempt, planned: MergePlan) -> MergeResult:
            return commit_merge(source, keys, attempt, planned)

        return call.execute(plan, commit, done, reads="a join")
    finally:
        source.close()


def key_of(dataset: Dataset, on: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the key columns: those given, or the primary key of the schema.

    Raises:
        InvalidArgumentError: There is none.
    """
    if isinstance(on, str):
        return (on,)
    if on:
        return tuple(on)
    declared = primary_key(dataset.lance_schema)
    if not declared:
        raise InvalidArgumentError(
            "no key columns were given, and the schema has no primary key",
            field="on",
            hint='name the columns that identify a row, as in on="id"',
        )
    return tuple(item.name for item in declared)


def commit_merge(source: SourceRows, keys: SourceKeys, attempt: Attempt, plan: MergePlan) -> MergeResult:
    """Write the rows of a plan and the deletion files, and commit both; see `commit_merged`."""
    if plan.changes_nothing:
        return MergeResult(**attempt.common(), on=plan.on)
    return commit_merged(attempt, plan.on, plan.clauses, merged_rows(attempt, source, keys, plan))


def merged_rows(attempt: Attempt, source: SourceRows, keys: SourceKeys | None, plan: MergePlan) -> MergedRows:
    """Write the rows of a plan, and return what is to be committed.

    Args:
        attempt: The attempt; the files are noted in it.
        source: Rows of the source.
        keys: Its keys; None if all rows are new, of whatever key.
        plan: The plan.
    """
    with reading(attempt.dataset, "a merge"), said_by_rows():
        new = _write_rows(attempt, source, plan)
    told = told_keys(attempt.dataset, plan.on, lambda: key_table(source, plan.on, plan.inserted))
    return MergedRows(
        plan.matches,
        new,
        rows_inserted=plan.rows_inserted,
        rows_updated=plan.rows_updated,
        rows_deleted=plan.rows_deleted,
        told=told,
        adds=(lambda _: False) if keys is None else adds_of(keys.index, plan.inserted),
    )


def _write_rows(attempt: Attempt, source: SourceRows, plan: MergePlan) -> tuple[Fragment, ...]:
    dataset, run = attempt.dataset, attempt.run
    here = isinstance(run.runner, LocalRunner)
    carry: Callable[[MergeTask], MergeTask] = (lambda task: task) if here else carried_along
    tasks = [
        carry(
            MergeTask(
                dataset.narrowed([part.fragment for part in parts]),
                source.table.slice(0, source.staying),
                parts,
                inserted,
                dataset.data_storage_version,
                job_key=run.commits.job_key,
                # Flushed while the commit is prepared; our committer ensures that all files exist before the
                # version.
                durable="later" if here and run.commits.committer is None else "now",
            )
        )
        for parts, inserted in share_rows(plan.parts, plan.inserted, _ROWS_PER_TASK)
    ]
    written = run_tasks(
        run.runner,
        write_merged,
        tasks,
        report=run.report,
        message="writing rows",
        discard=partial(discard, dataset.store),
    )
    new = tuple(chain.from_iterable(written))
    attempt.written += data_paths(new)
    return new
