"""External manifest stores by their addresses: the storage option `manifest_store`, and `s3+ddb://` URIs."""

import os
import re
from collections.abc import Mapping
from typing import Any

from lance_ops.errors import InvalidArgumentError
from lance_ops.storage.external.manifest_store import ExternalManifestStore
from lance_ops.storage.external.memory import MemoryManifestStore
from lance_ops.storage.external.store import ExternalStore
from lance_ops.storage.options import MANIFEST_STORE, text_options
from lance_ops.storage.paths import BUCKET_SCHEMES, Location, split_bucket
from lance_ops.storage.store import Store

_TABLE = re.compile(r"[A-Za-z0-9_.\-]{3,255}")
_SQL = re.compile(r"[a-z][a-z0-9]*(\+[a-z0-9]+)?://", re.IGNORECASE)


def open_manifests(address: str, options: Mapping[str, Any] | None = None) -> ExternalManifestStore:
    """Return the external manifest store at an address; nothing is read or written yet.

    Args:
        address: `dynamodb://TABLE`; a URL of SQLAlchemy, such as `sqlite:///folder/manifests.db` or
            `postgresql+psycopg2://user:password@host/database`; or `memory://NAME`, of this process.
        options: Storage options of the dataset: credentials, region and endpoint of DynamoDB.

    Raises:
        InvalidArgumentError: It is no such address.
        MissingExtraError: A library is not installed.
    """
    scheme, _, rest = address.partition("://")
    if scheme == "memory" and rest:
        return MemoryManifestStore(rest)
    if scheme == "dynamodb" and _TABLE.fullmatch(rest):
        # Imported on demand: most datasets need neither of these libraries.
        from lance_ops.storage.external.dynamodb import DynamoManifestStore

        return DynamoManifestStore(rest, text_options(options))
    if _SQL.match(address) and scheme != "dynamodb":
        from lance_ops.storage.external.sql import SqlManifestStore

        return SqlManifestStore(address)
    raise InvalidArgumentError(
        "this is no address of an external manifest store",
        field=MANIFEST_STORE,
        hint="dynamodb://TABLE, sqlite:////absolute/path.db or postgresql+psycopg2://user@host/database",
    )


def with_manifests(store: Store, manifests: ExternalManifestStore, uri: str | None = None) -> ExternalStore:
    """Return a store whose versions an external manifest store decides.

    Args:
        store: The bytes.
        manifests: The external manifest store.
        uri: URI of the store with its external manifest store, if it has one.
    """
    return ExternalStore(store, manifests, base_uri(store.uri, manifests), uri)


def base_uri(uri: str, manifests: ExternalManifestStore) -> str:
    """Return the `base_uri` of a dataset.

    The official library keys DynamoDB by the path within the bucket. Elsewhere the key is the whole URI, so
    that datasets of several buckets do not share rows; of a local folder without symbolic links, so that all
    its spellings are one.

    Args:
        uri: Of the store of the bytes.
        manifests: The external manifest store.
    """
    scheme, mark, _ = uri.partition("://")
    if not mark:
        return os.path.realpath(uri)
    if scheme in BUCKET_SCHEMES and manifests.name.startswith("dynamodb:"):
        return split_bucket(uri)[1]
    return uri


def table_of(location: Location) -> tuple[str, str]:
    """Split a normalised `s3+ddb://TABLE@bucket/path` into the address of its rows and that of its bytes."""
    table, _, place = location.uri.partition("://")[2].partition("@")
    return f"dynamodb://{table}", f"s3://{place}"
