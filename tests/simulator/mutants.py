"""Mutants: the safety code of the product with one thing broken, as patches that are applied at run time.

Each has to be caught by the simulator: a history that the product survives fails with the patch in place.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import numpy as np

from lance_ops.errors import CommitOutcomeUnknownError, LanceOpsError, RetryableCommitConflictError
from lance_ops.maintenance.cleanup import execute, operation
from lance_ops.table.commit import committer, conflict_matrix, judged_commits, loop
from lance_ops.table.commit.committer import Found
from lance_ops.table.commit.jobs import job_keys
from lance_ops.table.commit.rebase import moved_rows, rebase
from lance_ops.table.transaction import apply_fragments
from lance_ops.table.transaction.operations import Delete, Rewrite, Update
from tests.simulator.virtual import VirtualDatetime

Mutant = Callable[[], contextlib.AbstractContextManager[object]]


def _patch(target: Any, name: str, value: Any) -> Mutant:
    return lambda: mock.patch.object(target, name, value)


def _rule(*cells: tuple[str, str]) -> Mutant:
    """A conflict matrix in which some cells let both commits stand."""

    def stand(_ours: object, _theirs: object) -> conflict_matrix.Verdict:
        return conflict_matrix.compatible()

    return _patch(conflict_matrix, "RULE_OF", {**conflict_matrix.RULE_OF, **dict.fromkeys(cells, stand)})


def _no_rebase(kind: type) -> Mutant:
    left = {key: value for key, value in rebase._REBASES.items() if key is not kind}
    return _patch(rebase, "_REBASES", left)


def _skip_gaps() -> contextlib.AbstractContextManager[object]:
    real = judged_commits.read_intervening

    def lenient(store: Any, ours: Any, after: int, head: Any, manifest: Any) -> Iterator[Any]:
        for version in range(after, head.version):
            at = replace(head, version=version + 1)
            with contextlib.suppress(RetryableCommitConflictError):
                if version + 1 == head.version:
                    yield from real(store, ours, version, head, manifest)
                else:
                    yield from real(store, ours, version, at, _summary(store, at, version + 1, ours))

    return mock.patch.object(judged_commits, "read_intervening", lenient)


def _summary(store: Any, head: Any, version: int, ours: Any) -> Any:
    from lance_ops.table.manifest.file.read import read_manifest
    from lance_ops.table.manifest.listing import ManifestLocation, manifest_path

    try:
        path = manifest_path(version, head.scheme)
        return read_manifest(store, ManifestLocation(version, path, scheme=head.scheme))
    except LanceOpsError as error:
        raise RetryableCommitConflictError("gone", ours="", theirs="", version=version) from error


def _judge_newest_only() -> contextlib.AbstractContextManager[object]:
    real = judged_commits.read_intervening

    def newest(store: Any, ours: Any, after: int, head: Any, manifest: Any) -> Iterator[Any]:
        yield from real(store, ours, max(after, head.version - 1), head, manifest)

    return mock.patch.object(judged_commits, "read_intervening", newest)


def _next_id_of_present(manifest: Any) -> int:
    return max((fragment.id for fragment in manifest.fragments), default=-1) + 1


def _reuse_ids() -> contextlib.AbstractContextManager[object]:
    stack = contextlib.ExitStack()
    from lance_ops.table.commit import apply
    from lance_ops.table.transaction.operations import rewrite

    for module in (apply_fragments, apply, rewrite):
        if hasattr(module, "next_fragment_id"):
            stack.enter_context(mock.patch.object(module, "next_fragment_id", _next_id_of_present))
    return stack


def _reuse_row_ids() -> contextlib.AbstractContextManager[object]:
    from lance_ops.table.transaction.operations import restore

    real = restore.Restore.apply

    def apply(self: Any, current: Any, options: Any) -> Any:
        return real(self, current, options).replace(next_row_id=options.restored.next_row_id)

    return mock.patch.object(restore.Restore, "apply", apply)


def _restore_ids() -> contextlib.AbstractContextManager[object]:
    from lance_ops.table.transaction.operations import restore

    real = restore.Restore.apply

    def apply(self: Any, current: Any, options: Any) -> Any:
        return real(self, current, options).replace(max_fragment_id=options.restored.max_fragment_id)

    return mock.patch.object(restore.Restore, "apply", apply)


def _failed_put_is_lost() -> contextlib.AbstractContextManager[object]:
    def publish(store: Any, chosen: Any, location: Any, manifest: bytes, _transaction: Any) -> bool:
        try:
            chosen.commit(store, location, manifest)
        except LanceOpsError:
            return False
        return True

    return mock.patch.object(loop, "publish", publish)


def _failed_put_is_success() -> contextlib.AbstractContextManager[object]:
    def publish(store: Any, chosen: Any, location: Any, manifest: bytes, _transaction: Any) -> bool:
        from lance_ops.errors import AlreadyExistsError

        try:
            chosen.commit(store, location, manifest)
        except AlreadyExistsError:
            return False
        except LanceOpsError:
            return True
        return True

    return mock.patch.object(loop, "publish", publish)


def _found_is_ours() -> contextlib.AbstractContextManager[object]:
    real = committer._read_back

    def read_back(*arguments: Any) -> Found:
        found = real(*arguments)
        return Found.OURS if found is Found.FOREIGN else found

    return mock.patch.object(committer, "_read_back", read_back)


def _unknown_is_failure() -> contextlib.AbstractContextManager[object]:
    """The files of a commit are removed although the version may still appear."""
    real = committer.publish

    def publish(*arguments: Any) -> bool:
        try:
            return real(*arguments)
        except CommitOutcomeUnknownError as error:
            raise LanceOpsError("not committed") from error

    return mock.patch.object(loop, "publish", publish)


def _absent_is_failure() -> contextlib.AbstractContextManager[object]:
    """An unanswered put counts as one that never arrives."""
    real = committer.publish

    def publish(*arguments: Any) -> bool:
        with mock.patch.object(committer, "_PAUSES", ()):
            try:
                return real(*arguments)
            except CommitOutcomeUnknownError:
                return False

    return mock.patch.object(loop, "publish", publish)


def _plain_put() -> contextlib.AbstractContextManager[object]:
    def commit(_self: Any, store: Any, location: Any, manifest: bytes) -> None:
        store.put(location.path, manifest)

    return mock.patch.object(committer.PutIfAbsentCommitter, "commit", commit)


def _keep_ours(ours: Any, base: Any, head: Any, work: Any) -> Any:
    """The deletion file of ours replaces that of the other writer."""
    return ours


def _remember_merges() -> contextlib.AbstractContextManager[object]:
    """Deletion files that were merged for an earlier head are used for a later one."""

    def delete(head: Any, rows: Any, work: Any) -> Any:
        key = (head.id, None)
        if key not in work.merged.fragments:
            now = work.deleted_rows(head)
            work.merged.fragments[key] = work.with_deleted(head, now.union(rows))
        return work.merged.fragments[key]

    return mock.patch.object(rebase, "_delete", delete)


def _both_delete() -> contextlib.AbstractContextManager[object]:
    """Rows that another commit deleted may be deleted again: an update writes them twice."""

    def delete(head: Any, rows: Any, work: Any) -> Any:
        now = work.deleted_rows(head)
        return work.with_deleted(head, now.union(rows))

    return mock.patch.object(rebase, "_delete", delete)


def _rank_is_offset(sides: Any, position: int, offsets: Any) -> Any:
    before = sum(side.live_rows for side in sides[:position])
    return before + offsets.astype(np.int64)


def _ranks() -> contextlib.AbstractContextManager[object]:
    from lance_ops.table.commit.rebase import rank_order

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(rank_order, "ranks_of", _rank_is_offset))
    stack.enter_context(mock.patch.object(moved_rows, "ranks_of", _rank_is_offset))
    return stack


def _carry_nothing(group: Any, _base: Any, head: Any, *_: Any) -> Any:
    """Rows deleted since a compaction was planned come back."""
    left = tuple(head[old.id] for old in group.old_fragments if old.id in head)
    return replace(group, old_fragments=left) if left else None


def _no_carry() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(rebase, "_carry", _carry_nothing)


def _index_kept(index: Any, _work: Any) -> Any:
    return index


def _files_first() -> contextlib.AbstractContextManager[object]:
    """Files are removed before the manifests that name them, and a crash comes between."""
    real = execute._Execution._remove_expired

    def remove(self: Any, files: Any) -> None:
        self._remove_files([item for verdict in self.plan.expired for item in files.get(verdict.version, ())])
        real(self, {})

    return mock.patch.object(execute._Execution, "_remove_expired", remove)


def _no_grace() -> contextlib.AbstractContextManager[object]:
    from lance_ops.maintenance.cleanup import files

    real = files.__dict__["UNVERIFIED_GRACE"]
    return mock.patch.object(files, "UNVERIFIED_GRACE", real * 0)


def _local_clock() -> contextlib.AbstractContextManager[object]:
    """Ages of files are measured by the clock of the process."""

    def now(_store: object) -> datetime:
        return VirtualDatetime.now(UTC)

    return mock.patch.object(operation, "store_now", now)


def _tags_ignored() -> contextlib.AbstractContextManager[object]:
    from lance_ops.maintenance.cleanup import line

    return mock.patch.object(line, "list_tags", lambda _root: {})


def _job_forgotten() -> contextlib.AbstractContextManager[object]:
    stack = contextlib.ExitStack()
    from lance_ops.maintenance import engine

    stack.enter_context(mock.patch.object(engine, "find_job", lambda *_, **__: None))
    stack.enter_context(mock.patch.object(job_keys.DoneBefore, "find", lambda *_: None))
    return stack


def _job_not_compared() -> contextlib.AbstractContextManager[object]:
    """Commits since the read version are not compared with the job to commit."""

    def is_ours(_self: Any, ours: Any, theirs: Any) -> bool:
        return bool(ours.uuid == theirs.uuid)

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(judged_commits.JudgedCommits, "_is_ours", is_ours))
    stack.enter_context(mock.patch.object(judged_commits.JudgedCommits, "_shared", lambda *_: []))
    return stack


def _superseded_all() -> contextlib.AbstractContextManager[object]:
    """The deletion files that a rebase merged are removed with those that it replaced."""

    def remove(self: Any, committed: Any) -> None:
        begun = self.ours.operation
        if isinstance(begun, Delete | Update):
            self.remove({*committer.deletion_files(begun.updated_fragments), *self.merged.paths})

    return mock.patch.object(committer.CommitFiles, "remove_superseded", remove)


def _moved_nowhere() -> contextlib.AbstractContextManager[object]:
    """Every index covers the new fragments of a rewrite as it covered the old ones, without a remap."""
    from lance_ops.table.transaction.operations import rewrite

    def kept(indices: Any, groups: Any, *_: Any, **__: Any) -> Any:
        from lance_ops.table.transaction.apply_indices import moved_coverage

        return tuple(
            replace(index, fragment_ids=moved_coverage(index.fragment_ids, groups)) for index in indices
        )

    return mock.patch.object(rewrite, "rewrite_indices", kept)


def _stale_values() -> contextlib.AbstractContextManager[object]:
    """An index covers fragments whose values were updated in place."""
    from lance_ops.table.transaction.operations import deletions

    return mock.patch.object(deletions, "without_fields", lambda indices, *_: tuple(indices))


def _no_protection() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(execute._Execution, "_protected", lambda _self: set())


MUTANTS: dict[str, Mutant] = {
    "a gap in the history is skipped": _skip_gaps,
    "only the newest version is judged": _judge_newest_only,
    "fragment ids are used again": _reuse_ids,
    "a restore takes fragment ids back": _restore_ids,
    "a restore takes row ids back": _reuse_row_ids,
    "a put that failed is no commit": _failed_put_is_lost,
    "a put that failed is a commit": _failed_put_is_success,
    "a version of another writer is ours": _found_is_ours,
    "an unknown outcome removes files": _unknown_is_failure,
    "an unanswered put never arrives": _absent_is_failure,
    "manifests are put without a condition": _plain_put,
    "versions above ours are not looked for": _patch(loop, "settle", lambda *_, **__: None),
    "Delete is not rebased": _no_rebase(Delete),
    "Update is not rebased": _no_rebase(Update),
    "Rewrite is not rebased": _no_rebase(Rewrite),
    "deletions are not merged": _patch(rebase, "_merge_deletions", _keep_ours),
    "merged deletions outlive their head": _remember_merges,
    "rows deleted by both are updated by both": _both_delete,
    "deletions are not carried into a rewrite": _no_carry,
    "ranks ignore deleted rows": _ranks,
    "rows are not followed": _patch(rebase, "follow_rows", lambda _moved, _work: {}),
    "an index built meanwhile keeps its coverage": _patch(rebase, "_carried", _index_kept),
    "an index covers rewritten fragments": _moved_nowhere,
    "an index covers updated fragments": _stale_values,
    "rule: a Restore or Overwrite is ignored": _rule(
        *((ours, theirs) for ours in ("Delete", "Update", "Rewrite") for theirs in ("Restore", "Overwrite"))
    ),
    "cleanup removes files before manifests": _files_first,
    "cleanup has no grace period": _no_grace,
    "cleanup trusts the clock of its machine": _local_clock,
    "cleanup ignores pins and late tags": _no_protection,
    "cleanup ignores tags": _tags_ignored,
    "a job does not look for its commit": _job_forgotten,
    "a job does not compare concurrent commits": _job_not_compared,
    "merged deletion files are removed": _superseded_all,
}
"""Mutants by what is wrong with them."""

CAUGHT_BY: dict[str, int] = {
    "a job does not look for its commit": 85,
    "a gap in the history is skipped": 3039,
    "fragment ids are used again": 2403,
    "a restore takes fragment ids back": 2403,
    "a restore takes row ids back": 2403,
    "a put that failed is no commit": 2614,
    "a put that failed is a commit": 2583,
    "a version of another writer is ours": 2406,
    "an unknown outcome removes files": 127,
    "manifests are put without a condition": 2401,
    "versions above ours are not looked for": 3118,
    "Delete is not rebased": 2420,
    "Update is not rebased": 2466,
    "Rewrite is not rebased": 2401,
    "deletions are not merged": 2493,
    "merged deletions outlive their head": 303,
    "rows deleted by both are updated by both": 3084,
    "deletions are not carried into a rewrite": 2401,
    "ranks ignore deleted rows": 2401,
    "rows are not followed": 2420,
    "an index built meanwhile keeps its coverage": 658,
    "an index covers rewritten fragments": 2410,
    "an index covers updated fragments": 2429,
    "rule: a Restore or Overwrite is ignored": 2722,
    "cleanup removes files before manifests": 2400,
    "cleanup has no grace period": 2423,
    "cleanup ignores pins and late tags": 2400,
    "cleanup ignores tags": 2400,
    "a job does not compare concurrent commits": 2439,
    "merged deletion files are removed": 2420,
    "only the newest version is judged": 1583,
    "an unanswered put never arrives": 127,
    "cleanup trusts the clock of its machine": 79,
}
"""The first seed found that catches a mutant; `make test` runs these."""
