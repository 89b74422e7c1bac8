"""Task of a fleet: one dataset to maintain, and what became of it."""

from dataclasses import dataclass
from datetime import datetime

from lance_ops.fleet.judge.estimate import Corrections, OperationEstimate
from lance_ops.fleet.ledger.journal import Journal
from lance_ops.fleet.ledger.rows import Look, OperationRow
from lance_ops.fleet.plan.model import PlannedDataset
from lance_ops.fleet.policy.model import DatasetPolicy
from lance_ops.storage import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainTask:
    """One dataset; travels to executors.

    Attributes:
        run: Id of the run.
        item: What is planned.
        store: Root of the dataset.
        policy: Of the dataset.
        journal: Of the ledger.
        corrections: Of the estimates.
        last_ttl: When rows that are too old were last looked for.
        ttl_refused: Why they are not looked for; empty when they are.
        before: The look that it was planned from.
        estimates: Of what was due then, without corrections; none where they are not known.
        approved: Only the operations of the item may be run: those that a person has seen.
        until: Nothing is begun after this time, in seconds since 1970; None for no bound.
        requests_per_second: To the store; None for no bound.
    """

    run: str
    item: PlannedDataset
    store: Store
    policy: DatasetPolicy
    journal: Journal
    corrections: Corrections
    last_ttl: datetime | None = None
    ttl_refused: str = ""
    before: Look | None = None
    estimates: tuple[OperationEstimate, ...] = ()
    approved: bool = False
    until: float | None = None
    requests_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one dataset.

    Attributes:
        dataset: Its name.
        state: `done`; `failed`; `busy`: somebody else was at work; `late`: the deadline came first.
        why: The error, or who was at work.
        rows: Of the operations.
        look: Afterwards; None where none was possible.
    """

    dataset: str
    state: str
    why: str = ""
    rows: tuple[OperationRow, ...] = ()
    look: Look | None = None
