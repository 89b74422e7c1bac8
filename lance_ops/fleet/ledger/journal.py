"""Journal: a file for each dataset under way, so that no operation is forgotten when somebody dies.

Whoever maintains a dataset writes the intent before and the outcome after, wherever that is; the ledger takes
outcomes over and removes the files. An intent that has no outcome, and whose dataset nobody has a lease on,
was broken off.
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
    """What a file of the journal says.

    Attributes:
        path: The file.
        ended: It is an outcome.
        rows: Operations of one dataset in one run; of an intent, those that were going to be done.
    """

    path: str
    ended: bool
    rows: tuple[OperationRow, ...]


@dataclass(frozen=True, slots=True)
class Journal:
    """Files of a folder; travels to executors.

    Attributes:
        store: Root of the ledger.
    """

    store: Store

    def begin(self, run: str, dataset: str, rows: Sequence[OperationRow]) -> None:
        """Say what is going to be done."""
        self._put(self._path(run, dataset, INTENT), rows)

    def end(self, run: str, dataset: str, rows: Sequence[OperationRow]) -> None:
        """Say what was done."""
        self._put(self._path(run, dataset, OUTCOME), rows)

    def forget(self, run: str, dataset: str) -> None:
        """Remove the intent of what was not done after all."""
        self.store.delete(self._path(run, dataset, INTENT))

    def entries(self) -> Iterator[Entry]:
        """All files, outcomes and intents; those that are being written or removed are left out."""
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
        """Remove files that the ledger has taken over: outcomes after their intents."""
        paths = [path for entry in entries for path in _with_intent(entry)]
        if paths:
            self.store.delete_many(paths)

    def remove_of(self, run: str, datasets: Iterable[str]) -> None:
        """Remove what a run told of datasets, once the ledger has it: outcomes after their intents."""
        paths = [self._path(run, dataset, kind) for dataset in datasets for kind in (INTENT, OUTCOME)]
        if paths:
            self.store.delete_many(paths)

    def _path(self, run: str, dataset: str, kind: str) -> str:
        mark = blake2b(dataset.encode(), digest_size=10).hexdigest()
        return f"{FOLDER}/{run}/{mark}.{kind}"

    def _put(self, path: str, rows: Sequence[OperationRow]) -> None:
        # It has to outlive a process, not a power cut: after one, the history of the dataset tells.
        data = json.dumps([to_short_json(row) for row in rows]).encode()
        self.store.put(path, data, durable="never")


def _with_intent(entry: Entry) -> list[str]:
    stem = entry.path.rpartition(".")[0]
    return [f"{stem}.{INTENT}", entry.path] if entry.ended else [entry.path]


def _rows(values: Any) -> Iterator[OperationRow]:
    for value in values if isinstance(values, list) else ():
        yield from_json(OperationRow, value)
