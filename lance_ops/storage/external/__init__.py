"""External manifest store: a database that decides which writer gets a version, beside any store of bytes.

For stores without put-if-absent, and for tables whose other writers use one. The manifests stay in the store;
the database holds a row for each version: where its manifest is. Source: format, "External Manifest Store".
"""

from lance_ops.storage.external.manifest_store import ExternalManifestStore, ManifestEntry
from lance_ops.storage.external.memory import MemoryManifestStore
from lance_ops.storage.external.store import ExternalStore, external_of

__all__ = [
    "ExternalManifestStore",
    "ExternalStore",
    "ManifestEntry",
    "MemoryManifestStore",
    "external_of",
]
