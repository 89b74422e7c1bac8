"""Run options: what every operation that commits is told besides its own arguments."""

from collections.abc import Mapping
from typing import TypedDict

from lance_ops.maintenance.progress import Progress
from lance_ops.maintenance.runner import Runner
from lance_ops.table.commit.committer import Committer


class RunOptions(TypedDict, total=False):
    """How an operation is run; keyword arguments of every operation that commits, all of them optional.

    Attributes:
        runner: Executes the tasks; threads of this process by default.
        job_key: Names this piece of work: a second call with the same key finds the first one's commit,
            changes nothing and returns its version, with `already_committed` set and 0 `attempts`.
        properties: Kept in the transaction, e.g. the id of the run.
        max_replans: How often to plan again on the head after a conflict with another writer; a delete and a
            write do so 10 times unless told otherwise, all others 5 times.
        progress: Receives events.
        committer: Stores the manifest, where the store alone cannot decide a race.
        storage_options: For the store of the dataset.
    """

    runner: Runner | None
    job_key: str | None
    properties: Mapping[str, str] | None
    max_replans: int
    progress: Progress | None
    committer: Committer | None
    storage_options: Mapping[str, str] | None
