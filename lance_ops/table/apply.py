"""The next manifest: what the head looks like after a transaction. Pure.

Source: transaction.proto; what the peer makes of each operation.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeVar

from lance_ops._version import __version__
from lance_ops.errors import CorruptManifestError, InvalidArgumentError
from lance_ops.file.schema import Field, Schema
from lance_ops.file.versions import DEFAULT_STORAGE_VERSION
from lance_ops.table.apply_fragments import (
    check_fragment_id,
    give_row_ids,
    in_id_order,
    next_fragment_id,
    number_fragments,
    project_fragments,
    replace_fragments,
    rewrite_fragments,
    storage_version,
)
from lance_ops.table.apply_indices import create_indices, indices_of_schema, rewrite_indices
from lance_ops.table.flags import Feature, contradictions, flags_for
from lance_ops.table.fragment import Fragment
from lance_ops.table.manifest import Manifest, WriterVersion
from lance_ops.table.operations import (
    Append,
    CreateIndex,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Update,
    UpdateConfig,
)
from lance_ops.table.transaction import Transaction, encode_transaction
from lance_ops.table.validate import check_operation, check_reserved_ids

_V = TypeVar("_V")
_TICK = timedelta(microseconds=1)
_STORAGE_VERSION = re.compile(r"0\.1|2\.[0-9]+")
_RELEASE = re.compile(r"([0-9]+\.[0-9]+\.[0-9]+)[.+-]?(.*)")


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """What a manifest takes from the caller rather than from the transaction.

    Attributes:
        timestamp: When the commit is made, UTC; moved on if the head is not older.
        follow_until: A head that claims to be younger than this is not followed; always followed when None.
        base_schema: Schema of the read version, by which new rows were written; the head's when None.
        data_storage_version: Version of data files to come, for an Overwrite without any; the dataset's own,
            or the default, when None.
        stable_row_ids: Give rows stable ids; when a dataset is created only.
        restored: The manifest that a Restore goes back to.
    """

    timestamp: datetime
    follow_until: datetime | None = None
    base_schema: Schema | None = None
    data_storage_version: str | None = None
    stable_row_ids: bool = False
    restored: Manifest | None = None


@cache
def writer_version() -> WriterVersion:
    """This library, as manifests name it: major.minor.patch, and what follows these apart."""
    match = _RELEASE.match(__version__)
    release, rest = match.groups() if match else ("0.0.0", None)
    return WriterVersion("lance_ops", release, prerelease=rest or None)


def build_manifest(current: Manifest | None, transaction: Transaction, options: ManifestOptions) -> Manifest:
    """Apply a transaction.

    Args:
        current: The head; None to create a dataset.
        transaction: What to commit. Fragments that are new get their ids and row ids here.
        options: What the caller decides.

    Returns:
        The manifest of the next version, with the transaction in it.

    Raises:
        InvalidArgumentError: The operation does not fit the head.
        CorruptManifestError: The head is such that nobody could open its successor.
    """
    operation = transaction.operation
    if current is None:
        if not isinstance(operation, Overwrite):
            raise InvalidArgumentError(f"{operation.name} needs a dataset; only Overwrite creates one")
        current = _nothing(operation, options)
    check_operation(current, operation, schema=options.base_schema)
    changed = _with_data_format(_APPLY[type(operation)](current, operation, options))
    fragments = in_id_order(changed.fragments)
    highest = next_fragment_id(changed.replace(fragments=fragments)) - 1
    check_fragment_id(highest)
    manifest = changed.replace(
        version=current.version + 1,
        fragments=fragments,
        max_fragment_id=highest if highest >= 0 else None,
        # Versions are told apart by time as well ("as of", retention by age): time must not stand still.
        timestamp=_next_timestamp(current.timestamp, options),
        tag=transaction.tag,
        transaction_file=transaction.file_name,
        transaction=encode_transaction(transaction),
        writer_version=writer_version(),
    )
    reader_flags, writer_flags = flags_for(manifest)
    result = manifest.replace(reader_flags=reader_flags, writer_flags=writer_flags)
    for what, field in contradictions(result):
        # Nobody could open it: not a version to publish, whatever led there.
        raise CorruptManifestError(what, field=field, hint="restore an older version")
    return result


def _next_timestamp(before: datetime, options: ManifestOptions) -> datetime:
    # A clock that is far ahead would else set the time of all versions to come, and keep them from cleanup.
    credible = options.follow_until is None or before <= options.follow_until
    return max(options.timestamp, before + _TICK) if credible else options.timestamp


def _nothing(operation: Overwrite, options: ManifestOptions) -> Manifest:
    flags = int(Feature.STABLE_ROW_IDS) if options.stable_row_ids else 0
    return Manifest(
        version=0,
        schema=operation.schema,
        fragments=(),
        timestamp=options.timestamp - _TICK,
        reader_flags=flags,
        writer_flags=flags,
        data_format=("lance", DEFAULT_STORAGE_VERSION),
        base_paths=operation.initial_bases,
    )


def _with_data_format(manifest: Manifest) -> Manifest:
    """State the storage version, which old manifests leave to be told from the files."""
    if manifest.data_format[1] == manifest.storage_version:
        return manifest
    return manifest.replace(data_format=("lance", manifest.storage_version))


def _new_fragments(current: Manifest, fragments: tuple[Fragment, ...]) -> tuple[tuple[Fragment, ...], int]:
    numbered = number_fragments(fragments, next_fragment_id(current))
    if not current.uses_stable_row_ids:
        return numbered, current.next_row_id
    return give_row_ids(numbered, next_row_id=current.next_row_id, version=current.version + 1)


def _append(current: Manifest, operation: Append, _options: ManifestOptions) -> Manifest:
    new, next_row_id = _new_fragments(current, operation.fragments)
    return current.replace(fragments=(*current.fragments, *new), next_row_id=next_row_id)


def _delete(current: Manifest, operation: Delete, _options: ManifestOptions) -> Manifest:
    return current.replace(
        fragments=replace_fragments(
            current.fragments, operation.updated_fragments, operation.deleted_fragment_ids
        )
    )


def _update(current: Manifest, operation: Update, _options: ManifestOptions) -> Manifest:
    new, next_row_id = _new_fragments(current, operation.new_fragments)
    kept = replace_fragments(current.fragments, operation.updated_fragments, operation.removed_fragment_ids)
    return current.replace(fragments=(*kept, *new), next_row_id=next_row_id)


def _overwrite(current: Manifest, operation: Overwrite, options: ManifestOptions) -> Manifest:
    # Ids of fragments and rows go on counting: older versions still use the ones before.
    new, next_row_id = _new_fragments(current, operation.fragments)
    versions = {storage_version(file) for fragment in operation.fragments for file in fragment.files}
    asked = options.data_storage_version
    if asked is not None and not _STORAGE_VERSION.fullmatch(asked):
        raise InvalidArgumentError(f"there is no storage version {asked!r}", field="data_storage_version")
    version = asked or current.storage_version
    if versions:
        (version,) = versions
        if asked not in (None, version):
            raise InvalidArgumentError(
                f"the data files are of version {version}, not {asked}", field="data_storage_version"
            )
    return current.replace(
        schema=operation.schema,
        fragments=new,
        next_row_id=next_row_id,
        indices=(),
        data_format=("lance", version),
        config={**current.config, **operation.config_upsert},
    )


def _create_index(current: Manifest, operation: CreateIndex, _options: ManifestOptions) -> Manifest:
    ids = frozenset(fragment.id for fragment in current.fragments)
    return current.replace(indices=create_indices(current.indices, operation, current.schema, ids))


def _rewrite(current: Manifest, operation: Rewrite, _options: ManifestOptions) -> Manifest:
    check_reserved_ids(current, operation)
    return current.replace(
        fragments=rewrite_fragments(current.fragments, operation.groups),
        indices=rewrite_indices(current.indices, operation, stable_row_ids=current.uses_stable_row_ids),
    )


def _merge(current: Manifest, operation: Merge, _options: ManifestOptions) -> Manifest:
    return current.replace(
        schema=operation.schema,
        fragments=project_fragments(operation.fragments, operation.schema),
        indices=indices_of_schema(current.indices, operation.schema),
    )


def _project(current: Manifest, operation: Project, _options: ManifestOptions) -> Manifest:
    schema = replace(operation.schema, metadata=current.schema.metadata)
    return current.replace(
        schema=schema,
        fragments=project_fragments(current.fragments, schema),
        indices=indices_of_schema(current.indices, schema),
    )


def _restore(current: Manifest, operation: Restore, options: ManifestOptions) -> Manifest:
    restored = options.restored
    if restored is None or restored.version != operation.version:
        raise InvalidArgumentError(
            f"the manifest of version {operation.version} is missing", field="restored"
        )
    # What was given out since stays given out: the versions in between may still be read.
    # So does the mark of several file versions, as with the peer.
    mixed = int(current.reader_flags & Feature.MIXED_FILE_VERSIONS)
    return restored.replace(
        reader_flags=restored.reader_flags | mixed,
        max_fragment_id=max(next_fragment_id(current), next_fragment_id(restored)) - 1,
        next_row_id=max(current.next_row_id, restored.next_row_id),
        branch=current.branch,
    )


def _reserve(current: Manifest, operation: ReserveFragments, _options: ManifestOptions) -> Manifest:
    return current.replace(max_fragment_id=next_fragment_id(current) + operation.num_fragments - 1)


def _update_config(current: Manifest, operation: UpdateConfig, _options: ManifestOptions) -> Manifest:
    metadata = current.schema.metadata
    if operation.schema_metadata is not None:
        metadata = _updated(metadata, operation.schema_metadata, str.encode)
    fields = tuple(_with_metadata(top, operation.field_metadata) for top in current.schema.fields)
    return current.replace(
        config=_updated(current.config, operation.config, str),
        table_metadata=_updated(current.table_metadata, operation.table_metadata, str),
        schema=Schema(fields, metadata),
    )


def _updated(
    values: Mapping[str, _V], update: MapUpdate | None, convert: Callable[[str], _V]
) -> Mapping[str, _V]:
    if update is None:
        return values
    result = {} if update.replace else dict(values)
    for key, value in update.entries.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = convert(value)
    return result


def _with_metadata(node: Field, updates: Mapping[int, MapUpdate]) -> Field:
    return replace(
        node,
        metadata=_updated(node.metadata, updates.get(node.id), str.encode),
        children=tuple(_with_metadata(child, updates) for child in node.children),
    )


_APPLY: dict[type[Operation], Callable[[Manifest, Any, ManifestOptions], Manifest]] = {
    Append: _append,
    Delete: _delete,
    Update: _update,
    Overwrite: _overwrite,
    CreateIndex: _create_index,
    Rewrite: _rewrite,
    Merge: _merge,
    Project: _project,
    Restore: _restore,
    ReserveFragments: _reserve,
    UpdateConfig: _update_config,
}
