"""Picks the store for a URI."""

import importlib.util
import os
from collections.abc import Mapping

from lance_ops.errors import InvalidArgumentError, UnsupportedError, check_type
from lance_ops.storage.local.store import LocalStore
from lance_ops.storage.memory import MemoryStore
from lance_ops.storage.options import MANIFEST_STORE, separate_manifest_store
from lance_ops.storage.paths import BUCKET_SCHEMES, Location, parse_location
from lance_ops.storage.store import Store

_OF_DYNAMODB = frozenset(
    {"ddbtablename", "ddbtable", "dynamodbendpoint", "dynamodbtable", "dynamodbtablename"}
)


def open_store(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> Store:
    """Bind a store to a root URI; nothing is read, written or created yet.

    Args:
        uri: A path, `file://`, `memory://` (shared within the process), an object store (`s3://`, `gs://`,
            `az://`, `abfss://`, or an alias: `s3a://`, `s3n://`, `gcs://`, `wasbs://`; through obstore where
            it is installed), or any URL that fsspec knows; or `s3+ddb://bucket/path?ddbTableName=TABLE`:
            DynamoDB decides the versions.
        storage_options: As for pylance; for local files see `LocalStore`, for object stores `ObjectStore`;
            for other URLs they are the keyword arguments of the fsspec filesystem. With `manifest_store`, a
            database decides the versions of datasets at any URI; see `lance_ops.storage.external`.

    Raises:
        InvalidArgumentError: The URI or an option makes no sense.
    """
    if storage_options is not None:
        check_type(storage_options, Mapping, "a mapping of names to values", field="storage_options")
    location = parse_location(uri)
    address, options = separate_manifest_store(storage_options)
    if location.scheme == "s3+ddb":
        if address is not None:
            raise InvalidArgumentError(
                "two external manifest stores: one in the URI, one in the storage options",
                path=location.uri,
                field=MANIFEST_STORE,
            )
        return _open_external(location, address, storage_options)
    if location.scheme == "s3":
        _refuse_dynamodb(location.uri, storage_options or {}, address)
    if address is not None:
        return _open_external(location, address, storage_options)
    return _open_plain(location, options)


def _open_external(
    location: Location, address: str | None, storage_options: Mapping[str, str] | None
) -> Store:
    # Imported on demand, like the libraries below.
    from lance_ops.storage.external.opening import open_manifests, table_of, with_manifests

    options = separate_manifest_store(storage_options)[1]
    if address is not None:
        store = _open_plain(location, options)
        return with_manifests(store, open_manifests(address, storage_options))
    address, plain = table_of(location)
    store = _open_plain(Location("s3", plain), options)
    return with_manifests(store, open_manifests(address, storage_options), location.uri)


def _open_plain(location: Location, storage_options: Mapping[str, str] | None) -> Store:
    if location.is_local:
        return LocalStore(location.uri, storage_options)
    if location.scheme == "memory":
        return MemoryStore(location.uri)
    # Imported on demand: local tables should neither wait for these libraries nor need them.
    if location.scheme in BUCKET_SCHEMES and importlib.util.find_spec("obstore") is not None:
        from lance_ops.storage.objects.store import ObjectStore

        return ObjectStore(location.uri, storage_options)
    from lance_ops.storage.fsspec_store import FsspecStore

    return FsspecStore(location.uri, storage_options)


def _refuse_dynamodb(uri: str, options: Mapping[str, str], address: str | None) -> None:
    """Refuse options of DynamoDB where nothing else names it: the versions would be decided without it."""
    if address is not None and address.startswith("dynamodb:"):
        return
    for name, value in options.items():
        if value and name.lower().replace("_", "") in _OF_DYNAMODB:
            raise UnsupportedError(
                "this storage option is for versions that are decided by DynamoDB, and the URI names no "
                "table of it: another writer's version could be missed or replaced",
                path=uri,
                field=name,
                hint="write s3+ddb:// instead of s3://, and ?ddbTableName= with the name of a table after it",
            )
