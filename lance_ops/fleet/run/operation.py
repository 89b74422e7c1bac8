"""Fleet run: many datasets in one run, small ones in shared tasks, large ones in their own."""

import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from lance_ops.errors import FleetModeError, LanceOpsError
from lance_ops.fleet.judge.estimate import OperationEstimate
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import Look, OperationRow, RunRow
from lance_ops.fleet.plan.model import FleetPlan, LeftOut, PlannedDataset
from lance_ops.fleet.plan.names import check_names, check_names_first
from lance_ops.fleet.plan.operation import USED_UP, PlanOptions, plan_fleet, within
from lance_ops.fleet.policy.model import DatasetPolicy, FleetPolicy
from lance_ops.fleet.policy.windows import open_until
from lance_ops.fleet.run.batches import dealt
from lance_ops.fleet.run.maintain import maintain, maintain_many
from lance_ops.fleet.run.result import FleetRun
from lance_ops.fleet.run.task import MaintainTask, Outcome
from lance_ops.fleet.stores.opened import FleetDataset, FleetStores
from lance_ops.fleet.survey.operation import Past, Survey, SurveyOptions, survey_fleet
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.runner import LocalRunner, Runner, in_few_jobs, slots_of
from lance_ops.storage import open_store
from lance_ops.storage.lease import is_held

_WRITE_EVERY, _WRITE_SECONDS = 250, 30.0
_BATCHES_A_SLOT = 8
_JOBS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Limits and inputs of a run.

    Attributes:
        bytes: Maximum estimated bytes read and written; None for the limits of the policy only.
        until: It starts nothing after this time, aware; None for the windows of the policy only.
        datasets: Maximum number of datasets.
        only: Names of datasets; None for all.
        plan: An approved plan to run instead of one made now: only its datasets and operations, if still due.
            The limits above apply, too.
        survey: Options of the survey before; None to use the newest observations of the ledger.
    """

    bytes: int | None = None
    until: datetime | None = None
    datasets: int | None = None
    only: frozenset[str] | None = None
    plan: FleetPlan | None = None
    survey: SurveyOptions | None = field(default_factory=SurveyOptions)


def run_fleet(
    policy: FleetPolicy,
    options: RunOptions | None = None,
    *,
    runner: Runner | None = None,
    ledger: FleetLedger | None = None,
    stores: FleetStores | None = None,
    progress: Progress | None = None,
) -> FleetRun:
    """Survey a fleet, and run due maintenance by priority, until all is done or time or budget is used up.

    A dataset is maintained by one run at a time. Errors of one dataset do not affect others. A killed run
    leaves nothing inconsistent: the next one imports its journal, and continues.

    Args:
        policy: Policy of the fleet. Datasets in mode `auto` are maintained, those in mode `propose` with an
            approved `options.plan`, others never.
        options: Limits and inputs.
        runner: Executes shared tasks for small datasets, at most two Spark jobs for all of them, and the
            tasks of large ones; threads of this process by default.
        ledger: Ledger; that of the policy if None.
        stores: Stores; those of the policy if None.
        progress: Receives progress events.

    Raises:
        FleetModeError: The plan is not approved, or was changed since.
        LanceOpsError: The ledger cannot be read or written.
    """
    options = options or RunOptions()
    if options.plan is not None:
        options.plan.check_approved()
    ledger = ledger or FleetLedger.of(policy)
    stores = stores or FleetStores(policy)
    now = datetime.now(UTC)
    run = _Run(
        policy,
        options,
        runner or LocalRunner(),
        ledger,
        stores,
        Reporter("fleet run", progress),
        f"run-{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}",
        now,
        time.monotonic(),
    )
    if options.plan is None:
        check_names_first(options.only or (), ledger, stores)
    broken_off = ledger.settle(lambda row: _is_held(policy, row))
    survey = None
    if options.survey is not None and options.plan is None:
        survey = survey_fleet(
            policy, options.survey, ledger=ledger, stores=stores, progress=progress, now=now
        )
    return run.go(survey, broken_off)


def approved(plan: FleetPlan, by: str) -> FleetPlan:
    """Return a plan with an approval made now."""
    return plan.approve(by, datetime.now(UTC))


@dataclass(slots=True)
class _Run:
    policy: FleetPolicy
    options: RunOptions
    runner: Runner
    ledger: FleetLedger
    stores: FleetStores
    report: Reporter
    id: str
    at: datetime
    started: float
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    untold: list[Outcome] = field(default_factory=list)
    items: dict[str, PlannedDataset] = field(default_factory=dict)
    total: int = 0
    errors: tuple[str, ...] = ()
    written: float = field(default_factory=time.monotonic)

    def go(self, survey: Survey | None, broken_off: int) -> FleetRun:
        past = Past.read(self.ledger, self.at) if survey is None else survey.past
        known = past.latest if survey is None else survey.known
        estimates = {} if survey is None else survey.estimates
        self.errors = () if survey is None else survey.discovery.errors
        planned = () if self.options.plan is None else self.options.plan.items
        check_names(self.options.only or (), {*known, *(item.dataset for item in planned)})
        plan = self._plan(past, known)
        tasks = {
            item.dataset: self._task(item, past, known.get(item.dataset), estimates.get(item.dataset, ()))
            for item in plan.items
        }
        self.items = {item.dataset: item for item in plan.items}
        self.total = len(tasks)
        large = [tasks[item.dataset] for item in plan.items if item.large]
        small = [tasks[item.dataset] for item in plan.items if not item.large]
        first = [task for task in large if task.item.verdict == "overdue"]
        try:
            self._run_large(first)
            self._shared(small)
            self._run_large([task for task in large if task not in first])
        finally:
            # Also after an interrupt, the ledger gets all results.
            self._write()
        return self._result(plan, known, broken_off)

    # Operations

    def _plan(self, past: Past, known: Mapping[str, Look]) -> FleetPlan:
        if self.options.plan is not None:
            return self._of_approved(self.options.plan)
        return plan_fleet(
            self.policy,
            known.values(),
            past.operations,
            now=self.at,
            options=PlanOptions(
                bytes=self.options.bytes, datasets=self.options.datasets, only=self.options.only
            ),
        )

    def _of_approved(self, plan: FleetPlan) -> FleetPlan:
        """Return the items of an approved plan that the policy still allows, within the limits of the run."""
        only = self.options.only
        chosen = [item for item in plan.items if only is None or item.dataset in only]
        allowed: list[PlannedDataset] = []
        left = [item for item in plan.left if only is None or item.dataset in only]
        for item in chosen:
            rules = self.policy.of_dataset(item.dataset)
            if rules.mode == "observe":
                left.append(LeftOut(dataset=item.dataset, verdict=item.verdict, reason="its mode is observe"))
            elif open_until(self.at, rules.windows, rules.blackouts) is None:
                left.append(LeftOut(dataset=item.dataset, verdict=item.verdict, reason="outside its windows"))
            else:
                still, why = _on_approved_terms(item, rules)
                if why:
                    left.append(LeftOut(dataset=item.dataset, verdict=item.verdict, reason=why))
                if still.operations:
                    allowed.append(still)
        if chosen and not allowed:
            raise FleetModeError(
                f"the policy allows nothing of plan {plan.id} at present: {left[-1].reason}",
                path=self.policy.source or None,
            )
        items, beyond = within(allowed, most_bytes=self.options.bytes, most=self.options.datasets)
        return replace(plan, items=items, left=(*left, *beyond))

    def _task(
        self,
        item: PlannedDataset,
        past: Past,
        before: Look | None,
        estimates: tuple[OperationEstimate, ...],
    ) -> MaintainTask:
        rules = self.policy.of_dataset(item.dataset)
        found = FleetDataset(item.dataset, item.store, item.path, item.uri)
        ends = open_until(self.at, rules.windows, rules.blackouts)
        bounds = [
            moment.timestamp()
            for moment in (self.options.until, ends)
            if moment is not None and moment.year < 9999
        ]
        return MaintainTask(
            run=self.id,
            item=item,
            store=self.stores.open(found).inner,
            policy=rules,
            journal=self.ledger.journal,
            corrections=past.corrections,
            last_ttl=past.last_ttl.get(item.dataset),
            ttl_refused=past.refusal(item.dataset, rules, self.at),
            before=before,
            estimates=estimates,
            approved=self.options.plan is not None,
            until=min(bounds, default=None),
            requests_per_second=self.policy.budget_of(item.store).requests_per_second
            or self.policy.budget.requests_per_second,
        )

    def _shared(self, tasks: Sequence[MaintainTask]) -> None:
        """Return batches of small datasets, enough to keep the runner busy, of about the same work each."""
        if not tasks:
            return
        batches = self._batches(tasks)
        runner = in_few_jobs(self._bounded(), _JOBS)

        def on_done(_: int, outcomes: list[Outcome]) -> None:
            self._note(outcomes)

        # Results arrive by `on_done`; a failed runner leaves the rest to the next run.
        try:
            runner.map(maintain_many, batches, on_done=on_done)
        except LanceOpsError as error:
            for task in tasks:
                if task.item.dataset not in self.outcomes:
                    why = f"{type(error).__name__}: {error.message}"
                    self._note([Outcome(dataset=task.item.dataset, state="failed", why=why)])

    def _batches(self, tasks: Sequence[MaintainTask]) -> list[list[MaintainTask]]:
        by_store: dict[str, list[MaintainTask]] = defaultdict(list)
        bounded: dict[str, int] = {}
        for task in tasks:
            most = self.policy.budget_of(task.item.store).runs
            by_store[task.item.store if most else ""].append(task)
            if most:
                bounded[task.item.store] = most
        batches: list[list[MaintainTask]] = []
        for name, found in by_store.items():
            count = bounded.get(name) or self._batch_count(len(found))
            batches += dealt(found, min(count, len(found)))
        return batches

    def _batch_count(self, tasks: int) -> int:
        if isinstance(self.runner, LocalRunner):
            return tasks
        return min(tasks, _BATCHES_A_SLOT * slots_of(self.runner))

    def _bounded(self) -> Runner:
        most = self.policy.budget.runs
        if most and isinstance(self.runner, LocalRunner):
            return LocalRunner(min(most, self.runner.threads))
        return self.runner

    def _run_large(self, tasks: Iterable[MaintainTask]) -> None:
        for task in tasks:
            self._note([maintain(task, self.runner)])

    # Records

    def _note(self, outcomes: Iterable[Outcome]) -> None:
        for found in outcomes:
            outcome = found
            if found.state == "failed" and not found.rows:
                # Failures before the first operation have a row, too, for history and alerts.
                outcome = replace(found, rows=(self._failure(found),))
            self.outcomes[outcome.dataset] = outcome
            self.untold.append(outcome)
        self.report("maintaining datasets", len(self.outcomes), self.total)
        # They are in the journal until then.
        if len(self.untold) >= _WRITE_EVERY or time.monotonic() - self.written >= _WRITE_SECONDS:
            self._write()

    def _failure(self, outcome: Outcome) -> OperationRow:
        item = self.items[outcome.dataset]
        return OperationRow(
            key=f"{self.id}/{item.dataset}/maintain",
            run=self.id,
            at=datetime.now(UTC),
            dataset=item.dataset,
            store=item.store,
            uri=item.uri,
            operation="maintain",
            outcome="failed",
            error=outcome.why,
            read_version=item.version,
            level=item.level,
        )

    def _write(self) -> None:
        told, self.untold = self.untold, []
        self.written = time.monotonic()
        rows = [row for outcome in told for row in outcome.rows]
        self.ledger.add_operations(rows)
        self.ledger.journal.remove_of(self.id, [outcome.dataset for outcome in told if outcome.rows])
        looks = [outcome.look for outcome in told if outcome.look is not None]
        self.ledger.add_looks(looks, key=f"{self.id}-{len(self.outcomes)}")

    def _result(self, plan: FleetPlan, known: Mapping[str, Look], broken_off: int) -> FleetRun:
        late = [item for item in plan.items if self._state(item.dataset) == "late"]
        left = [
            *(
                LeftOut(dataset=item.dataset, verdict=item.verdict, reason="the time limit was reached")
                for item in late
            ),
            *plan.left,
        ]
        stopped = "the time limit was reached" if late else ""
        if not stopped and any(item.reason.endswith(USED_UP) for item in plan.left):
            stopped = "the budget is used up"
        states = [outcome.state for outcome in self.outcomes.values()]
        rows = [row for outcome in self.outcomes.values() for row in outcome.rows]
        due_left = [item for item in left if item.verdict in ("due", "overdue")]
        row = RunRow(
            key=self.id,
            at=self.at,
            seconds=time.monotonic() - self.started,
            plan="" if self.options.plan is None else plan.id,
            stopped=stopped,
            datasets=len(plan.items) + len(due_left) - len(late),
            done=states.count("done"),
            failed=states.count("failed"),
            busy=states.count("busy"),
            left=len(due_left),
            operations=sum(1 for item in rows if item.outcome == "done"),
            bytes_read=sum(item.bytes_read for item in rows),
            bytes_written=sum(item.bytes_written for item in rows),
            bytes_freed=sum(item.bytes_freed for item in rows),
            scan_seconds_saved=sum(item.scan_seconds_saved for item in rows),
        )
        if self.outcomes or due_left:
            self.ledger.add_run(row)
            self.ledger.maintain()
        after = dict(known) | {
            name: outcome.look for name, outcome in self.outcomes.items() if outcome.look is not None
        }
        return FleetRun(
            row=row,
            outcomes=self.outcomes,
            left=tuple(left),
            before=_counts(known.values()),
            after=_counts(after.values()),
            broken_off=broken_off,
            errors=self.errors,
            damaged=tuple(
                look
                for name, look in sorted(after.items())
                if look.verdict == "damaged" and (self.options.only is None or name in self.options.only)
            ),
        )

    def _state(self, name: str) -> str:
        found = self.outcomes.get(name)
        return "late" if found is None else found.state


def _on_approved_terms(item: PlannedDataset, rules: DatasetPolicy) -> tuple[PlannedDataset, str]:
    """Return the operations of an approved item that still remove no more than approved, and why not all."""
    approved = dict.fromkeys(item.operations, "") | dict(zip(item.operations, item.terms, strict=False))
    changed = [name for name, terms in approved.items() if terms != rules.terms(name)]
    if not changed:
        return item, ""
    kept = tuple(name for name in item.operations if name not in changed)
    told = [f"{name} was approved as {approved[name]!r} and is now {rules.terms(name)!r}" for name in changed]
    return (
        replace(item, operations=kept, terms=tuple(approved[name] for name in kept)),
        f"the policy changed since: {'; '.join(told)}; make a new plan and approve it",
    )


def _counts(looks: Iterable[Look]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for look in looks:
        found[look.verdict] += 1
    return dict(found)


def _is_held(policy: FleetPolicy, row: OperationRow) -> bool:
    """Return whether the dataset of a row has a lease; one that cannot be read counts as held."""
    spec = next((store for store in policy.stores if store.name == row.store), None)
    try:
        return is_held(open_store(row.uri, None if spec is None else spec.storage_options()))
    except LanceOpsError:
        return True
