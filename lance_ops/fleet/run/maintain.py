"""Maintenance of one dataset: due operations in order, under a lease, recorded in the journal.

It runs wherever the runner of the fleet executes it, raises nothing, and returns a few numbers, so that an
error of one dataset does not affect others.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType

from lance_ops.errors import FleetModeError, InvalidArgumentError, LeaseHeldError
from lance_ops.fleet.judge.dataset import estimate, judge
from lance_ops.fleet.judge.estimate import OperationEstimate
from lance_ops.fleet.ledger.rows import REFUSED, Look, OperationRow
from lance_ops.fleet.run.perform import performed
from lance_ops.fleet.run.task import MaintainTask, Outcome
from lance_ops.fleet.stores.metered import Rate, meter
from lance_ops.fleet.stores.opened import FleetDataset
from lance_ops.fleet.survey.look import LookOptions, Sight, is_another, look_at
from lance_ops.maintenance.maintain.perform import error_line, stored_bytes, try_operation
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.storage import ObjectInfo, Store
from lance_ops.storage.lease import Lease
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import VERSIONS_DIRECTORY, is_detached, manifests_among

_LEVELS_A_RUN = 2
_TOO_MANY = "raise `ttl_max_fraction` for as long as this is intended, as on the first run of a rule"


def maintain_many(tasks: Sequence[MaintainTask]) -> list[Outcome]:
    """Maintain datasets one after the other; a task of a runner."""
    return [maintain(task) for task in tasks]


def maintain(task: MaintainTask, runner: Runner | None = None) -> Outcome:
    """Maintain one dataset; raises nothing except interrupts.

    Args:
        task: The dataset.
        runner: Executes the tasks of its operations; this thread if None.
    """
    name = task.item.dataset
    if _is_late(task):
        return Outcome(dataset=name, state="late")
    try:
        with Lease(task.store, task.run) as lease:
            return _Maintenance(task, lease, runner or LocalRunner(1)).run()
    except LeaseHeldError as error:
        return Outcome(dataset=name, state="busy", why=error.message)
    except Exception as error:  # noqa: BLE001 - stays with its dataset
        return Outcome(dataset=name, state="failed", why=error_line(error))


@dataclass(slots=True)
class _Maintenance:
    task: MaintainTask
    lease: Lease
    runner: Runner
    estimated: tuple[int, Mapping[str, OperationEstimate]] = (0, MappingProxyType({}))

    def run(self) -> Outcome:
        task, name = self.task, self.task.item.dataset
        dataset, manifests = self._opened()
        due = self._allowed(self._due(dataset, manifests))
        if not due:
            return Outcome(dataset=name, state="done", look=_row_of(self._look((), dataset)))
        task.journal.begin(task.run, name, [self._intent(operation, dataset) for operation in due])
        rows: list[OperationRow] = []
        sight: Sight | None = None
        state, why = "done", ""
        try:
            while due and state == "done":
                for operation in due:
                    if _is_late(task):
                        state = "late"
                        break
                    self.lease.check()
                    row, dataset = self._do(operation, dataset)
                    rows.append(row)
                    if row.outcome in ("failed", "conflict"):
                        state, why = "failed", row.error
                        break
                # After an error another writer may have committed meanwhile.
                sight = self._look(rows, dataset if state == "done" else None)
                # Evaluated after each operation: a compaction may leave indices uncovered, and old versions.
                done = {row.operation for row in rows}
                due = self._allowed(sight.look.due if sight is not None else ())
                due = tuple(item for item in due if item not in done)
        except LeaseHeldError as error:
            state, why = "busy", error.message
        except Exception as error:  # noqa: BLE001 - what was done before is told all the same
            state, why = "failed", error_line(error)
        self._write_journal(rows)
        why = why or next((row.error for row in rows if row.outcome == REFUSED), "")
        return Outcome(dataset=name, state=state, why=why, rows=tuple(rows), look=_row_of(sight))

    def _opened(self) -> tuple[Dataset, list[ObjectInfo]]:
        """Return the newest version, and the listing of its manifests."""
        store = self.task.store
        seen = meter(store).once()
        found = Dataset.open(seen)
        return Dataset(store, found.location, found.manifest), list(seen.list(VERSIONS_DIRECTORY))

    def _due(self, dataset: Dataset, manifests: Sequence[ObjectInfo]) -> tuple[str, ...]:
        """Return what is due now: the previous holder of the lease may have done everything.

        Raises:
            FleetModeError: Another dataset was approved.
        """
        before = self.task.before
        replaced = is_another(self.task.item.head, manifests, dataset.version)
        if replaced and self.task.approved:
            raise FleetModeError(
                "another dataset is at this path than the approved one",
                path=self.task.item.uri,
                hint="make a new plan and approve it",
            )
        if (
            before is not None
            and not replaced
            and before.version == dataset.version
            and before.rules == self.task.policy.fingerprint()
            and before.versions == _count_of_versions(self.task.store, manifests)
        ):
            self._know(dataset, self.task.estimates)
            return before.due
        return judge(
            dataset,
            self.task.policy,
            now=datetime.now(UTC),
            last_ttl=None if replaced else self.task.last_ttl,
            ttl_refused="" if replaced else self.task.ttl_refused,
            with_estimates=False,
        ).due

    def _allowed(self, due: tuple[str, ...]) -> tuple[str, ...]:
        """Return the allowed ones of due operations: all, or the approved ones."""
        if not self.task.approved:
            return due
        return tuple(operation for operation in due if operation in self.task.item.operations)

    def _know(self, dataset: Dataset, estimates: Sequence[OperationEstimate]) -> None:
        """Keep the assessment of a version."""
        self.estimated = dataset.version, {item.operation: item for item in estimates}

    def _do(self, operation: str, dataset: Dataset) -> tuple[OperationRow, Dataset]:
        """Run one operation, again with smaller groups after a conflict.

        Args:
            operation: Its name.
            dataset: The newest version.

        Returns:
            Its row, and the newest version afterwards.
        """
        task = self.task
        raw, planned = self._estimates(operation, dataset)
        row = self._row(operation, dataset, raw, planned)
        tried = try_operation(
            lambda level: performed(operation, dataset, task, self.runner, level=level),
            level=task.item.level,
            retries=_LEVELS_A_RUN if operation == "compact" else 0,
            is_late=lambda: _is_late(task),
        )
        row = replace(row, level=tried.level, seconds=tried.seconds)
        if tried.done is None:
            outcome, why, error = tried.outcome, tried.why, tried.error
            if (
                operation == "ttl"
                and isinstance(error, InvalidArgumentError)
                and error.field == "max_fraction"
            ):
                # It blocks no other operation.
                outcome, why = REFUSED, f"{why}; {_TOO_MANY}"
                row = replace(row, rules=task.policy.terms("ttl"))
            return replace(row, outcome=outcome, error=why), dataset
        done, after = tried.done, dataset.latest()
        done_row = replace(
            row,
            outcome=tried.outcome,
            error=done.error,
            version=after.version,
            fragments_after=len(after.fragments),
            bytes_after=stored_bytes(after),
            versions_after=done.versions_after,
            rows_deleted=done.rows_deleted,
            bytes_read=done.bytes_read,
            bytes_written=done.bytes_written,
            bytes_freed=done.bytes_freed,
            conflicts=done.conflicts,
            scan_seconds_saved=planned.scan_seconds_saved if done.changed else 0.0,
            summary=done.summary,
        )
        return done_row, after

    def _estimates(self, operation: str, dataset: Dataset) -> tuple[OperationEstimate, OperationEstimate]:
        """Return the raw and the corrected estimate."""
        version, known = self.estimated
        raw = known.get(operation) if version == dataset.version else None
        if raw is None:
            raw = estimate(operation, dataset, self.task.policy, datetime.now(UTC))
        return raw, self.task.corrections.apply(self.task.item.store, raw)

    def _row(
        self, operation: str, dataset: Dataset, raw: OperationEstimate, planned: OperationEstimate
    ) -> OperationRow:
        return replace(
            self._intent(operation, dataset),
            fragments_before=len(dataset.fragments),
            bytes_before=stored_bytes(dataset),
            seconds_planned=planned.seconds,
            bytes_planned=planned.bytes,
            seconds_raw=raw.seconds,
            bytes_raw=raw.bytes,
        )

    def _intent(self, operation: str, dataset: Dataset) -> OperationRow:
        item = self.task.item
        return OperationRow(
            key=f"{self.task.run}/{item.dataset}/{operation}",
            run=self.task.run,
            at=datetime.now(UTC),
            dataset=item.dataset,
            store=item.store,
            uri=item.uri,
            operation=operation,
            outcome="broken off",
            read_version=dataset.version,
            level=item.level,
        )

    def _write_journal(self, rows: Sequence[OperationRow]) -> None:
        journal, run, name = self.task.journal, self.task.run, self.task.item.dataset
        if rows:
            journal.end(run, name, rows)
        else:
            journal.forget(run, name)

    def _look(self, rows: Sequence[OperationRow], dataset: Dataset | None) -> Sight | None:
        """Observe the newest version, which is opened if None."""
        task, item = self.task, self.task.item
        # A failed ttl rule is still due.
        refused = next((row.error.partition(": ")[2] for row in rows if row.outcome == REFUSED), "")
        looked = any(row.operation == "ttl" and row.outcome in ("done", "nothing") for row in rows)
        found = FleetDataset(item.dataset, item.store, item.path, item.uri)
        options = LookOptions(
            survey=task.run,
            now=datetime.now(UTC),
            corrections=task.corrections,
            last_ttl=datetime.now(UTC) if looked else task.last_ttl,
            ttl_refused=refused or task.ttl_refused,
            before=task.before,
            # The failure may be due to a missing file: then a retry is useless.
            check_files=any(row.error and row.outcome not in ("conflict", REFUSED) for row in rows),
            keep_rates=True,
            opened=dataset,
        )
        sight = look_at(found, meter(task.store, Rate(task.requests_per_second)), task.policy, options)
        if sight is not None and dataset is not None:
            self._know(dataset, sight.estimates)
        return sight


def _count_of_versions(store: Store, manifests: Sequence[ObjectInfo]) -> int:
    return sum(not is_detached(item.version) for item in manifests_among(store, manifests))


def _row_of(sight: Sight | None) -> Look | None:
    return None if sight is None else sight.look


def _is_late(task: MaintainTask) -> bool:
    return task.until is not None and time.time() >= task.until
