"""Manual jobs: restore a version, drop columns or an index, check for damage."""

import dagster as dg
from pydantic import Field

from lance_ops.dagster import keys
from lance_ops.dagster.jobs.call import Call
from lance_ops.dagster.jobs.config import OperationConfig, dry_run_field
from lance_ops.dagster.jobs.told import Told
from lance_ops.errors import InvalidArgumentError
from lance_ops.index.upkeep.statistics import describe_indices
from lance_ops.maintenance.fsck.operation import fsck
from lance_ops.maintenance.index.names import drop_index
from lance_ops.maintenance.metadata.actions import drop_columns, restore
from lance_ops.maintenance.metadata.dropped import schema_without
from lance_ops.maintenance.text import bytes_text, count_text, share_text
from lance_ops.table.dataset import Dataset


class RestoreConfig(OperationConfig):
    """Make an older version the newest one."""

    version: int | None = Field(default=None, ge=1, description="The version.")
    tag: str = Field(default="", description="Tag to restore instead of a version.")
    dry_run: bool = dry_run_field("Show the version that would be restored")


class DropColumnsConfig(OperationConfig):
    """Drop columns and the indices on them; data files stay until a compaction rewrites them."""

    columns: list[str] = Field(description="Names of columns, or paths of members such as a.b.")
    dry_run: bool = dry_run_field("Show the columns and indices that would be dropped")


class DropIndexConfig(OperationConfig):
    """Remove an index."""

    name: str = Field(description="Name of the index.")
    dry_run: bool = dry_run_field("Show its coverage")


class FsckConfig(OperationConfig):
    """Check a dataset; the run fails if it is damaged."""

    deep: bool = Field(default=False, description="Also read all data and indices.")
    version: int | None = Field(default=None, ge=1, description="Version to check; default the newest.")


def restored(call: Call, config: RestoreConfig) -> object:
    """Restore a version; see `RestoreConfig`."""
    if (config.version is None) is (not config.tag):
        raise InvalidArgumentError("give either a version or a tag", field="version, tag")
    chosen = config.version or config.tag
    if not config.dry_run:
        return restore(call.ref.uri, chosen, **call.options())
    wanted = Dataset.open(call.ref.uri, chosen, call.store.options_of(call.ref))
    newest = wanted.latest()
    return (
        f"version {newest.version + 1} would have the {wanted.count_rows():,} rows of version "
        f"{wanted.version} of {wanted.manifest.timestamp:%Y-%m-%d %H:%M} UTC; the newest, {newest.version}, "
        f"has {newest.count_rows():,}"
    )


def columns_dropped(call: Call, config: DropColumnsConfig) -> object:
    """Drop columns; see `DropColumnsConfig`."""
    if not config.dry_run:
        return drop_columns(call.ref.uri, config.columns, **call.options())
    dataset = Dataset.open(call.ref.uri, storage_options=call.store.options_of(call.ref))
    left = schema_without(
        dataset.lance_schema, config.columns, dataset.data_storage_version, dataset.uri
    ).to_arrow()
    on_them = [
        item.name
        for item in describe_indices(dataset)
        if any(
            name == column or (name or "").startswith(f"{column}.")
            for name in item.field_names
            for column in config.columns
        )
    ]
    indices = f", and the indices {', '.join(on_them)}" if on_them else ""
    return (
        f"{', '.join(config.columns)} would be dropped{indices}; {count_text(len(left.names), 'column')} of "
        f"{len(dataset.schema.names)} would be left"
    )


def dropped(call: Call, config: DropIndexConfig) -> object:
    """Drop an index; see `DropIndexConfig`."""
    if not config.dry_run:
        return drop_index(call.ref.uri, config.name, **call.options())
    dataset = Dataset.open(call.ref.uri, storage_options=call.store.options_of(call.ref))
    found = {item.name: item for item in describe_indices(dataset)}
    if config.name not in found:
        raise InvalidArgumentError(
            f"no index {config.name!r}",
            path=call.ref.uri,
            field="name",
            hint=f"indices: {', '.join(found) or 'none'}",
        )
    item = found[config.name]
    size = "" if item.total_size_bytes is None else f" in {bytes_text(item.total_size_bytes)}"
    columns = ", ".join(name or "?" for name in item.field_names)
    return (
        f"index {item.name!r} ({item.index_type} on {columns}) would be dropped; it covers "
        f"{share_text(item.coverage)} of the rows{size}"
    )


def checked(call: Call, config: FsckConfig) -> Told:
    """Check a dataset; see `FsckConfig`."""
    found = fsck(
        call.ref.uri,
        config.version,
        deep=config.deep,
        storage_options=call.store.options_of(call.ref),
    )
    table = dg.MetadataValue.table(
        records=[
            dg.TableRecord(
                {
                    "severity": item.severity.value,
                    "check": item.check,
                    "message": item.message,
                    "path": item.path or "",
                }
            )
            for item in found.findings
        ],
        schema=dg.TableSchema(
            columns=[dg.TableColumn(name, "string") for name in ("severity", "check", "message", "path")]
        ),
    )
    metadata: dict[str, object] = {
        keys.SUMMARY: found.summary(),
        "lance/files_checked": found.files_checked,
        "lance/findings": table,
    }
    if found.remedy:
        metadata[keys.ERROR_HINT] = found.remedy
    return Told(str(found), metadata, failed=not found.ok)
