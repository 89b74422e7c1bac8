"""Picks the store for a URI."""

import importlib.util
import os
from collections.abc import Mapping

from lance_ops.errors import UnsupportedError, check_type
from lance_ops.storage.local.store import LocalStore
from lance_ops.storage.memory import MemoryStore
from lance_ops.storage.paths import BUCKET_SCHEMES, DYNAMODB_HINT, DYNAMODB_REFUSED, parse_location
from lance_ops.storage.store import Store

_OF_DYNAMODB = frozenset(
    {"ddbtablename", "ddbtable", "dynamodbendpoint", "dynamodbtable", "dynamodbtablename"}
)


def open_store(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> Store:
    """Bind a store to a root URI; nothing is read, written or created yet.

    Args:
        uri: A path, `file://`, `memory://` (shared within the process), an object store (`s3://`, `gs://`,
            `az://`, `abfss://`, or an alias: `s3a://`, `s3n://`, `gcs://`, `wasbs://`; through obstore where
            it is installed), or any URL that fsspec knows.
        storage_options: As for pylance; for local files see `LocalStore`, for object stores `ObjectStore`;
            for other URLs they are the keyword arguments of the fsspec filesystem.

    Raises:
        InvalidArgumentError: The URI or an option makes no sense.
        UnsupportedError: URI or options name a table of DynamoDB that decides which version is the newest.
    """
    if storage_options is not None:
        check_type(storage_options, Mapping, "a mapping of names to values", field="storage_options")
    location = parse_location(uri)
    if location.scheme == "s3":
        _refuse_dynamodb(location.uri, storage_options or {})
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


def _refuse_dynamodb(uri: str, options: Mapping[str, str]) -> None:
    """Refuse options of external manifest stores in DynamoDB."""
    for name, value in options.items():
        if value and name.lower().replace("_", "") in _OF_DYNAMODB:
            raise UnsupportedError(DYNAMODB_REFUSED, path=uri, field=name, hint=DYNAMODB_HINT)
