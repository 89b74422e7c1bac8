"""Check `partitions_loaded`: the partitions that Dagster shows as loaded are in the dataset.

Dagster keeps a partition green even if a restore or a drop removed it from the dataset. The event of a
partition names the transaction that loaded it, which must be in the lineage of the newest version.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.checks.records import newest_evaluations
from lance_ops.dagster.dataset_ref import slugify
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.place import CodePlace, job_command
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.version_event import as_metadata, plain_metadata
from lance_ops.errors import DatasetNotFoundError, JobUnprovenError
from lance_ops.maintenance.text import count_text
from lance_ops.table.commit.jobs.job_keys import find_transaction
from lance_ops.table.dataset import Dataset

_MOST_NAMED = 20
_MOST_LISTED = 10_000

MISSING = "lance/partitions_to_load"


@dataclass(frozen=True, slots=True)
class LoadedPartitions:
    """State of the partitions that Dagster shows as loaded.

    Attributes:
        shown: Their number.
        missing: Those whose rows are not in the dataset.
        unknown: Those with unknown state.
        unseen: Number of partitions not examined within the time limit.
    """

    shown: int
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    unseen: int = 0

    @property
    def to_load(self) -> tuple[str, ...]:
        """Partitions to load again."""
        return self.missing + self.unknown

    def verdict(self, ingest: LanceIngest, place: CodePlace | None = None) -> dg.AssetCheckResult:
        """Return the verdict, which names the partitions and the command that loads them.

        Args:
            ingest: The ingest.
            place: Where it is defined, as far as that is known.
        """
        metadata: dict[str, object] = {"lance/partitions": self.shown}
        text = f"{count_text(self.shown, 'partition')} shown as loaded, none of them missing in the dataset"
        if self.to_load:
            parts = [
                f"{count_text(len(names), 'partition')} {what}: {_named(names)}"
                for names, what in (
                    (self.missing, "no longer in the dataset"),
                    (self.unknown, "possibly not in the dataset"),
                )
                if names
            ]
            text = f"to be loaded again: {'; '.join(parts)}"
            metadata[MISSING] = "\n".join(self.to_load[:_MOST_LISTED])
            metadata[keys.ERROR_HINT] = job_command(place, ingest.job_name, self.to_load[:_MOST_LISTED])
        if self.unseen:
            metadata.setdefault(keys.ERROR_HINT, f"evaluate the check on the page of {ingest.asset_name}")
            text = f"{count_text(self.unseen, 'partition')} not examined within the time limit; {text}"
        return dg.AssetCheckResult(
            asset_key=ingest.key,
            check_name=keys.PARTITIONS_LOADED,
            passed=not self.to_load and not self.unseen,
            severity=dg.AssetCheckSeverity.ERROR if self.to_load else dg.AssetCheckSeverity.WARN,
            description=text,
            metadata=as_metadata(metadata),
        )

    def evaluation(self, ingest: LanceIngest, place: CodePlace | None) -> dg.AssetCheckEvaluation:
        """Return the verdict for a sensor; arguments as of `verdict`."""
        found = self.verdict(ingest, place)
        return dg.AssetCheckEvaluation(
            asset_key=ingest.key,
            check_name=keys.PARTITIONS_LOADED,
            passed=found.passed,
            severity=found.severity,
            description=found.description,
            metadata=found.metadata,
        )


def build_loaded_check(ingest: LanceIngest, *, prefix: str = "") -> dg.AssetChecksDefinition:
    """Build the check `partitions_loaded` of an ingest with partitions.

    Args:
        ingest: The ingest.
        prefix: Prefix of the required resource: `<prefix>_lance_store`.
    """
    store_key = keys.prefixed(prefix, keys.STORE_RESOURCE)

    @dg.multi_asset_check(
        name=f"{slugify(ingest.asset_name)}_{keys.PARTITIONS_LOADED}",
        specs=[
            dg.AssetCheckSpec(
                keys.PARTITIONS_LOADED,
                asset=ingest.key,
                description="Every partition shown as loaded is in the newest version of the dataset.",
            )
        ],
        required_resource_keys={store_key},
    )
    def partitions_loaded(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        store: LanceStoreResource = getattr(context.resources, store_key)
        loads = ingest.key in (context.run.asset_selection or ())
        if loads and last_passed(context.instance, ingest):
            # Comparing all partitions in each run of a backfill would be quadratic.
            yield _carried_over(ingest)
            return
        loaded = look_at_partitions(context.instance, ingest, store)
        yield loaded.verdict(ingest, CodePlace.of_run(context.run))

    return partitions_loaded


def look_at_partitions(
    instance: dg.DagsterInstance, ingest: LanceIngest, store: LanceStoreResource, *, seconds: float = 60.0
) -> LoadedPartitions:
    """Compare the partitions that Dagster shows as loaded with the dataset.

    Args:
        instance: Has the event log.
        ingest: The ingest, with partitions.
        store: Opens the dataset.
        seconds: Time limit.
    """
    deadline = time.monotonic() + seconds
    shown = sorted(instance.get_materialized_partitions(ingest.key))
    try:
        head: Dataset | None = store.open(ingest.ref)
    except DatasetNotFoundError:
        head = None
    missing: list[str] = []
    unknown: list[str] = []
    for number, partition in enumerate(shown):
        if time.monotonic() > deadline:
            return LoadedPartitions(len(shown), tuple(missing), tuple(unknown), len(shown) - number)
        uuid = _transaction_of(instance, ingest.key, partition)
        if uuid is None:
            continue  # The source returned no rows for it, so no version holds it.
        try:
            if head is None or find_transaction(head, uuid) is None:
                missing.append(partition)
        except JobUnprovenError:
            unknown.append(partition)
    return LoadedPartitions(len(shown), tuple(missing), tuple(unknown))


def _carried_over(ingest: LanceIngest) -> dg.AssetCheckResult:
    """Return the result in a run that loads: the manifest sensor reevaluates after a restore or a drop."""
    return dg.AssetCheckResult(
        asset_key=ingest.key,
        check_name=keys.PARTITIONS_LOADED,
        passed=True,
        description="loaded by this run; none of the others was missing in the last evaluation",
    )


def last_passed(instance: dg.DagsterInstance, ingest: LanceIngest) -> bool:
    """Return whether the newest result passed, or there is none."""
    key = dg.AssetCheckKey(ingest.key, keys.PARTITIONS_LOADED)
    record = newest_evaluations(instance, [key]).get(key)
    return record is None or bool(record.evaluation.passed)


def _transaction_of(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str) -> str | None:
    """Return the transaction that loaded a partition, by its newest event; None without one."""
    found = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1
    ).records
    event = found[0].asset_materialization if found else None
    if event is None:
        return None
    noted = plain_metadata(event.metadata).get(keys.TRANSACTION_UUID)
    uuid = noted or (event.tags or {}).get(keys.TRANSACTION_UUID)
    return str(uuid) if uuid else None


def _named(partitions: Sequence[str]) -> str:
    more = len(partitions) - _MOST_NAMED
    return ", ".join([*partitions[:_MOST_NAMED], *([f"and {more:,} more"] if more > 0 else [])])
