"""UpdateConfig: the operation that changes config and metadata."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Field, Schema
from lance_ops.pb import transaction_pb2
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations.base import (
    ManifestOperation,
    ManifestOptions,
    Scope,
    listed,
    rest,
)

JOBS_ENTRY = "lance_ops.jobs"
"""Config entry with the record of job keys, which each commit with a key changes; preserved by a replacement.
"""

_V = TypeVar("_V")
Proto = transaction_pb2.Transaction


@dataclass(frozen=True, slots=True)
class MapUpdate:
    """Changes of a string map: a value of None removes the key; `replace` starts from an empty map."""

    entries: Mapping[str, str | None]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class UpdateConfig(ManifestOperation):
    """Change config, table, schema or field metadata (the last by field id). None leaves a map unchanged."""

    name: ClassVar[str] = "UpdateConfig"
    wire_name: ClassVar[str] = "update_config"
    keeps_data: ClassVar[bool] = True
    scope: ClassVar[Scope] = Scope.NAMED
    config: MapUpdate | None = None
    table_metadata: MapUpdate | None = None
    schema_metadata: MapUpdate | None = None
    field_metadata: Mapping[int, MapUpdate] = field(default_factory=dict)

    def describe(self) -> str:
        parts = [
            f"{what} {listed(sorted(update.entries)) or 'as a whole'}"
            for what, update in (
                ("config", self.config),
                ("table metadata", self.table_metadata),
                ("schema metadata", self.schema_metadata),
            )
            if update is not None
        ]
        if self.field_metadata:
            parts.append(f"metadata of fields {listed(sorted(self.field_metadata))}")
        return f"UpdateConfig of {'; '.join(parts) or 'nothing'}"

    def check(self, manifest: Manifest, *, schema: Schema | None = None) -> None:
        missing = set(self.field_metadata) - {node.id for node in manifest.schema.walk()}
        if missing:
            raise InvalidArgumentError(
                f"fields {sorted(missing)[:8]} are not in the dataset", field="field_metadata"
            )

    def apply(self, current: Manifest, options: ManifestOptions) -> Manifest:
        metadata = current.schema.metadata
        if self.schema_metadata is not None:
            metadata = _updated(metadata, self.schema_metadata, str.encode)
        config = _updated(current.config, self.config, str)
        if self.config is not None and self.config.replace:
            config = {**{key: value for key, value in current.config.items() if key == JOBS_ENTRY}, **config}
        fields = tuple(_with_metadata(top, self.field_metadata) for top in current.schema.fields)
        return current.replace(
            config=config,
            table_metadata=_updated(current.table_metadata, self.table_metadata, str),
            schema=Schema(fields, metadata),
        )

    def encode(self, message: Proto.UpdateConfig) -> None:
        for field_name, update in (
            ("config_updates", self.config),
            ("table_metadata_updates", self.table_metadata),
            ("schema_metadata_updates", self.schema_metadata),
        ):
            if update is not None:
                target = getattr(message, field_name)
                target.SetInParent()
                _encode_map_update(update, target)
        for field_id in sorted(self.field_metadata):
            _encode_map_update(self.field_metadata[field_id], message.field_metadata_updates[field_id])

    @classmethod
    def decode(cls, message: Proto.UpdateConfig, *, path: str) -> "UpdateConfig":
        old_config: dict[str, str | None] = dict(message.upsert_values)
        old_config.update(dict.fromkeys(message.delete_keys))
        field_metadata = {
            int(field_id): MapUpdate(dict(update.metadata), replace=True)
            for field_id, update in message.field_metadata.items()
        }
        field_metadata.update(
            (field_id, _map_update(update)) for field_id, update in message.field_metadata_updates.items()
        )
        config = _optional_update(message, "config_updates")
        schema_metadata = _optional_update(message, "schema_metadata_updates")
        # The old form replaced schema and field metadata as a whole, and merged the config.
        if config is None and old_config:
            config = MapUpdate(old_config)
        if schema_metadata is None and message.schema_metadata:
            schema_metadata = MapUpdate(dict(message.schema_metadata), replace=True)
        return cls(
            config,
            _optional_update(message, "table_metadata_updates"),
            schema_metadata,
            field_metadata,
            unknown=rest(message, *(descriptor.name for descriptor in message.DESCRIPTOR.fields)),
        )


def _encode_map_update(update: MapUpdate, message: Proto.UpdateMap) -> None:
    for key in sorted(update.entries):
        message.update_entries.add(key=key, value=update.entries[key])
    message.replace = update.replace


def _optional_update(message: Proto.UpdateConfig, field_name: str) -> MapUpdate | None:
    return _map_update(getattr(message, field_name)) if message.HasField(field_name) else None  # type: ignore[arg-type]


def _map_update(message: Proto.UpdateMap) -> MapUpdate:
    return MapUpdate(
        {entry.key: entry.value if entry.HasField("value") else None for entry in message.update_entries},
        message.replace,
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
