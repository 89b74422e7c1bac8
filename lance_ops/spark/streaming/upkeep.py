"""Upkeep by a sink: epochs are small, so that their fragments are merged every now and then."""

import logging

from lance_ops.errors import LanceOpsError
from lance_ops.maintenance.compact.operation import compact
from lance_ops.spark.streaming.options import SinkOptions
from lance_ops.storage import Store
from lance_ops.table.commit.jobs.stream_epochs import Epoch

_log = logging.getLogger("lance_ops.streaming")

# Each row is rewritten once for each tier, however long the query runs.
_TIER_GROWTH = 8


def compact_after(store: Store, epoch: Epoch, options: SinkOptions) -> None:
    """Merge small fragments by size tiers after every so many epochs.

    The epoch is committed, so that a failure is only logged; the dataset's health says what is left to do.
    """
    if not options.compact_every or (epoch.number + 1) % options.compact_every:
        return
    try:
        result = compact(
            store, tier_growth=_TIER_GROWTH, properties=dict(options.write.get("properties") or {})
        )
    except LanceOpsError as error:
        _log.warning("the compaction after %s of %s failed: %s", epoch, store.uri, error)
        return
    _log.info("after %s of %s: %s", epoch, store.uri, result.summary())
