"""Survey: observes the datasets of a fleet until a deadline, and writes them into the ledger."""

import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.discover.operation import Discovery, discover_datasets
from lance_ops.fleet.judge.estimate import Corrections, OperationEstimate
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import GONE, REFUSED, Look, OperationRow
from lance_ops.fleet.policy.model import DatasetPolicy, FleetPolicy
from lance_ops.fleet.stores.opened import FleetDataset, FleetStores
from lance_ops.fleet.survey.look import LookOptions, Sight, gone_row, look_at
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.storage.prefetch import look_at_many

_SHARD = 500
"""Observations per commit: the maximum loss of a killed survey."""
_RECENT = timedelta(days=14)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyOptions:
    """Options of a survey.

    Attributes:
        seconds: Time limit; None for no limit. The least recently observed datasets come first, so that the
            next survey covers the rest.
        shard: Only the datasets of one shard, `(part, of)`, by hash of the name.
        threads: Concurrent observations; None to choose by the kind of store.
        if_changed: Healthy datasets without a new version are not measured again; one request confirms the
            previous numbers.
        check_every: Interval of checks that all files of a dataset exist; None for never.
    """

    seconds: float | None = None
    shard: tuple[int, int] | None = None
    threads: int | None = None
    if_changed: bool = True
    check_every: timedelta | None = None

    def __post_init__(self) -> None:
        if self.shard is not None and not 0 <= self.shard[0] < self.shard[1]:
            raise InvalidArgumentError(
                f"shard must be below {self.shard[1]}, got {self.shard[0]}", field="shard"
            )


@dataclass(frozen=True, slots=True)
class Survey:
    """Result of a survey.

    Attributes:
        id: Its id.
        at: Start.
        looks: Observations sorted by name.
        gone: Known datasets that no longer exist.
        left: Datasets not observed before the deadline.
        discovery: Result of the discovery.
        requests: Requests of all observations and of the discovery.
        seconds: Duration.
        known: The newest observations of all datasets of the fleet, these included.
        past: Contents of the ledger before.
        estimates: Uncorrected estimates of due operations, by dataset; only if measured.
    """

    id: str
    at: datetime
    looks: tuple[Look, ...]
    gone: tuple[str, ...]
    left: tuple[str, ...]
    discovery: Discovery
    requests: int
    seconds: float
    known: Mapping[str, Look] = field(repr=False)
    past: "Past" = field(repr=False)
    estimates: Mapping[str, tuple[OperationEstimate, ...]] = field(repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """Number of datasets by verdict."""
        found: dict[str, int] = defaultdict(int)
        for look in self.known.values():
            found[look.verdict] += 1
        return dict(found)


@dataclass(frozen=True, slots=True)
class Past:
    """Contents of the ledger for assessments.

    Attributes:
        latest: The newest observation of each dataset.
        gone: The newest observation of datasets that are no longer found.
        corrections: Corrections of estimates.
        last_ttl: Time of the last `ttl` operation, by dataset.
        ttl_refused: Why the last `ttl` was refused, by dataset.
        losses: Consecutive runs with commit conflicts, by dataset.
        operations: Operations of the last two weeks, oldest first.
    """

    latest: Mapping[str, Look]
    gone: Mapping[str, Look]
    corrections: Corrections
    last_ttl: Mapping[str, datetime]
    ttl_refused: Mapping[str, OperationRow]
    losses: Mapping[str, int]
    operations: Sequence[OperationRow]

    @classmethod
    def read(cls, ledger: FleetLedger, now: datetime) -> "Past":
        """Read the ledger."""
        operations, newest = ledger.operations(since=now - _RECENT), ledger.latest(with_gone=True)
        last_ttl: dict[str, datetime] = {}
        refused: dict[str, OperationRow] = {}
        losses: dict[str, int] = defaultdict(int)
        for row in operations:
            known = newest.get(row.dataset)
            if known is not None and known.since is not None and row.at < known.since:
                # It was done to another dataset.
                continue
            if row.operation == "ttl":
                refused.pop(row.dataset, None)
                if row.outcome in ("done", "nothing"):
                    last_ttl[row.dataset] = row.at
                elif row.outcome == REFUSED:
                    refused[row.dataset] = row
            if row.outcome == "conflict":
                losses[row.dataset] += 1
            elif row.outcome == "done":
                losses.pop(row.dataset, None)
        latest = {name: look for name, look in newest.items() if look.verdict != GONE}
        gone = {name: look for name, look in newest.items() if look.verdict == GONE}
        return cls(latest, gone, Corrections.learn(operations), last_ttl, refused, dict(losses), operations)

    def refusal(self, name: str, rules: DatasetPolicy, now: datetime) -> str:
        """Return why `ttl` is not run: the same rule was refused a while ago."""
        row = self.ttl_refused.get(name)
        if row is None or row.rules != rules.terms("ttl") or now - row.at >= rules.settings["ttl_every"]:
            return ""
        return row.error.partition(": ")[2]

    def options(
        self, name: str, survey: str, now: datetime, rules: DatasetPolicy, **more: bool
    ) -> LookOptions:
        """Return the inputs for an observation of a dataset."""
        return LookOptions(
            survey=survey,
            now=now,
            corrections=self.corrections,
            last_ttl=self.last_ttl.get(name),
            ttl_refused=self.refusal(name, rules, now),
            losses=self.losses.get(name, 0),
            before=self.latest.get(name) or self.gone.get(name),
            check_files=more.get("check_files", False),
            if_changed=more.get("if_changed", False),
        )


def survey_fleet(
    policy: FleetPolicy,
    options: SurveyOptions | None = None,
    *,
    ledger: FleetLedger | None = None,
    stores: FleetStores | None = None,
    progress: Progress | None = None,
    now: datetime | None = None,
) -> Survey:
    """Observe the datasets of a fleet, and write the observations into its ledger.

    Args:
        policy: Policy of the fleet.
        options: Options of the survey.
        ledger: Ledger; that of the policy if None.
        stores: Stores; those of the policy if None.
        progress: Receives progress events.
        now: The time, aware; that of this machine if None.

    Raises:
        LanceOpsError: The ledger cannot be read or written. Errors of datasets and listings are in the
            result.
    """
    options = options or SurveyOptions()
    ledger = ledger or FleetLedger.of(policy)
    stores = stores or FleetStores(policy)
    started, now = time.monotonic(), now or datetime.now(UTC)
    deadline = None if options.seconds is None else started + options.seconds
    survey, report = f"{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}", Reporter("survey", progress)
    report("discovering datasets")
    found = discover_datasets(stores, deadline=deadline)
    past = Past.read(ledger, now)
    chosen = [item for item in found.datasets if _is_in(options.shard, item.name)]
    chosen.sort(key=lambda item: _last_look(past, item))
    work = _Work(policy, stores, past, options, survey, now)
    looks: list[Look] = []
    gone: list[str] = []
    shard: list[Look] = []
    estimates: dict[str, tuple[OperationEstimate, ...]] = {}
    seen = 0
    threads = stores.threads if options.threads is None else options.threads
    with closing(look_at_many(chosen, work.look, threads, deadline=deadline)) as found_looks:
        for item, sight in found_looks:
            seen += 1
            report("looking at datasets", seen, len(chosen))
            if sight is None:
                gone.append(item.name)
                continue
            shard.append(sight.look)
            if sight.estimates:
                estimates[item.name] = sight.estimates
            if len(shard) >= _SHARD:
                ledger.add_looks(shard, key=f"{survey}-{len(looks)}")
                looks, shard = [*looks, *shard], []
    ledger.add_looks(shard, key=f"{survey}-{len(looks)}")
    looks += shard
    names = {look.dataset for look in looks}
    exists = {item.name for item in found.datasets} - set(gone)
    known = {
        name: look
        for name, look in past.latest.items()
        # The datasets of a failed rule are assumed to exist.
        if name in exists or found.hides(look.uri)
    }
    vanished = [gone_row(look, survey, now) for name, look in past.latest.items() if name not in known]
    ledger.add_looks(vanished, key=f"{survey}-gone")
    ledger.maintain(now)
    return Survey(
        survey,
        now,
        tuple(sorted(looks, key=lambda look: look.dataset)),
        tuple(sorted(gone)),
        tuple(sorted(item.name for item in chosen if item.name not in names and item.name not in gone)),
        found,
        found.requests + sum(look.requests for look in looks),
        time.monotonic() - started,
        known | {look.dataset: look for look in looks},
        past,
        estimates,
    )


@dataclass(frozen=True, slots=True)
class _Work:
    policy: FleetPolicy
    stores: FleetStores
    past: Past
    options: SurveyOptions
    survey: str
    now: datetime

    def look(self, item: FleetDataset) -> Sight | None:
        before = self.past.latest.get(item.name)
        every = self.options.check_every
        check = every is not None and (
            before is None or before.checked_at is None or self.now - before.checked_at >= every
        )
        return look_at(
            item,
            self.stores.open(item),
            self.policy.of_dataset(item.name),
            self.past.options(
                item.name,
                self.survey,
                self.now,
                self.policy.of_dataset(item.name),
                check_files=check,
                if_changed=self.options.if_changed,
            ),
        )


def _is_in(shard: tuple[int, int] | None, name: str) -> bool:
    if shard is None:
        return True
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) % shard[1] == shard[0]


def _last_look(past: Past, item: FleetDataset) -> tuple[datetime, str]:
    found = past.latest.get(item.name)
    return (_EPOCH if found is None else found.at, item.name)
