"""Store clock: the time by the clock of a store, which stamps the files whose ages count."""

import uuid
from datetime import UTC, datetime

from lance_ops.storage import Store
from lance_ops.storage.paths import TEMPORARY_PREFIX
from lance_ops.storage.retry import discard, persistently
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY


def store_now(store: Store) -> datetime:
    """Write a small file into a dataset and see when the store thinks that was; it is removed again.

    Stores tell seconds or milliseconds, so this may be a second ago.
    """
    # A folder that is there, and a name that readers ignore and cleanups remove.
    path = f"{VERSIONS_DIRECTORY}/{TEMPORARY_PREFIX}clock_{uuid.uuid4().hex}"
    persistently(lambda: store.put(path, b"", durable="never"))
    try:
        found = persistently(
            lambda: next((i for i in store.list(VERSIONS_DIRECTORY) if i.path == path), None)
        )
    finally:
        discard(store, path)
    return datetime.now(UTC) if found is None else found.modified
