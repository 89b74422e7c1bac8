"""Journal: a file for each dataset in progress, so that operations of killed processes are recorded.

A maintenance process writes the intent before and the outcome after, on any machine; the ledger imports
outcomes and removes the files. An intent without an outcome, whose dataset has no lease, was interrupted.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from lance_ops.errors import FileMissingError
from lance_ops.fleet.ledger.rows import OperationRow, from_json, to_short_json
from lance_ops.storage import Store

FOLDER = "journal"
INTENT, OUTCOME = "begun", "ended"


@dataclass(frozen=True, slots=True)
class Entry:
    """Contents of a journal file.

    Attributes:
        path: The file.
        ended: True for an outcome.
        rows: Operations of one dataset in one run; for an intent, the planned ones.
    """

    path: str
    ended: bool
    rows: tuple[OperationRow, ...]


@dataclass(frozen=True, slots=True)
class Journal:
    """Files of a folder; serializable for executors.

    Attributes:
        store: Root of the ledger.
    """

    store: Store

    def begin(self, run: str, dataset: str, rows: Sequence[OperationRow]) -> None:
        """Write the intent of operations."""
        self._put(self._path(run, dataset, INTENT), rows)

    def end(self, run: str, dataset: str, rows: Sequence[OperationRow]) -> None:
        """Write the outcome of operations."""
        self._put(self._path(run, dataset, OUTCOME), rows)

    def forget(self, run: str, dataset: str) -> None:
        """Remove the intent of operations that were not run."""
        self.store.delete(self._path(run, dataset, INTENT))

    def entries(self) -> Iterator[Entry]:
        """Return all files, outcomes and intents, except files in progress."""
        for info in self.store.list(FOLDER):
            kind = info.path.rpartition(".")[2]
            if kind not in (INTENT, OUTCOME):
                continue
            try:
                values = json.loads(bytes(self.store.read(info.path)))
            except (FileMissingError, ValueError):
                continue
            yield Entry(info.path, kind == OUTCOME, tuple(_rows(values)))

    def remove(self, entries: Iterable[Entry]) -> None:
        """Remove imported files: outcomes after their intents."""
        paths = [path for entry in entries for path in _with_intent(entry)]
        if paths:
            self.store.delete_many(paths)

    def remove_of(self, run: str, datasets: Iterable[str]) -> None:
        """Remove the files of a run for some datasets after the import: outcomes after their intents."""
        paths = [self._path(run, dataset, kind) for dataset in datasets for kind in (INTENT, OUTCOME)]
        if paths:
            self.store.delete_many(paths)

    def _path(self, run: str, dataset: str, kind: str) -> str:
        mark = blake2b(dataset.encode(), digest_size=10).hexdigest()
        return f"{FOLDER}/{run}/{mark}.{kind}"

    def _put(self, path: str, rows: Sequence[OperationRow]) -> None:
        # It must survive a killed process, not a power failure: after that, the history of the dataset is
        # used.
        data = json.dumps([to_short_json(row) for row in rows]).encode()
        self.store.put(path, data, durable="never")


def _with_intent(entry: Entry) -> list[str]:
    stem = entry.path.rpartition(".")[0]
    return [f"{stem}.{INTENT}", entry.path] if entry.ended else [entry.path]


def _rows(values: Any) -> Iterator[OperationRow]:
    for value in values if isinstance(values, list) else ():
        yield from_json(OperationRow, value)
