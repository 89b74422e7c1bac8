"""`describe`: schema, size, versions, indices and due maintenance of a dataset, on one screen."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from lance_ops.errors import public
from lance_ops.index.upkeep.statistics import IndexDescription, describe_indices
from lance_ops.maintenance.health.measure import DatasetHealth, measure_health
from lance_ops.maintenance.health.policy import MaintenancePolicy, Verdict
from lance_ops.maintenance.health.verdicts import judge_dataset
from lance_ops.maintenance.text import bytes_text, count_text, share_text, table_text
from lance_ops.table.dataset import Dataset, Target, open_dataset
from lance_ops.table.history.refs import Tag


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One top-level column.

    Attributes:
        name: Its name.
        type: Its Arrow type.
        nullable: Whether nulls are allowed.
        metadata: Metadata of the field, as strings.
    """

    name: str
    type: str
    nullable: bool
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DatasetDescription:
    """Result of `describe`.

    Attributes:
        uri: The dataset.
        version: The described version.
        timestamp: Its commit time; UTC.
        branch: Its branch; None for main.
        storage_version: Of its data files, such as "2.2".
        stable_row_ids: Whether rows keep their ids when they move.
        columns: Its columns in order.
        health: Rows, sizes and numbers of versions and indices.
        indices: Its indices.
        tags: Tags of the dataset.
        maintenance: Verdicts on compaction, index refresh and cleanup by the default thresholds.
    """

    uri: str
    version: int
    timestamp: datetime
    branch: str | None
    storage_version: str
    stable_row_ids: bool
    columns: tuple[ColumnDescription, ...]
    health: DatasetHealth
    indices: tuple[IndexDescription, ...]
    tags: tuple[Tag, ...]
    maintenance: tuple[Verdict, ...]

    def to_dict(self) -> dict[str, object]:
        """Return all values as JSON values."""
        return {
            "operation": "show",
            "uri": self.uri,
            "version": self.version,
            "timestamp": self.timestamp.isoformat(),
            "branch": self.branch,
            "storage_version": self.storage_version,
            "stable_row_ids": self.stable_row_ids,
            "columns": [asdict(column) for column in self.columns],
            "health": self.health.to_dict(),
            "indices": [{**asdict(index), "coverage": index.coverage} for index in self.indices],
            "tags": {tag.name: tag.version for tag in self.tags},
            "maintenance": {
                item.operation: {"due": item.due, "state": item.state, "reason": item.reason}
                for item in self.maintenance
            },
        }

    def __str__(self) -> str:
        health = self.health
        branch = "" if self.branch is None else f" of branch {self.branch}"
        lines = [f"{self.uri} at version {self.version}{branch}, {self.timestamp:%Y-%m-%d %H:%M:%S} UTC", ""]
        lines += [columns_text(self.columns), ""]
        deleted = f" ({health.deleted_rows:,} deleted ones are still stored)" if health.deleted_rows else ""
        tags = f"; tags {', '.join(f'{tag.name} = {tag.version}' for tag in self.tags)}" if self.tags else ""
        ids = ", stable row ids" if self.stable_row_ids else ""
        facts = [
            ("rows", f"{health.rows:,}{deleted}"),
            (
                "size",
                ", ".join(
                    (
                        f"{bytes_text(health.data_bytes)} in {count_text(health.data_files, 'file')}",
                        count_text(health.fragments, "fragment"),
                    )
                ),
            ),
            ("storage", f"version {self.storage_version}{ids}"),
            ("versions", f"{health.live_versions:,}{tags}"),
        ]
        if health.mem_wal_rows is not None:
            generations = count_text(health.mem_wal_generations or 0, "flushed generation")
            left_out = f"{health.mem_wal_rows:,} rows are not in the table, in {generations} and the log"
            facts.append(("MemWAL", left_out))
        width = max(len(name) for name, _ in facts)
        lines += [f"{name.ljust(width)}  {value}" for name, value in facts]
        lines += ["", self._indices_text(), "", self._maintenance_text()]
        return "\n".join(lines)

    def _indices_text(self) -> str:
        if not self.indices:
            return "no indices"
        rows = [
            (
                index.name,
                index.index_type,
                ", ".join(path or "dropped" for path in index.field_names),
                share_text(index.coverage),
                "unknown" if index.total_size_bytes is None else bytes_text(index.total_size_bytes),
            )
            for index in self.indices
        ]
        return table_text(("index", "kind", "column", "coverage", "size"), rows, limit=None)

    def _maintenance_text(self) -> str:
        due = [item for item in self.maintenance if item.state != "healthy"]
        if not due:
            return "maintenance: nothing is due"
        rows = [(item.operation, item.state, item.reason) for item in due]
        return table_text(("maintenance", "state", "because"), rows, limit=None)


def columns_text(columns: tuple[ColumnDescription, ...]) -> str:
    """Return columns as a table for people."""
    if not columns:
        return "no columns"
    rows = [(item.name, item.type, "yes" if item.nullable else "no") for item in columns]
    return table_text(("column", "type", "nullable"), rows, limit=None)


def describe_columns(dataset: Dataset) -> tuple[ColumnDescription, ...]:
    """Describe the columns of a version."""
    return tuple(
        ColumnDescription(
            field.name,
            str(field.type),
            field.nullable,
            {
                key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
                for key, value in (field.metadata or {}).items()
            },
        )
        for field in dataset.schema
    )


@public(dataset="uri_or_dataset")
def describe(
    uri_or_dataset: Target, *, storage_options: Mapping[str, str] | None = None
) -> DatasetDescription:
    """Describe one version: columns, rows, size, versions, tags, indices, and due maintenance.

    Reads metadata, and samples of the indices; no rows.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`, which is described at its own version.
        storage_options: For opening the dataset.

    Raises:
        DatasetNotFoundError: There is none.

    Examples:
        >>> found = lo.describe("events.lance")
        >>> found.health.rows, [column.name for column in found.columns]
        (10, ['id', 'kind', 'price', 'vector'])
    """
    dataset = open_dataset(uri_or_dataset, storage_options)
    policy = MaintenancePolicy()
    health = measure_health(dataset, target_rows=policy.target_rows, limits=policy.wear_limits)
    tags = dataset.tags
    return DatasetDescription(
        uri=dataset.uri,
        version=dataset.version,
        timestamp=dataset.manifest.timestamp,
        branch=dataset.branch,
        storage_version=dataset.data_storage_version,
        stable_row_ids=dataset.uses_stable_row_ids,
        columns=describe_columns(dataset),
        health=health,
        indices=describe_indices(dataset),
        tags=tuple(tags[name] for name in sorted(tags)),
        maintenance=judge_dataset(dataset, policy, health),
    )
