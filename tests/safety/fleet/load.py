"""Another writer: appends and deletes rows by the official library, and knows which rows are there."""

import random
import threading
from collections.abc import Sequence
from pathlib import Path

import lance
import pyarrow as pa

_MOST_ROWS = 40


class Load:
    """Writes to datasets in turn, in a thread, until it is stopped.

    Each dataset has a column `id`, in which no value comes twice.

    Args:
        datasets: Their folders; each is made with one row.
        seed: Of what is written.
        pause: Seconds between two commits.
    """

    def __init__(self, datasets: Sequence[Path], seed: int, pause: float) -> None:
        self.ids: dict[Path, set[int]] = {}
        self.commits = self.lost = 0
        self.error: Exception | None = None
        self._datasets, self._pause = list(datasets), pause
        self._chance = random.Random(seed)
        self._next = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        for dataset in datasets:
            self.ids[dataset] = set()
            self._append(dataset)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the commit under way.

        Raises:
            Exception: What ended it before.
        """
        self._stopped.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            while not self._stopped.wait(self._pause):
                dataset = self._chance.choice(self._datasets)
                if self._chance.random() < 0.25:
                    self._delete(dataset)
                else:
                    self._append(dataset)
                self.commits += 1
        except Exception as error:  # noqa: BLE001 - `stop` raises it
            self.error = error

    def _append(self, dataset: Path) -> None:
        new = range(self._next, self._next + self._chance.randint(1, _MOST_ROWS))
        self._next = new.stop
        lance.write_dataset(pa.table({"id": new}), str(dataset), mode="append")
        self.ids[dataset].update(new)

    def _delete(self, dataset: Path) -> None:
        known = sorted(self.ids[dataset])
        gone = self._chance.sample(known, min(len(known), self._chance.randint(1, 10)))
        if not gone:
            return
        try:
            lance.dataset(str(dataset)).delete(f"id IN ({', '.join(map(str, gone))})")
        except OSError as error:
            if "conflict" not in str(error).lower():
                raise
            # Nothing was committed: a compaction was faster.
            self.lost += 1
            return
        self.ids[dataset].difference_update(gone)
