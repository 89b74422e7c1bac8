"""Timestamps: how far that of the newest version may be trusted when the next one gets a later one."""

from datetime import datetime, timedelta

from lance_ops.storage import Store
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY, parse_manifest_name

CREDIBLE_LEAD = timedelta(minutes=10)
"""How far clocks of machines and stores may be apart."""


def latest_credible(store: Store, head: Manifest, now: datetime) -> datetime:
    """The latest time that the newest version can claim to be of.

    Ours may be the clock that is wrong. So a time that is far ahead is compared with the time at which the
    store says it got the manifest, which costs a listing; nothing is asked in the ordinary case.

    Args:
        store: Root of the dataset.
        head: The newest version.
        now: The time of this machine, UTC.
    """
    limit = now + CREDIBLE_LEAD
    if head.timestamp <= limit:
        return limit
    for info in store.list(VERSIONS_DIRECTORY):
        parsed = parse_manifest_name(info.path.removeprefix(f"{VERSIONS_DIRECTORY}/"))
        if parsed is not None and parsed[0] == head.version:
            return max(limit, info.modified + CREDIBLE_LEAD)
    return limit
