"""Operations to and from the messages of transaction.proto."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from lance_ops.file.schema import Schema
from lance_ops.pb import file_pb2, table_pb2, transaction_pb2
from lance_ops.table.fragment import DataFile, Fragment
from lance_ops.table.index_metadata import IndexFile, IndexMetadata
from lance_ops.table.manifest import BasePath
from lance_ops.table.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    ForeignOperation,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Update,
    UpdateConfig,
)
from lance_ops.table.wire import unknown_bytes, unmodelled_fields, uuid_from_proto

Proto = transaction_pb2.Transaction

UNKNOWN_KIND = "Unknown"
"""Kind of an operation whose number this version does not know."""


def encode_operation(operation: Operation, transaction: Proto) -> None:
    """Set the operation of a transaction message; one that is not known is in its unknown fields already."""
    if isinstance(operation, ForeignOperation):
        if operation.kind != UNKNOWN_KIND:
            message = getattr(transaction, _FOREIGN[operation.kind])
            message.SetInParent()
            message.MergeFromString(operation.wire)
        return
    field_name, encode = _ENCODERS[type(operation)]
    message = getattr(transaction, field_name)
    message.SetInParent()
    encode(operation, message)
    message.MergeFromString(operation.unknown)


def decode_operation(transaction: Proto, *, path: str) -> Operation:
    """Read the operation of a transaction message.

    Returns:
        A `ForeignOperation` of kind `Unknown` when no known operation is set.

    Raises:
        CorruptManifestError: A part of the operation cannot be read.
    """
    field_name = transaction.WhichOneof("operation")
    if field_name is None:
        return ForeignOperation(UNKNOWN_KIND)
    return _DECODERS[field_name](getattr(transaction, field_name), path)


def _rest(message: Message, *modelled: str) -> bytes:
    return unknown_bytes(message, unmodelled_fields(message, frozenset(modelled)))


def _fragments(messages: Iterable[table_pb2.DataFragment]) -> tuple[Fragment, ...]:
    return tuple(Fragment.from_proto(message) for message in messages)


def _protos(fragments: Iterable[Fragment]) -> list[table_pb2.DataFragment]:
    return [fragment.to_proto() for fragment in fragments]


def _schema_metadata(schema: Schema) -> dict[str, bytes]:
    return {key: schema.metadata[key] for key in sorted(schema.metadata)}


def _schema(fields: Iterable[file_pb2.Field], metadata: Mapping[str, bytes] | None = None) -> Schema:
    return Schema.from_protos(fields, metadata or {})


# Append


def _encode_append(operation: Append, message: Proto.Append) -> None:
    message.fragments.extend(_protos(operation.fragments))


def _decode_append(message: Proto.Append, _path: str) -> Append:
    return Append(_fragments(message.fragments), unknown=_rest(message, "fragments"))


# Delete


def _encode_delete(operation: Delete, message: Proto.Delete) -> None:
    message.updated_fragments.extend(_protos(operation.updated_fragments))
    message.deleted_fragment_ids.extend(operation.deleted_fragment_ids)
    message.predicate = operation.predicate


def _decode_delete(message: Proto.Delete, _path: str) -> Delete:
    return Delete(
        _fragments(message.updated_fragments),
        tuple(message.deleted_fragment_ids),
        message.predicate,
        unknown=_rest(message, "updated_fragments", "deleted_fragment_ids", "predicate"),
    )


# Overwrite


def _encode_overwrite(operation: Overwrite, message: Proto.Overwrite) -> None:
    message.fragments.extend(_protos(operation.fragments))
    message.schema.extend(operation.schema.to_protos())
    message.schema_metadata.update(_schema_metadata(operation.schema))
    message.config_upsert_values.update(operation.config_upsert)
    message.initial_bases.extend(base.to_proto() for base in operation.initial_bases)


def _decode_overwrite(message: Proto.Overwrite, _path: str) -> Overwrite:
    return Overwrite(
        _fragments(message.fragments),
        _schema(message.schema, message.schema_metadata),
        dict(message.config_upsert_values),
        tuple(BasePath.from_proto(base) for base in message.initial_bases),
        unknown=_rest(
            message, "fragments", "schema", "schema_metadata", "config_upsert_values", "initial_bases"
        ),
    )


# CreateIndex


def _encode_create_index(operation: CreateIndex, message: Proto.CreateIndex) -> None:
    message.new_indices.extend(index.to_proto() for index in operation.new_indices)
    message.removed_indices.extend(index.to_proto() for index in operation.removed_indices)


def _decode_create_index(message: Proto.CreateIndex, path: str) -> CreateIndex:
    return CreateIndex(
        tuple(IndexMetadata.from_proto(index, path=path) for index in message.new_indices),
        tuple(IndexMetadata.from_proto(index, path=path) for index in message.removed_indices),
        unknown=_rest(message, "new_indices", "removed_indices"),
    )


# Rewrite


def _encode_rewrite(operation: Rewrite, message: Proto.Rewrite) -> None:
    for group in operation.groups:
        message.groups.add(
            old_fragments=_protos(group.old_fragments), new_fragments=_protos(group.new_fragments)
        )
    for index in operation.rewritten_indices:
        rewritten = message.rewritten_indices.add(
            old_id=table_pb2.UUID(uuid=index.old_uuid.bytes),
            new_id=table_pb2.UUID(uuid=index.new_uuid.bytes),
            new_index_version=index.index_version,
            new_index_files=[
                table_pb2.IndexFile(path=file.path, size_bytes=file.size_bytes) for file in index.files
            ],
        )
        if index.type_url is not None:
            rewritten.new_index_details.CopyFrom(AnyMessage(type_url=index.type_url, value=index.details))


def _decode_rewrite(message: Proto.Rewrite, path: str) -> Rewrite:
    groups = [
        RewriteGroup(_fragments(group.old_fragments), _fragments(group.new_fragments))
        for group in message.groups
    ]
    # The flat form of old writers is one group; its new fragments were numbered by the commit.
    if message.old_fragments or message.new_fragments:
        groups.append(RewriteGroup(_fragments(message.old_fragments), _fragments(message.new_fragments)))
    return Rewrite(
        tuple(groups),
        tuple(_rewritten_index(index, path) for index in message.rewritten_indices),
        unknown=_rest(message, "groups", "rewritten_indices", "old_fragments", "new_fragments"),
    )


def _rewritten_index(message: Proto.Rewrite.RewrittenIndex, path: str) -> RewrittenIndex:
    has_details = message.HasField("new_index_details")
    return RewrittenIndex(
        uuid_from_proto(message.old_id, path=path, field="rewrite.rewritten_indices.old_id"),
        uuid_from_proto(message.new_id, path=path, field="rewrite.rewritten_indices.new_id"),
        message.new_index_details.type_url if has_details else None,
        message.new_index_details.value if has_details else b"",
        message.new_index_version,
        tuple(IndexFile(file.path, file.size_bytes) for file in message.new_index_files),
    )


# Merge and Project


def _encode_merge(operation: Merge, message: Proto.Merge) -> None:
    message.fragments.extend(_protos(operation.fragments))
    message.schema.extend(operation.schema.to_protos())
    message.schema_metadata.update(_schema_metadata(operation.schema))
    message.preserves_nullability = operation.preserves_nullability


def _decode_merge(message: Proto.Merge, _path: str) -> Merge:
    return Merge(
        _fragments(message.fragments),
        _schema(message.schema, message.schema_metadata),
        message.preserves_nullability,
        unknown=_rest(message, "fragments", "schema", "schema_metadata", "preserves_nullability"),
    )


def _encode_project(operation: Project, message: Proto.Project) -> None:
    message.schema.extend(operation.schema.to_protos())
    message.preserves_nullability = operation.preserves_nullability


def _decode_project(message: Proto.Project, _path: str) -> Project:
    return Project(
        _schema(message.schema),
        message.preserves_nullability,
        unknown=_rest(message, "schema", "preserves_nullability"),
    )


# Restore and ReserveFragments


def _encode_restore(operation: Restore, message: Proto.Restore) -> None:
    message.version = operation.version


def _decode_restore(message: Proto.Restore, _path: str) -> Restore:
    return Restore(message.version, unknown=_rest(message, "version"))


def _encode_reserve(operation: ReserveFragments, message: Proto.ReserveFragments) -> None:
    message.num_fragments = operation.num_fragments


def _decode_reserve(message: Proto.ReserveFragments, _path: str) -> ReserveFragments:
    return ReserveFragments(message.num_fragments, unknown=_rest(message, "num_fragments"))


# Update and DataReplacement


def _encode_update(operation: Update, message: Proto.Update) -> None:
    message.removed_fragment_ids.extend(operation.removed_fragment_ids)
    message.updated_fragments.extend(_protos(operation.updated_fragments))
    message.new_fragments.extend(_protos(operation.new_fragments))
    message.fields_modified.extend(operation.fields_modified)


def _decode_update(message: Proto.Update, _path: str) -> Update:
    return Update(
        tuple(message.removed_fragment_ids),
        _fragments(message.updated_fragments),
        _fragments(message.new_fragments),
        tuple(message.fields_modified),
        unknown=_rest(
            message, "removed_fragment_ids", "updated_fragments", "new_fragments", "fields_modified"
        ),
    )


def _encode_data_replacement(operation: DataReplacement, message: Proto.DataReplacement) -> None:
    for fragment_id, file in operation.replacements:
        message.replacements.add(fragment_id=fragment_id, new_file=file.to_proto())


def _decode_data_replacement(message: Proto.DataReplacement, _path: str) -> DataReplacement:
    return DataReplacement(
        tuple(
            (replacement.fragment_id, DataFile.from_proto(replacement.new_file))
            for replacement in message.replacements
        ),
        unknown=_rest(message, "replacements"),
    )


# UpdateConfig


def _encode_update_config(operation: UpdateConfig, message: Proto.UpdateConfig) -> None:
    for field_name, update in (
        ("config_updates", operation.config),
        ("table_metadata_updates", operation.table_metadata),
        ("schema_metadata_updates", operation.schema_metadata),
    ):
        if update is not None:
            target = getattr(message, field_name)
            target.SetInParent()
            _encode_map_update(update, target)
    for field_id in sorted(operation.field_metadata):
        _encode_map_update(operation.field_metadata[field_id], message.field_metadata_updates[field_id])


def _encode_map_update(update: MapUpdate, message: Proto.UpdateMap) -> None:
    for key in sorted(update.entries):
        message.update_entries.add(key=key, value=update.entries[key])
    message.replace = update.replace


def _decode_update_config(message: Proto.UpdateConfig, _path: str) -> UpdateConfig:
    old_config: dict[str, str | None] = dict(message.upsert_values)
    old_config.update(dict.fromkeys(message.delete_keys))
    field_metadata = {
        int(field_id): MapUpdate(dict(update.metadata), replace=True)
        for field_id, update in message.field_metadata.items()
    }
    field_metadata.update(
        (field_id, _map_update(update)) for field_id, update in message.field_metadata_updates.items()
    )
    config = _map_update(message.config_updates) if message.HasField("config_updates") else None
    schema_metadata = (
        _map_update(message.schema_metadata_updates) if message.HasField("schema_metadata_updates") else None
    )
    # The old form replaced schema and field metadata as a whole, and merged the config.
    if config is None and old_config:
        config = MapUpdate(old_config)
    if schema_metadata is None and message.schema_metadata:
        schema_metadata = MapUpdate(dict(message.schema_metadata), replace=True)
    return UpdateConfig(
        config,
        _map_update(message.table_metadata_updates) if message.HasField("table_metadata_updates") else None,
        schema_metadata,
        field_metadata,
        unknown=_rest(message, *(descriptor.name for descriptor in message.DESCRIPTOR.fields)),
    )


def _map_update(message: Proto.UpdateMap) -> MapUpdate:
    return MapUpdate(
        {entry.key: entry.value if entry.HasField("value") else None for entry in message.update_entries},
        message.replace,
    )


# Operations of others


def _foreign(kind: str) -> Callable[[Any, str], Operation]:
    def decode(message: Message, _path: str) -> ForeignOperation:
        fragment_ids: tuple[int, ...] = ()
        if isinstance(message, Proto.DataOverlay):
            fragment_ids = tuple(group.fragment_id for group in message.groups)
        return ForeignOperation(kind, message.SerializeToString(deterministic=True), fragment_ids)

    return decode


_FOREIGN = {
    "DataOverlay": "data_overlay",
    "UpdateMemWalState": "update_mem_wal_state",
    "Clone": "clone",
    "UpdateBases": "update_bases",
}

_ENCODERS: dict[type[Operation], tuple[str, Callable[[Any, Any], None]]] = {
    Append: ("append", _encode_append),
    Delete: ("delete", _encode_delete),
    Overwrite: ("overwrite", _encode_overwrite),
    CreateIndex: ("create_index", _encode_create_index),
    Rewrite: ("rewrite", _encode_rewrite),
    Merge: ("merge", _encode_merge),
    Restore: ("restore", _encode_restore),
    ReserveFragments: ("reserve_fragments", _encode_reserve),
    Update: ("update", _encode_update),
    Project: ("project", _encode_project),
    UpdateConfig: ("update_config", _encode_update_config),
    DataReplacement: ("data_replacement", _encode_data_replacement),
}

_DECODERS: dict[str, Callable[[Any, str], Operation]] = {
    "append": _decode_append,
    "delete": _decode_delete,
    "overwrite": _decode_overwrite,
    "create_index": _decode_create_index,
    "rewrite": _decode_rewrite,
    "merge": _decode_merge,
    "restore": _decode_restore,
    "reserve_fragments": _decode_reserve,
    "update": _decode_update,
    "project": _decode_project,
    "update_config": _decode_update_config,
    "data_replacement": _decode_data_replacement,
    **{field_name: _foreign(kind) for kind, field_name in _FOREIGN.items()},
}
