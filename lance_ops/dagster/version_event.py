"""One version of a dataset as an event of its asset: data version, tags, and numbers that plot.

Describing a version never fails: what cannot be found out is left out, and the event says why. Only opening
the dataset may fail, before anything here is called.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from textwrap import shorten
from typing import Any, TypeVar

import dagster as dg
import pyarrow as pa

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.kept_lineage import kept_lineage
from lance_ops.dagster.lineage import lineage_metadata
from lance_ops.dagster.links import run_link
from lance_ops.dagster.overview import overview
from lance_ops.maintenance.health.measure import DEFAULT_TARGET_ROWS, measure_health
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.table.commit.jobs.stream_epochs import EPOCH_ID, QUERY_ID
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.transaction import Transaction, read_transaction

T = TypeVar("T")

Metadata = dict[str, dg.MetadataValue[Any]]

_MAX_COLUMNS = 500
_TYPE_WIDTH = 200
_DESCRIPTIONS = (b"description", b"comment")
_NOT_PLOTTED = frozenset({"rows"})  # it is dagster/row_count


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """What made a version.

    Attributes:
        version: Version number.
        data_version: 32 hexadecimal digits; equal for versions that differ in layout only.
        committed_at: When; UTC.
        operation: Name of the operation; empty when its transaction is lost.
        description: One line about it.
        read_version: Version that it was worked out on; None when its transaction is lost.
        transaction_uuid: Empty when its transaction is lost.
        properties: Notes of the writer.
        errors: What could not be found out, and why.
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
        """Id of the Dagster run that committed it, if one did."""
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
    """Find out what made a version; never fails."""
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
    """Everything about a version that a person wants to see or plot; never fails.

    Args:
        dataset: The version.
        table_name: Name of the dataset in Dagster's table panels.
        target_rows: Rows of a fragment that is not small.
        facts: From `read_facts`, when they are known already.
        policy: Of the newest version: verdict, last maintenance, newest versions and indices come along.
    """
    facts = facts or read_facts(dataset)
    errors = list(facts.errors)
    health = _attempt(lambda: measure_health(dataset, target_rows=target_rows), "health", errors)
    schema = _attempt(lambda: table_schema(dataset.schema), "column schema", errors)
    values: dict[str, object] = {
        keys.URI: dg.MetadataValue.url(dataset.uri)
        if "://" in dataset.uri
        else dg.MetadataValue.path(dataset.uri),
        keys.STORAGE_KIND: "lance",
        keys.VERSION: facts.version,
        keys.COMMITTED_AT: dg.MetadataValue.timestamp(facts.committed_at),
    }
    if table_name is not None:
        values[keys.TABLE_NAME] = table_name
    if health is not None:
        values[keys.ROW_COUNT] = health.rows
        numbers = health.to_dict().items()
        values |= {f"{keys.NAMESPACE}{name}": value for name, value in numbers if name not in _NOT_PLOTTED}
    if health is not None and policy is not None:
        measured, rules = health, policy
        values |= _attempt(lambda: overview(dataset, rules, measured), "overview", errors) or {}
    if schema is not None:
        values[keys.COLUMN_SCHEMA] = schema
    if facts.operation:
        values |= {keys.OPERATION: facts.operation, keys.DESCRIPTION: facts.description}
    if facts.read_version is not None:
        values[keys.READ_VERSION] = facts.read_version
    if QUERY_ID in facts.properties:
        values[keys.STREAM_QUERY] = facts.properties[QUERY_ID]
        epoch = facts.properties.get(EPOCH_ID, "")
        values[keys.STREAM_EPOCH] = int(epoch) if epoch.isdecimal() else None
    if facts.run_id:
        values[keys.RUN_PAGE] = run_link(facts.run_id)
    if facts.properties:
        values[keys.PROPERTIES] = dg.MetadataValue.json(dict(facts.properties))
    if errors:
        values[keys.ENRICHMENT_ERROR] = "\n".join(errors)
    return as_metadata(values)


def version_materialization(
    ref: LanceDatasetRef,
    dataset: Dataset,
    *,
    facts: VersionFacts | None = None,
    extra: Mapping[str, object] | None = None,
    extra_tags: Mapping[str, str] | None = None,
    newest: bool = False,
) -> dg.AssetMaterialization:
    """The event of one version; never fails.

    Args:
        ref: The dataset.
        dataset: The version.
        facts: From `read_facts`, when they are known already.
        extra: More metadata, e.g. how long the operation took.
        extra_tags: More tags.
        newest: It is the newest version, whose event says how the dataset is.
    """
    facts = facts or read_facts(dataset)
    metadata = version_metadata(
        dataset,
        table_name=ref.table_name,
        target_rows=ref.policy.target_rows,
        facts=facts,
        policy=ref.policy if newest else None,
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
    """What feeds the columns, as far as that is declared or noted in the commit, or in earlier ones."""
    kept = _attempt(lambda: kept_lineage(dataset), "lineage", []) if newest else None
    found = _attempt(
        lambda: lineage_metadata(ref.key, dataset.schema, ref.columns_from, facts.properties, kept),
        "lineage",
        [],
    )
    return found or {}


def table_schema(schema: pa.Schema) -> dg.TableSchema:
    """Columns for Dagster's schema panel; a very wide schema is cut."""
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
    return dg.TableSchema(
        columns=columns,
        constraints=dg.TableConstraints(other=[f"{left_out:,} more columns"]) if left_out else None,
    )


def _described(item: pa.Field) -> str | None:
    """What the metadata of a column say of it: `description`, or Spark's `comment`."""
    noted = item.metadata or {}
    told = next((noted[name] for name in _DESCRIPTIONS if noted.get(name)), None)
    return None if told is None else told.decode(errors="replace")


def as_metadata(values: Mapping[str, object]) -> Metadata:
    """Plain values as Dagster's metadata: numbers stay numbers, everything unknown becomes text."""
    return {name: _metadata_value(value) for name, value in values.items() if value is not None}


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, str | int | float | None]:
    """The texts and numbers among metadata, without Dagster's wrappers."""
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
    """A data version of a version whose history cannot be read: too new rather than too old."""
    content = f"lance_ops version\0{dataset.version}\0{dataset.manifest.timestamp.isoformat()}"
    return hashlib.sha256(content.encode()).hexdigest()[:32]
