"""Files of runs that died, of jobs that another run has finished.

The names of the files that an append, a replacement or an index build writes under a job key begin with a
digest of the key, as the names of its transactions do. A job commits at most once. So when a commit of the
job is in the lineage of the newest version, a file of the job that no version uses belongs to a run that can
never commit it, and need not wait for the end of the grace period. Never, because

- a run that looks at its job now finds it done;
- a run that began before that commit meets it among the versions since its read version. Should a restore
  have undone the commit by then, it meets that as well, and these operations cannot be carried over one;
- a run that commits the same files on a newer version than planned, where the job is undone, looks for
  announced removals and for its files first (`maintenance.write`). They go only if the newest version is
  still the one that has the job in its lineage after their removal was announced, so before such a restore:
  then the run finds the announcement, or its files gone.
"""

from lance_ops.errors import FormatError
from lance_ops.storage import Store
from lance_ops.table.manifest.file import ManifestSummary
from lance_ops.table.transaction.operations import Restore
from lance_ops.table.transaction.transaction import decode_transaction, job_uuid_prefix

_KINDS = frozenset({"data", "blob", "index"})


class FinishedJobs:
    """Collects the jobs in the lineage of the newest version, as far down as no version is missing.

    Args:
        store: Root of the dataset.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._prefixes: set[str] = set()
        self._next: int | None = None
        self._ended = False

    def add(self, version: ManifestSummary) -> None:
        """Look at a version of the history; they come from the newest to the oldest."""
        if self._next is None:
            self._next = version.version
        if self._ended or version.version > self._next:
            return
        if version.version < self._next or version.transaction is None:
            # What is missing may have been a restore of something older still.
            self._ended = True
            return
        path = f"{self._store.uri} (version {version.version}, inline transaction)"
        try:
            transaction = decode_transaction(version.transaction, path=path)
        except FormatError:
            self._ended = True
            return
        if transaction.job_key is not None:
            self._prefixes.add(job_uuid_prefix(transaction.job_key))
        operation = transaction.operation
        self._next = operation.version if isinstance(operation, Restore) else version.version - 1

    @property
    def any_found(self) -> bool:
        """Whether any commit of a job was among the versions."""
        return bool(self._prefixes)

    def wrote(self, path: str, kind: str) -> bool:
        """Whether the name of a file says that it was written for one of these jobs."""
        if kind not in _KINDS:
            return False
        name = path.split("/")[1]
        return any(name.startswith(prefix) for prefix in self._prefixes)
