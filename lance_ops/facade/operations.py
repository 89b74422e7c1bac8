"""Operations by pylance's names whose arguments differ from those of lance_ops."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from lance_ops.errors import FormatError, InvalidArgumentError, UnsupportedError
from lance_ops.facade.inputs import with_schema
from lance_ops.table.dataset import Dataset as Snapshot
from lance_ops.table.history.history import HistoryEntry

if TYPE_CHECKING:
    from lance_ops.maintenance.cleanup.operation import CleanupResult
    from lance_ops.maintenance.cleanup.plan import CleanupPlan
    from lance_ops.maintenance.index.result import IndexResult
    from lance_ops.maintenance.metadata.result import MetadataResult


def create_scalar_index(
    dataset: Snapshot,
    /,
    column: str,
    index_type: str = "BTREE",
    name: str | None = None,
    *,
    replace: bool = True,
    **options: Any,
) -> "IndexResult":
    """Build an index on a column, and replace one of this name; see `lance_ops.create_index`."""
    from lance_ops.maintenance.index.operation import create_index

    done: Any = create_index(dataset, column, str(index_type), name=name, replace=replace, **options)
    return done  # type: ignore[no-any-return]  # the options are not known here


def cleanup_old_versions(
    dataset: Snapshot,
    /,
    older_than: timedelta | None = None,
    retain_versions: int | None = None,
    *,
    delete_unverified: bool = False,
    error_if_tagged_old_versions: bool = True,  # noqa: ARG001 - tagged versions are kept in any case
    versions: Sequence[int] | None = None,
    **options: Any,
) -> "CleanupResult":
    """Remove old versions; see `lance_ops.cleanup`. Tagged versions are kept.

    Raises:
        UnsupportedError: `versions` is given: which versions go is decided by age and number.
    """
    from lance_ops.maintenance.cleanup.operation import cleanup

    _refuse_versions(versions)
    limits = {
        "older_than": older_than,
        "retain_versions": retain_versions,
        "delete_unverified": delete_unverified,
        **_without_hints(options, "delete_rate_limit", "delete_concurrency"),
    }
    return cleanup(dataset, **limits)  # type: ignore[no-any-return]  # the options are not known here


def explain_cleanup_old_versions(
    dataset: Snapshot,
    /,
    older_than: timedelta | None = None,
    retain_versions: int | None = None,
    *,
    delete_unverified: bool = False,
    versions: Sequence[int] | None = None,
    **options: Any,
) -> "CleanupPlan":
    """Return what `cleanup_old_versions` would remove and keep, and why."""
    from lance_ops.maintenance.cleanup.operation import cleanup

    _refuse_versions(versions)
    more = _without_hints(
        options, "delete_rate_limit", "error_if_tagged_old_versions", "include_files", "max_files"
    )
    return cleanup(  # type: ignore[no-any-return]  # the options are not known here
        dataset,
        dry_run=True,
        older_than=older_than,
        retain_versions=retain_versions,
        delete_unverified=delete_unverified,
        **more,
    )


def _refuse_versions(versions: Sequence[int] | None) -> None:
    if versions is not None:
        raise UnsupportedError(
            "single versions cannot be removed", field="versions", hint="give older_than or retain_versions"
        )


def insert(
    dataset: Snapshot, /, data: Any, *, mode: Literal["append", "overwrite"] = "append", **options: Any
) -> Any:
    """Add rows, or replace all of them with mode "overwrite"; see `lance_ops.write_dataset`."""
    from lance_ops.maintenance.ingest.operation import write_dataset

    if mode not in ("append", "overwrite"):
        raise InvalidArgumentError(f'mode must be "append" or "overwrite", got {mode!r}', field="mode")
    source = with_schema(data, options.pop("schema", None))
    return write_dataset(source, dataset, mode=mode, **options)


def add_columns(
    dataset: Snapshot,
    /,
    transforms: Any,
    read_columns: Sequence[str] | None = None,
    reader_schema: pa.Schema | None = None,
    batch_size: int | None = None,
    **options: Any,
) -> Any:
    """Add columns; see `lance_ops.add_columns`, whose options it takes too."""
    from lance_ops.maintenance.columns.operation import add_columns

    if reader_schema is not None:
        options.setdefault("output_schema", reader_schema)
    return add_columns(dataset, transforms, read_columns=read_columns, batch_size=batch_size, **options)


def restore(dataset: Snapshot, /, version: Any = None, **options: Any) -> Any:
    """Make a version the newest one, by default that at which the dataset is; see `lance_ops.restore`."""
    from lance_ops.maintenance.metadata.actions import restore

    return restore(dataset.uri if version is None else dataset, version or dataset.version, **options)


def update_config(
    dataset: Snapshot,
    /,
    values: Mapping[str, str | None] | None = None,
    delete: Iterable[str] = (),
    *,
    replace: bool = False,
    **options: Any,
) -> "MetadataResult":
    """Set entries of the table config; a value of None removes its key. See `lance_ops.update_config`.

    Args:
        dataset: The dataset.
        values: Entries.
        delete: Keys to remove.
        replace: Remove all keys that are not given.
        **options: See `lance_ops.update_config`.
    """
    from lance_ops.maintenance.metadata.actions import update_config

    given = {**options.pop("upsert", {}), **(values or {})}
    gone = [*delete, *(name for name, value in given.items() if value is None)]
    if replace:
        gone += [name for name in dataset.config if name not in given]
    kept = {name: value for name, value in given.items() if value is not None}
    return update_config(dataset, kept or None, gone, **options)


def delete_config_keys(dataset: Snapshot, /, keys: Sequence[str]) -> "MetadataResult":
    """Remove entries of the table config."""
    from lance_ops.maintenance.metadata.actions import update_config

    return update_config(dataset, delete=keys)


def update_metadata(
    dataset: Snapshot, /, values: Mapping[str, str | None], *, replace: bool = False
) -> "MetadataResult":
    """Set entries of the table's metadata; None removes a key, `replace` all that are not given."""
    from lance_ops.maintenance.metadata.actions import update_config

    old = dataset.manifest.table_metadata
    return update_config(dataset, table_metadata=_replacing(old, values, replace=replace))


def update_schema_metadata(
    dataset: Snapshot, /, values: Mapping[str, str | None], *, replace: bool = False
) -> "MetadataResult":
    """Set entries of the schema's metadata; None removes a key, `replace` all that are not given."""
    from lance_ops.maintenance.metadata.actions import update_config

    old = _text(dataset.schema.metadata)
    return update_config(dataset, schema_metadata=_replacing(old, values, replace=replace))


def replace_schema_metadata(dataset: Snapshot, /, new_metadata: Mapping[str, str]) -> "MetadataResult":
    """Replace all entries of the schema's metadata."""
    return update_schema_metadata(dataset, new_metadata, replace=True)


def update_field_metadata(
    dataset: Snapshot, /, field_updates: Mapping[str, Mapping[str, str | None]], *, replace: bool = False
) -> "MetadataResult":
    """Set entries of the metadata of columns by their path; see `update_schema_metadata`."""
    from lance_ops.maintenance.metadata.actions import update_config

    changes = {}
    for path, values in field_updates.items():
        old = {str(name): str(value) for name, value in dataset.lance_schema.field(path).metadata.items()}
        changes[path] = _replacing(old, values, replace=replace)
    return update_config(dataset, field_metadata=changes)


def replace_field_metadata(
    dataset: Snapshot, /, field_name: str, new_metadata: Mapping[str, str]
) -> "MetadataResult":
    """Replace all entries of the metadata of a column."""
    return update_field_metadata(dataset, {field_name: new_metadata}, replace=True)


def _replacing(
    old: Mapping[str, str], values: Mapping[str, str | None], *, replace: bool
) -> dict[str, str | None]:
    gone: dict[str, str | None] = dict.fromkeys(name for name in old if name not in values) if replace else {}
    return {**gone, **values}


def _text(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()}


def list_indices(dataset: Snapshot, /) -> list[dict[str, Any]]:
    """Return the segments of all indices: name, type, uuid, fields, version and fragment_ids of each."""
    from lance_ops.index.upkeep.statistics import describe_indices

    described = describe_indices(dataset)
    kinds = {item.name: item.index_type for item in described}
    paths = {
        number: path
        for item in described
        for number, path in zip(item.fields, item.field_names, strict=True)
        if path is not None
    }
    return [
        {
            "name": item.name,
            "type": kinds.get(item.name, "Unknown"),
            "uuid": str(item.uuid),
            "fields": [paths.get(number, str(number)) for number in item.fields],
            "version": item.dataset_version,
            "fragment_ids": set(item.fragment_ids or ()),
            "base_id": item.base_id,
        }
        for item in dataset.indices
    ]


def get_transactions(dataset: Snapshot, /, recent_transactions: int = 10) -> list[HistoryEntry]:
    """Return the newest commits, newest first; see `Dataset.history`."""
    return dataset.history(recent_transactions)


def sample(
    dataset: Snapshot,
    /,
    num_rows: int,
    columns: Any = None,
    randomize_order: bool = True,
    *,
    seed: int | None = None,
) -> pa.Table:
    """Return random rows, none of them twice.

    Args:
        dataset: The dataset.
        num_rows: Number of rows; all rows when there are fewer.
        columns: See `Dataset.scanner`.
        randomize_order: Return them in random order instead of that of the table.
        seed: Makes the choice repeatable.
    """
    total = dataset.count_rows()
    chosen = np.random.default_rng(seed).choice(total, min(num_rows, total), replace=False)
    return dataset.take(chosen if randomize_order else np.sort(chosen), columns)


def slice_rows(dataset: Snapshot, /, start: int, end: int, columns: Any = None) -> pa.Table:
    """Return the live rows from one number to another, the last one excluded."""
    return dataset.to_table(columns, offset=start, limit=max(0, end - start))


def validate(dataset: Snapshot, /) -> None:
    """Check the version, see `lance_ops.fsck`.

    Raises:
        FormatError: It is damaged; the message has the findings.
    """
    from lance_ops.maintenance.fsck.operation import fsck

    found = fsck(dataset)
    if not found.ok:
        raise FormatError(str(found), path=dataset.uri)


def _without_hints(options: dict[str, Any], *hints: str) -> dict[str, Any]:
    """Return options without those of pylance that only tune it."""
    return {name: value for name, value in options.items() if name not in hints and value is not None}
