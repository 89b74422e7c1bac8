"""Store clock: the time by the clock of a store, which stamps the files whose ages count."""

import uuid
from datetime import UTC, datetime

from lance_ops.storage import Store
from lance_ops.storage.paths import TEMPORARY_PREFIX
from lance_ops.storage.retry import discard, persistently
from lance_ops.table.manifest.listing import VERSIONS_DIRECTORY


def store_now(store: Store) -> datetime:
    """Return the present time of the store by writing and removing a small file.

    Stores have a resolution of seconds or milliseconds, so the time may be a second old.
    """
    # An existing folder, and a name that readers ignore and cleanups remove.
    path = f"{VERSIONS_DIRECTORY}/{TEMPORARY_PREFIX}clock_{uuid.uuid4().hex}"
    persistently(lambda: store.put(path, b"", durable="never"))
    try:
        found = persistently(
            lambda: next((i for i in store.list(VERSIONS_DIRECTORY) if i.path == path), None)
        )
    finally:
        discard(store, path)
    return datetime.now(UTC) if found is None else found.modified
