"""Event of one version of a dataset: data version, tags, and plotted numbers.

Describing a version never fails: unknown values are omitted, and the event has the errors. Only opening the
dataset may fail, before anything here is called.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from textwrap import shorten
from typing import Any, TypeVar

import dagster as dg
import pyarrow as pa

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef, policy_values
from lance_ops.dagster.kept_lineage import kept_lineage
from lance_ops.dagster.lineage import lineage_metadata
from lance_ops.dagster.links import run_link
from lance_ops.dagster.overview import Overview, overview, plotted
from lance_ops.errors import LanceOpsError
from lance_ops.maintenance.health.measure import DEFAULT_TARGET_ROWS, DatasetHealth
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.health.verdicts import measure_by_policy
from lance_ops.table.commit.jobs.stream_epochs import EPOCH_ID, QUERY_ID
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.transaction import Transaction, read_transaction

T = TypeVar("T")

Metadata = dict[str, dg.MetadataValue[Any]]

_MAX_COLUMNS = 500
_TYPE_WIDTH = 200
_DESCRIPTIONS = (b"description", b"comment")
_KEEP_DELETIONS = frozenset({"Append", "CreateIndex", "ReserveFragments", "UpdateConfig"})


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """Origin of a version.

    Attributes:
        version: Version number.
        data_version: 32 hexadecimal digits; equal for versions that differ in layout only.
        committed_at: Time of the commit; UTC.
        operation: Name of the operation; empty if its transaction is lost.
        description: One line about it.
        read_version: Version that it was planned from; None if its transaction is lost.
        transaction_uuid: Empty if its transaction is lost.
        properties: Properties of the transaction.
        errors: Errors of reading these.
    """

    version: int
    data_version: str
    committed_at: datetime
    operation: str = ""
    description: str = ""
    read_version: int | None = None
    transaction_uuid: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[str, ...] = ()

    @property
    def run_id(self) -> str | None:
        """Id of the Dagster run that committed it, if any."""
        return self.properties.get(keys.RUN_ID)

    @property
    def tags(self) -> dict[str, str]:
        """Tags of its event."""
        tags = {
            keys.DATA_VERSION_TAG: self.data_version,
            keys.VERSION: str(self.version),
            keys.OPERATION: self.operation,
            keys.TRANSACTION_UUID: self.transaction_uuid,
        }
        return {name: value for name, value in tags.items() if value}


def read_facts(dataset: Dataset) -> VersionFacts:
    """Read the origin of a version; never fails."""
    errors: list[str] = []
    transaction: Transaction | None = _attempt(
        lambda: read_transaction(dataset.store, dataset.manifest), "transaction", errors
    )
    data_version = _attempt(lambda: dataset.data_version, "data version", errors)
    facts = VersionFacts(
        version=dataset.version,
        data_version=data_version or _stand_in(dataset),
        committed_at=dataset.manifest.timestamp,
        errors=tuple(errors),
    )
    if transaction is None:
        return facts
    return replace(
        facts,
        operation=transaction.operation.name,
        description=transaction.describe(),
        read_version=transaction.read_version,
        transaction_uuid=transaction.uuid,
        properties=transaction.properties,
    )


def version_metadata(
    dataset: Dataset,
    *,
    table_name: str | None = None,
    target_rows: int = DEFAULT_TARGET_ROWS,
    facts: VersionFacts | None = None,
    policy: MaintenancePolicy | None = None,
) -> Metadata:
    """Return all metadata of a version; never fails.

    Args:
        dataset: The version.
        table_name: Name of the dataset in Dagster's table panels.
        target_rows: Minimum rows of a fragment that is not small.
        facts: Result of `read_facts`, if known already.
        policy: For the newest version only: adds verdict, state, newest versions and indices.
    """
    return _metadata(dataset, table_name, target_rows, facts or read_facts(dataset), policy, newest=policy)


def _metadata(
    dataset: Dataset,
    table_name: str | None,
    target_rows: int,
    facts: VersionFacts,
    policy: MaintenancePolicy | None,
    *,
    newest: MaintenancePolicy | None,
) -> Metadata:
    """Return the metadata of the page, most important first.

    Args:
        dataset: The version.
        table_name: Name of the dataset in Dagster's table panels.
        target_rows: Minimum rows of a fragment that is not small.
        facts: Its origin.
        policy: Its thresholds are limits of the numbers.
        newest: Set for the newest version, which has an overview; None for an older one.
    """
    errors = list(facts.errors)
    rules = policy or MaintenancePolicy(target_rows=target_rows)
    health = _attempt(lambda: measure_by_policy(dataset, rules, samples_indices=False), "health", errors)
    shown = Overview()
    if health is not None and newest is not None:
        measured, thresholds = health, newest
        shown = _attempt(lambda: overview(dataset, thresholds, measured), "overview", errors) or shown
    schema = _attempt(lambda: table_schema(dataset.schema, shown.badges), "column schema", errors)
    values: dict[str, object] = {**shown.values, keys.VERSION: facts.version}
    if facts.run_id:
        values[keys.RUN_PAGE] = run_link(facts.run_id)
    values[keys.COMMITTED_AT] = dg.MetadataValue.timestamp(facts.committed_at)
    if facts.operation:
        values[keys.DESCRIPTION] = facts.description
    if QUERY_ID in facts.properties:
        values[keys.STREAM_QUERY] = facts.properties[QUERY_ID]
        epoch = facts.properties.get(EPOCH_ID, "")
        values[keys.STREAM_EPOCH] = int(epoch) if epoch.isdecimal() else None
    if health is not None:
        gone = not health.deleted_rows and facts.operation not in _KEEP_DELETIONS
        values |= plotted(health, policy, had_deletions=gone and _had_deletions(dataset))
    values[keys.RAW] = _raw(facts, health, policy)
    values |= {
        keys.URI: dg.MetadataValue.url(dataset.uri)
        if "://" in dataset.uri
        else dg.MetadataValue.path(dataset.uri),
        keys.STORAGE_KIND: "lance",
        keys.TABLE_NAME: table_name,
        keys.COLUMN_SCHEMA: schema,
        keys.ENRICHMENT_ERROR: "\n".join(errors) or None,
    }
    return as_metadata(values)


def _raw(
    facts: VersionFacts, health: DatasetHealth | None, policy: MaintenancePolicy | None
) -> dict[str, object]:
    """Return all known values, for programs: Dagster shows them collapsed."""
    return {
        "version": facts.version,
        "data_version": facts.data_version,
        "committed_at": facts.committed_at.isoformat(),
        "operation": facts.operation,
        "read_version": facts.read_version,
        "transaction_uuid": facts.transaction_uuid,
        "properties": dict(facts.properties),
        "health": {} if health is None else health.to_dict(),
        "policy": {} if policy is None else policy_values(policy),
    }


def _had_deletions(dataset: Dataset) -> bool:
    """Return whether the version before had deleted rows; False if it was removed."""
    try:
        before = Dataset.open(dataset.store, dataset.version - 1)
    except LanceOpsError:
        return False
    return any(fragment.num_deleted_rows for fragment in before.fragments)


def version_materialization(
    ref: LanceDatasetRef,
    dataset: Dataset,
    *,
    facts: VersionFacts | None = None,
    extra: Mapping[str, object] | None = None,
    extra_tags: Mapping[str, str] | None = None,
    newest: bool = False,
) -> dg.AssetMaterialization:
    """Return the event of one version; never fails.

    Args:
        ref: The dataset.
        dataset: The version.
        facts: Result of `read_facts`, if known already.
        extra: More metadata, e.g. how long the operation took.
        extra_tags: More tags.
        newest: True for the newest version, whose event has the state of the dataset.
    """
    facts = facts or read_facts(dataset)
    metadata = _metadata(
        dataset,
        ref.table_name,
        ref.policy.target_rows,
        facts,
        ref.policy,
        newest=ref.policy if newest else None,
    )
    return dg.AssetMaterialization(
        asset_key=ref.key,
        description=facts.description or None,
        metadata={
            **metadata,
            **_lineage(ref, dataset, facts, newest=newest),
            **as_metadata(extra or {}),
        },
        tags={**facts.tags, **(extra_tags or {})},
    )


def _lineage(ref: LanceDatasetRef, dataset: Dataset, facts: VersionFacts, *, newest: bool) -> Metadata:
    """Return the column lineage that is declared, or noted in this or earlier commits."""
    kept = _attempt(lambda: kept_lineage(dataset), "lineage", []) if newest else None
    found = _attempt(
        lambda: lineage_metadata(ref.key, dataset.schema, ref.columns_from, facts.properties, kept),
        "lineage",
        [],
    )
    return found or {}


def table_schema(schema: pa.Schema, badges: Sequence[str] = ()) -> dg.TableSchema:
    """Return the columns for Dagster's schema panel; a very wide schema is truncated.

    Args:
        schema: The columns.
        badges: Shown above them, as constraints of the table: the panel comes before all metadata.
    """
    columns = [
        dg.TableColumn(
            name=item.name,
            type=shorten(str(item.type), _TYPE_WIDTH, placeholder="..."),
            description=_described(item),
            constraints=dg.TableColumnConstraints(nullable=item.nullable),
        )
        for item in list(schema)[:_MAX_COLUMNS]
    ]
    left_out = len(schema) - len(columns)
    notes = [*badges, *([f"{left_out:,} more columns"] if left_out else [])]
    return dg.TableSchema(columns=columns, constraints=dg.TableConstraints(other=notes) if notes else None)


def _described(item: pa.Field) -> str | None:
    """Return the description in the metadata of a column: `description`, or Spark's `comment`."""
    noted = item.metadata or {}
    told = next((noted[name] for name in _DESCRIPTIONS if noted.get(name)), None)
    return None if told is None else told.decode(errors="replace")


def as_metadata(values: Mapping[str, object]) -> Metadata:
    """Convert plain values to Dagster's metadata: numbers stay numbers, unknown types become text."""
    return {name: _metadata_value(value) for name, value in values.items() if value is not None}


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, str | int | float | None]:
    """Return texts and numbers of metadata without Dagster's wrappers."""
    values = {name: getattr(value, "value", value) for name, value in metadata.items()}
    return {name: value for name, value in values.items() if isinstance(value, int | float | str)}


def _metadata_value(value: object) -> dg.MetadataValue[Any]:
    if isinstance(value, dg.MetadataValue):
        return value
    if isinstance(value, bool):
        return dg.MetadataValue.bool(value)
    if isinstance(value, int):
        return dg.MetadataValue.int(value)
    if isinstance(value, float):
        return dg.MetadataValue.float(value)
    if isinstance(value, dg.TableSchema):
        return dg.MetadataValue.table_schema(value)
    if isinstance(value, Mapping):
        return dg.MetadataValue.json(dict(value))
    if isinstance(value, list | tuple):
        return dg.MetadataValue.json(list(value))
    return dg.MetadataValue.text(str(value))


def _attempt(find_out: Callable[[], T], what: str, errors: list[str]) -> T | None:
    try:
        return find_out()
    except Exception as error:  # noqa: BLE001 - what describes a load must never fail it
        errors.append(f"{what}: {type(error).__name__}: {error}")
        return None


def _stand_in(dataset: Dataset) -> str:
    """Return a data version for an unreadable history: one that counts as a change."""
    content = f"lance_ops version\0{dataset.version}\0{dataset.manifest.timestamp.isoformat()}"
    return hashlib.sha256(content.encode()).hexdigest()[:32]
