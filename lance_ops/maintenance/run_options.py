"""Run options: common keyword arguments of every operation that commits."""

from collections.abc import Mapping
from typing import TypedDict

from lance_ops.maintenance.progress import Progress
from lance_ops.maintenance.runner import Runner
from lance_ops.table.commit.committer import Committer


class RunOptions(TypedDict, total=False):
    """Optional keyword arguments of every operation that commits.

    Attributes:
        runner: Executes the tasks; threads of this process by default.
        job_key: Job key of this work: a second call with the same key finds the first one's commit,
            changes nothing and returns its version, with `already_committed` set and 0 `attempts`.
        properties: Stored in the transaction, e.g. the id of the run.
        max_replans: Maximum new plans on the head after conflicts with other writers; default 10 for a delete
            and a write, 5 for others.
        progress: Receives progress events.
        committer: Commits the manifest, if the store has no put-if-absent.
        storage_options: Options of the dataset's store.
    """

    runner: Runner | None
    job_key: str | None
    properties: Mapping[str, str] | None
    max_replans: int
    progress: Progress | None
    committer: Committer | None
    storage_options: Mapping[str, str] | None
