"""Look: one dataset as a row of the ledger, whatever is the matter with it.

Whether a path still has the dataset that was seen there is told by a listing of its manifests. A manifest is
written once: one of the same version with another size, time or ETag was overwritten, or belongs to another
dataset, and so does a history that ends before the version that was seen. The format names no dataset, so
this is the only sign of it; it costs no request, since that listing finds the newest version.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lance_ops.errors import DatasetNotFoundError, FileMissingError, FormatError, LanceOpsError
from lance_ops.fleet.judge.dataset import Judgement, judge, schema_mark
from lance_ops.fleet.judge.estimate import Corrections, OperationEstimate, benefit_over_cost
from lance_ops.fleet.ledger.rows import GONE, Look
from lance_ops.fleet.policy.model import DatasetPolicy
from lance_ops.fleet.stores.metered import MeteredStore
from lance_ops.fleet.stores.opened import FleetDataset
from lance_ops.maintenance.fsck.operation import fsck
from lance_ops.storage import ObjectInfo, Store, lists_names
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.fragments.totals import total_physical_rows
from lance_ops.table.manifest.listing import (
    VERSIONS_DIRECTORY,
    NamingScheme,
    latest,
    list_versions,
    manifest_path,
)
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.side_sizes import with_side_sizes

_DAY = 86400.0
_RATES = ("versions_per_day", "fragments_per_day", "rows_per_day", "deleted_per_day", "bytes_per_day")
_RATE_VERSIONS = 32
_LEAST_SPAN = 60.0
"""Minimum seconds between versions for a rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookOptions:
    """Inputs of an observation.

    Attributes:
        survey: Id of the survey.
        now: The time, aware.
        corrections: Corrections of the estimates.
        last_ttl: Time of the last `ttl` operation.
        ttl_refused: Why the last `ttl` was refused; empty if it was not.
        losses: Consecutive runs with commit conflicts.
        before: The previous observation.
        check_files: Also check that all files exist.
        if_changed: Measure only a version that differs from the previous one.
        keep_rates: Keep the previous rates: only maintenance was committed since.
        opened: The newest version, if the caller has just opened it.
    """

    survey: str
    now: datetime
    corrections: Corrections = field(default_factory=Corrections)
    last_ttl: datetime | None = None
    ttl_refused: str = ""
    losses: int = 0
    before: Look | None = None
    check_files: bool = False
    if_changed: bool = False
    keep_rates: bool = False
    opened: Dataset | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """An observation with its estimates.

    Attributes:
        look: The row of the ledger.
        estimates: Uncorrected estimates of due operations; empty if not measured again.
    """

    look: Look
    estimates: tuple[OperationEstimate, ...] = ()


def look_at(
    dataset: FleetDataset, store: MeteredStore, policy: DatasetPolicy, options: LookOptions
) -> Sight | None:
    """Observe one dataset.

    Returns:
        The observation; None if there is no dataset (any more). Errors are in its verdict: damage is
        `damaged`, a failing store and unsupported features are `blocked`.
    """
    started, requests = time.monotonic(), store.requests
    # One state of the dataset is observed: its folders are listed once.
    seen = store.once()
    estimates: tuple[OperationEstimate, ...] = ()
    base: dict[str, Any] = {
        "key": f"{options.survey}/{dataset.name}",
        "survey": options.survey,
        "at": options.now,
        "dataset": dataset.name,
        "store": dataset.store,
        "uri": dataset.uri,
        "class_name": policy.class_name,
        "owner": policy.owner,
        "mode": policy.mode,
        "rules": policy.fingerprint(),
    }
    before = options.before
    # Unknown values of an unreadable dataset keep their previous value.
    unread = {**base} if before is None else {**base, "head": before.head, "since": before.since}
    try:
        if _is_as_before(seen, policy, options):
            assert before is not None
            found = replace(before, **base)
        else:
            found, estimates = _measured(store, seen, policy, options, base)
    except DatasetNotFoundError:
        return None
    except (FormatError, FileMissingError) as error:
        found = Look(**unread, verdict="damaged", why=error.message, error=type(error).__name__)
    except Exception as error:  # noqa: BLE001 - one dataset must not end the look at all others
        why = error.message if isinstance(error, LanceOpsError) else str(error)
        found = Look(**unread, verdict="blocked", why=why, error=type(error).__name__)
    made = seen.requests + store.requests - requests
    return Sight(replace(found, seconds=time.monotonic() - started, requests=made), estimates)


def gone_row(last: Look, survey: str, now: datetime) -> Look:
    """Return the row of a dataset that is no longer found.

    Args:
        last: The previous observation.
        survey: Id of the survey.
        now: The time, aware.
    """
    return Look(
        key=f"{survey}/{last.dataset}",
        survey=survey,
        at=now,
        dataset=last.dataset,
        store=last.store,
        uri=last.uri,
        class_name=last.class_name,
        owner=last.owner,
        mode=last.mode,
        verdict=GONE,
        why=f"last found on {last.at:%Y-%m-%d %H:%M} UTC, no longer found",
        head=last.head,
        since=last.since,
    )


def _is_as_before(store: MeteredStore, policy: DatasetPolicy, options: LookOptions) -> bool:
    """Return whether nothing can have changed: the same manifest, and nothing that becomes due with time."""
    before = options.before
    if (
        not options.if_changed
        or before is None
        or before.verdict != "healthy"
        or not before.head
        or before.error
        or policy.ttl is not None
        or (before.class_name, before.owner, before.mode) != (policy.class_name, policy.owner, policy.mode)
        or before.rules != policy.fingerprint()
        or options.check_files
    ):
        return False
    return head_of(store) == before.head


def _measured(
    store: MeteredStore,
    seen: MeteredStore,
    policy: DatasetPolicy,
    options: LookOptions,
    base: dict[str, Any],
) -> tuple[Look, tuple[OperationEstimate, ...]]:
    opened = options.opened
    dataset = Dataset.open(seen) if opened is None else Dataset(seen, opened.location, opened.manifest)
    manifests = list(seen.list(VERSIONS_DIRECTORY))
    since = None if options.before is None else options.before.since
    if options.before is not None and is_another(options.before.head, manifests, dataset.version):
        # Nothing known about the previous dataset applies to this one.
        since, options = options.now, replace(options, before=None, last_ttl=None, ttl_refused="", losses=0)
    judged = judge(
        dataset, policy, now=options.now, last_ttl=options.last_ttl, ttl_refused=options.ttl_refused
    )
    estimates = [options.corrections.apply(base["store"], item) for item in judged.estimates]
    health, before = judged.health, options.before
    damage = ""
    checked_at = None if before is None else before.checked_at
    if options.check_files:
        # A missing file is searched again, in newer listings.
        result = fsck(Dataset(store, dataset.location, dataset.manifest))
        checked_at = options.now
        errors = [item.message for item in result.findings if item.severity == "error"]
        damage = "; ".join(errors[:3])
    elif before is not None and before.verdict == "damaged" and not before.error:
        # Damage of files is only found by checking them.
        damage = before.why
    verdict, why = _verdict(judged, policy, options, damage)
    due_since = None
    if judged.due:
        due_since = options.now if before is None or not before.due_since else before.due_since
        if verdict == "due" and options.now - due_since > policy.settings["overdue_after"]:
            verdict = "overdue"
    look = Look(
        **base,
        verdict=verdict,
        why=why,
        due=judged.due,
        due_since=due_since,
        version=health.version,
        version_at=dataset.manifest.timestamp,
        schema=schema_mark(dataset),
        rows=health.rows,
        deleted_ratio=health.deleted_ratio,
        fragments=health.fragments,
        small_fragments=health.small_fragments,
        data_bytes=health.data_bytes,
        indices=health.indices,
        index_coverage=health.index_coverage,
        index_segments=health.index_segments,
        versions=health.live_versions,
        debt_seconds=health.debt_seconds,
        debt_requests=health.debt_requests,
        debt_bytes=health.debt_bytes,
        reclaimable_bytes=sum(item.bytes_saved for item in estimates if item.operation == "cleanup"),
        cost_seconds=sum(item.seconds for item in estimates),
        cost_bytes=sum(item.moved for item in estimates),
        cost_requests=sum(item.requests for item in estimates),
        rank=benefit_over_cost(
            estimates,
            reads_per_day=policy.settings["reads_per_day"],
            priority=policy.settings["priority"],
        )
        if estimates
        else 0.0,
        checked_at=checked_at,
        head=mark_in(manifests, dataset.version) or None,
        since=since,
        **_rates(dataset, before, keep=options.keep_rates),
    )
    return look, judged.estimates


def _verdict(judged: Judgement, policy: DatasetPolicy, options: LookOptions, damage: str) -> tuple[str, str]:
    if damage:
        return "damaged", damage
    most = policy.settings["max_conflicts"]
    if judged.due and most and options.losses >= most:
        return "blocked", f"{options.losses} runs in a row had commit conflicts (limit {most}); {judged.why}"
    if judged.due:
        return ("overdue" if judged.overdue else "due"), judged.why
    if judged.blocked:
        return "blocked", judged.blocked
    return "healthy", "; ".join(item.reason for item in judged.verdicts)


def _rates(dataset: Dataset, before: Look | None, *, keep: bool) -> dict[str, Any]:
    """Return the growth per day of the newest versions, from the first and last of them.

    Args:
        dataset: The newest version.
        before: The previous observation, which may have found the same versions.
        keep: Use its rates in any case.
    """
    locations = list_versions(dataset.store)
    if before is not None and (
        keep or (before.version == dataset.version and before.versions == len(locations))
    ):
        return {name: getattr(before, name) for name in _RATES}
    if len(locations) < 2:
        return {}
    old = read_manifest(dataset.store, locations[-min(len(locations), _RATE_VERSIONS)])
    new = dataset.with_side_sizes().manifest
    span = (new.timestamp - old.timestamp).total_seconds()
    if span < _LEAST_SPAN:
        return {}
    days = span / _DAY
    (rows, deleted, size), (rows_now, deleted_now, size_now) = _sizes(dataset, old), _sizes(dataset, new)
    # Ids are never reused, so they count new fragments in spite of compactions.
    given = (new.max_fragment_id or 0) - (old.max_fragment_id or 0)
    return {
        "versions_per_day": (new.version - old.version) / days,
        "fragments_per_day": max(0, given) / days,
        "rows_per_day": max(0, rows_now - rows) / days,
        "deleted_per_day": max(0, deleted_now - deleted) / days,
        "bytes_per_day": max(0, size_now - size) / days,
    }


def _sizes(dataset: Dataset, manifest: Manifest) -> tuple[int, int, int]:
    fragments = with_side_sizes(dataset.bases, manifest.schema, manifest.fragments)
    return (
        total_physical_rows(manifest.fragments),
        sum(fragment.num_deleted_rows for fragment in manifest.fragments),
        sum(fragment.data_bytes for fragment in fragments),
    )


def head_of(store: Store) -> str:
    """Return the mark of the newest manifest, by the listing that finds it.

    Raises:
        LanceOpsError: As `latest`.
    """
    location = latest(store)
    if lists_names(store):
        return _mark(location.version, store.info(location.path))
    return mark_in(store.list(VERSIONS_DIRECTORY), location.version)


def mark_in(infos: Iterable[ObjectInfo], version: int) -> str:
    """Return the mark of the manifest of a version: number, size, time and ETag; empty if missing."""
    paths = {manifest_path(version, scheme) for scheme in NamingScheme}
    return _mark(version, next((info for info in infos if info.path in paths), None))


def is_another(head: str | None, infos: Iterable[ObjectInfo], newest: int) -> bool:
    """Return whether manifests belong to another dataset than the one seen before.

    Args:
        head: Mark of its newest manifest then; None or empty if unknown.
        infos: Present manifests.
        newest: Present newest version.
    """
    if not head:
        return False
    version = int(head.partition(" ")[0])
    # Manifests removed by a cleanup are no evidence.
    return newest < version or mark_in(infos, version) not in ("", head)


def _mark(version: int, info: ObjectInfo | None) -> str:
    return "" if info is None else f"{version} {info.size} {info.modified.isoformat()} {info.mark}".rstrip()
