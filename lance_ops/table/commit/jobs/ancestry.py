"""Ancestry of a version: the versions whose effects it contains.

The parent of a version is the one with the number before it; the parent of a restore is the restored version,
so the versions in between are undone. The parent of a version that was cleaned up is unknown, unless the
earlier record of job keys has it (see `earlier_record`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptManifestError, NotFoundError
from lance_ops.pb import transaction_pb2
from lance_ops.storage import Store
from lance_ops.storage.prefetch import has_latency, prefetch
from lance_ops.table.manifest.file.summary import ManifestSummary, read_summary
from lance_ops.table.manifest.listing import ManifestLocation, manifest_path
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.transaction import JOB_KEY, transaction_path

_THREADS = 16
_MOST_AHEAD = 256


class Place(Enum):
    """Position of a commit relative to a version."""

    INSIDE = "inside"
    OUTSIDE = "outside"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Step:
    """What a version records of its own commit.

    Attributes:
        version: Version number.
        file_name: Of its transaction, below `_transactions/`; may be empty.
        uuid: Of its transaction; empty when it names none.
        below: Parent version; None when it is not recorded.
        job_key: Key of its job, if any.
    """

    version: int
    file_name: str
    uuid: str
    below: int | None
    job_key: str | None = None


def step_of(store: Store, manifest: Manifest | ManifestSummary) -> Step:
    """Return the commit that made a manifest; reads the transaction file if it has no copy of it.

    Raises:
        CorruptManifestError: The transaction cannot be read.
    """
    version, name, data = manifest.version, manifest.transaction_file, manifest.transaction
    if data is None and name:
        try:
            data = bytes(memoryview(store.read(transaction_path(name))))
        except NotFoundError:
            data = None
    uuid = name.partition("-")[2].removesuffix(".txn")
    if data is None:
        return Step(version, name, uuid, None)
    try:
        message = transaction_pb2.Transaction.FromString(data)
    except DecodeError as error:
        raise CorruptManifestError(
            f"the transaction of version {version} cannot be read: {error}", path=store.uri
        ) from error
    below = message.restore.version if message.WhichOneof("operation") == "restore" else version - 1
    return Step(
        version,
        name,
        message.uuid or uuid,
        # A crafted restore must not cause an endless loop.
        below if 0 <= below < version else None,
        message.transaction_properties.get(JOB_KEY),
    )


@dataclass(frozen=True, slots=True)
class Lineage:
    """Lineage known from the earlier record of job keys, also of removed versions.

    Attributes:
        known: Closed ranges of versions whose restores and keyed commits are all recorded.
        restores: Version that each restore among them brought back, by the version that it made.
        anchor: The newest version when this was written.
        anchor_file: Its transaction file, which says whether the dataset is still the same.
    """

    known: tuple[tuple[int, int], ...] = ()
    restores: Mapping[int, int] = field(default_factory=dict)
    anchor: int = 0
    anchor_file: str = ""

    @classmethod
    def from_json(cls, value: Any) -> "Lineage":
        """Parse the lineage of a segment of the earlier record."""
        anchor, anchor_file = value["anchor"]
        return cls(
            tuple((int(low), int(high)) for low, high in value["known"]),
            {int(version): int(target) for version, target in value["restores"]},
            int(anchor),
            str(anchor_file),
        )

    def knows(self, version: int) -> bool:
        """Return whether a version is known."""
        return any(low <= version <= high for low, high in self.known)

    def join(self, other: "Lineage") -> "Lineage":
        """Return the union of two lineages."""
        newer = self if self.anchor >= other.anchor else other
        restores = {**self.restores, **other.restores}
        return Lineage((*self.known, *other.known), restores, newer.anchor, newer.anchor_file)


class Ancestry:
    """The lineage of a version, read on demand.

    Args:
        store: Root of the dataset, or of a branch.
        head: The newest version.
        manifest: Its manifest.
        start: The version whose lineage it is; the newest one when None.

    Attributes:
        known: Lineage from the earlier record, also of removed versions.
    """

    def __init__(
        self, store: Store, head: ManifestLocation, manifest: Manifest, start: Manifest | None = None
    ) -> None:
        self.store = store
        self.head = head
        self.manifest = manifest
        self.start = start or manifest
        self.known = Lineage()
        self._steps: dict[int, Step | None] = {}
        self._ahead = 1
        # The part of the lineage already walked, and the commits read so far.
        self._walk: Iterator[int | None] | None = None
        self._lineage: list[int] = []
        self._inside: set[int] = set()
        self._is_lost = False
        self._by_uuid: dict[str, Step] = {}
        self._num_read = 0
        self._gap = 0

    def step(self, version: int) -> Step | None:
        """Return a version up to the head, None if it was removed; versions below it are read ahead."""
        if version not in self._steps:
            wanted = [
                number
                for number in range(version, max(0, version - self._ahead), -1)
                if number not in self._steps and (number == version or not self.known.knows(number))
            ]
            self._ahead = min(2 * self._ahead, _MOST_AHEAD)
            threads = min(_THREADS, len(wanted)) if has_latency(self.store) else 1
            steps = prefetch((partial(self._read, number) for number in wanted), threads)
            self._steps.update(zip(wanted, steps, strict=True))
        return self._steps[version]

    def _read(self, version: int) -> Step | None:
        if version == self.head.version:
            return step_of(self.store, self.manifest)
        path = manifest_path(version, self.head.scheme)
        try:
            summary = read_summary(self.store, ManifestLocation(version, path, scheme=self.head.scheme))
        except NotFoundError:
            return None
        return step_of(self.store, summary)

    def place(self, uuid: str, version: int) -> Place:
        """Return whether a commit is in the lineage.

        Args:
            uuid: Of its transaction.
            version: Version that it made.
        """
        if not self._reaches(version):
            return Place.UNKNOWN
        if version not in self._inside:
            return Place.OUTSIDE
        step = self.step(version)
        return Place.INSIDE if step is None or step.uuid == uuid else Place.OUTSIDE

    def find(self, uuid: str, after: int) -> tuple[Step | None, bool]:
        """Find a commit in the lineage above a version.

        Args:
            uuid: Of its transaction.
            after: The version.

        Returns:
            The commit, if found, and whether all of that lineage is known.
        """
        is_whole = self._reaches(after)
        for version in self._lineage[self._num_read :]:
            if version <= after:
                break
            self._num_read += 1
            # If the earlier record knew the commit, it would have been found there.
            if not self.known.knows(version):
                step = self.step(version)
                if step is None:
                    self._gap = self._gap or version
                else:
                    self._by_uuid[step.uuid] = step
        step = self._by_uuid.get(uuid)
        return (step if step is not None and step.version > after else None), is_whole and self._gap <= after

    def _reaches(self, version: int) -> bool:
        """Walk down to a version; False if the lineage is not known that far."""
        if self._walk is None:
            self._walk = self.walk()
        while not self._is_lost and (not self._lineage or self._lineage[-1] > version):
            below = next(self._walk, 0)
            if below is None:
                self._is_lost = True
            else:
                self._lineage.append(below)
                self._inside.add(below)
        return bool(self._lineage) and self._lineage[-1] <= version

    def walk(self) -> Iterator[int | None]:
        """Yield the version numbers of the lineage, newest first, removed ones included.

        Yields None and ends when the next one is not known.
        """
        version: int | None = self.start.version
        while version is None or version > 0:
            yield version
            if version is None:
                return
            version = self._below(version)

    def _below(self, version: int) -> int | None:
        if self.known.knows(version):
            return self.known.restores.get(version, version - 1)
        step = self.step(version)
        return None if step is None else step.below
