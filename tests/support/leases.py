"""Leases of processes that died: what two minutes do, done at once."""

from lance_ops.maintenance.metadata.clone import PLACE_FOLDER
from lance_ops.storage import Store


def forget_leases(store: Store) -> None:
    """Remove the leases of clones and branches that were being made when their process died."""
    store.delete_many([info.path for info in store.list(PLACE_FOLDER)])
