"""Task of a fleet: maintenance of one dataset, and its outcome."""

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
    """Maintenance of one dataset; serializable for executors.

    Attributes:
        run: Id of the run.
        item: The planned operations.
        store: Root of the dataset.
        policy: Policy of the dataset.
        journal: Journal of the ledger.
        corrections: Corrections of the estimates.
        last_ttl: Time of the last `ttl` operation.
        ttl_refused: Why the last `ttl` was refused; empty if it was not.
        before: The observation used for planning.
        estimates: Uncorrected estimates of the operations due then; empty if unknown.
        approved: Only the approved operations of the item may run.
        until: Nothing is started after this time, in seconds since 1970; None for no limit.
        requests_per_second: Requests to the store; None for no limit.
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
    """Outcome for one dataset.

    Attributes:
        dataset: Its name.
        state: `done`; `failed`; `busy`: another process had the lease; `late`: the deadline passed first.
        why: The error, or the holder of the lease.
        rows: Rows of the operations.
        look: The observation afterwards; None if there is none.
    """

    dataset: str
    state: str
    why: str = ""
    rows: tuple[OperationRow, ...] = ()
    look: Look | None = None
