"""Contents of a store, for comparisons."""

from lance_ops.storage import Store


def paths(store: Store, prefix: str = "", *, start_after: str | None = None) -> list[str]:
    """Return the paths of a listing."""
    return [info.path for info in store.list(prefix, start_after=start_after)]


def content(store: Store, path: str) -> bytes:
    """Return a whole object."""
    return bytes(store.read(path).to_pybytes())
