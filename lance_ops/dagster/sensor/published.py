"""Which versions the event log has of many datasets: read once in a process, then what is new of them.

The log stays the truth. What a process remembers only says which events it has parsed already, and whoever is
about to publish asks the log once more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import dagster as dg

from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.event_log import LogPosition, read_since
from lance_ops.dagster.publication import Published, last_published_of_all, published_by


@dataclass(frozen=True, slots=True)
class _Known:
    position: LogPosition = field(default_factory=LogPosition)
    published: dict[dg.AssetKey, Published | None] = field(default_factory=dict)


_KNOWN: dict[str, _Known] = {}
"""By instance and sensor. An entry is replaced as a whole: ticks may meet in a process."""


def published_versions(
    instance: dg.DagsterInstance, owner: str, refs: Sequence[LanceDatasetRef]
) -> dict[str, Published | None]:
    """The newest version of each dataset that the event log has, by name; None where it has none.

    Args:
        instance: With the event log.
        owner: The sensor.
        refs: The datasets, in any order.
    """
    if instance.is_ephemeral:
        return last_published_of_all(instance, refs)
    where = blake2b(f"{owner}\n{instance.get_ref()}".encode(), digest_size=16).hexdigest()
    known = _KNOWN.get(where, _Known())
    events, position = read_since(instance, known.position, dg.DagsterEventType.ASSET_MATERIALIZATION)
    published = dict(known.published)
    in_order = sorted(refs, key=lambda ref: ref.name)
    if events is None:
        anew = in_order
    else:
        for event in events.values():
            told = event.asset_materialization
            version = published_by(told)
            # What was reported by hand has no version, and changes nothing.
            if told is not None and version is not None:
                published[told.asset_key] = version
        turn = {ref.name for ref in known.position.share(in_order)}
        anew = [ref for ref in in_order if ref.name in turn or ref.key not in published]
    read = last_published_of_all(instance, anew) if anew else {}
    found = {ref.name: read[ref.name] if ref.name in read else published[ref.key] for ref in refs}
    _KNOWN[where] = _Known(position, {ref.key: found[ref.name] for ref in refs})
    return found
