"""Ancestry of a version: the versions whose effects it has.

Below a version lies the one with the number before it; below a restore, the version that it brought back, so
that what came in between is undone. Versions that were cleaned away are passed on the word of the record of
job keys (see `job_record`); where nobody noted them, nothing below is certain.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import partial

from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptManifestError, NotFoundError
from lance_ops.pb import transaction_pb2
from lance_ops.storage import Store
from lance_ops.storage.prefetch import has_latency, prefetch
from lance_ops.table.commit.jobs.job_record import JobNote
from lance_ops.table.commit.jobs.job_segments import Lineage
from lance_ops.table.manifest.file.summary import ManifestSummary, read_summary
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.naming import manifest_path
from lance_ops.table.transaction.transaction import JOB_KEY, transaction_path

_THREADS = 16
_AT_ONCE = 256


class Place(Enum):
    """Where a commit is, seen from a version."""

    INSIDE = "inside"
    OUTSIDE = "outside"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Step:
    """What a version says of its own commit.

    Attributes:
        version: Version number.
        moment: When it was made; UTC.
        file_name: Of its transaction, below `_transactions/`; may be empty.
        uuid: Of its transaction; empty when it names none.
        below: The version that its effects were added to; None when it does not tell.
        restores: Whether it brought `below` back.
        job_key: Key of the job behind it, if any.
    """

    version: int
    moment: datetime
    file_name: str
    uuid: str
    below: int | None
    restores: bool = False
    job_key: str | None = None


def step_of(store: Store, manifest: Manifest | ManifestSummary) -> Step:
    """What a manifest says of its own commit; reads the transaction file when the manifest has it not inside.

    Raises:
        CorruptManifestError: The transaction cannot be read.
    """
    version, moment, name = manifest.version, manifest.timestamp, manifest.transaction_file
    data = manifest.transaction
    if data is None and name:
        try:
            data = bytes(memoryview(store.read(transaction_path(name))))
        except NotFoundError:
            data = None
    uuid = name.partition("-")[2].removesuffix(".txn")
    if data is None:
        return Step(version, moment, name, uuid, None)
    try:
        message = transaction_pb2.Transaction.FromString(data)
    except DecodeError as error:
        raise CorruptManifestError(
            f"the transaction of version {version} cannot be read: {error}", path=store.uri
        ) from error
    restores = message.WhichOneof("operation") == "restore"
    below = message.restore.version if restores else version - 1
    return Step(
        version,
        moment,
        name,
        message.uuid or uuid,
        # A crafted restore must not send us in circles.
        below if 0 <= below < version else None,
        restores,
        message.transaction_properties.get(JOB_KEY),
    )


@dataclass(slots=True)
class Ancestry:
    """The lineage of a version, read as far as it is asked for.

    Attributes:
        store: Root of the dataset, or of a branch.
        head: Where the version lies.
        manifest: The version.
        known: What the record says of versions, also of removed ones.
        steps: Versions that were read; None for one that is gone.
    """

    store: Store
    head: ManifestLocation
    manifest: Manifest
    known: Lineage = field(default_factory=Lineage)
    steps: dict[int, Step | None] = field(default_factory=dict)
    _ahead: int = 1

    def step(self, version: int) -> Step | None:
        """A version up to the head, None when it is gone; those below it are read along."""
        if version not in self.steps:
            wanted = [
                number
                for number in range(version, max(0, version - self._ahead), -1)
                if number not in self.steps and (number == version or not self.known.knows(number))
            ]
            self._ahead = min(2 * self._ahead, _AT_ONCE)
            threads = min(_THREADS, len(wanted)) if has_latency(self.store) else 1
            steps = prefetch((partial(self._read, number) for number in wanted), threads)
            self.steps.update(zip(wanted, steps, strict=True))
        return self.steps[version]

    def _read(self, version: int) -> Step | None:
        if version == self.head.version:
            return step_of(self.store, self.manifest)
        path = manifest_path(version, self.head.scheme)
        try:
            summary = read_summary(self.store, ManifestLocation(version, path, scheme=self.head.scheme))
        except NotFoundError:
            return None
        return step_of(self.store, summary)

    def place(self, note: JobNote) -> Place:
        """Say whether a commit, at the version that its note tells, is in the lineage."""
        for version in self.walk():
            if version is None:
                return Place.UNKNOWN
            if version < note.version:
                return Place.OUTSIDE
            if version == note.version:
                step = self.step(version)
                return Place.INSIDE if step is None or step.uuid == note.uuid else Place.OUTSIDE
        return Place.OUTSIDE

    def walk(self) -> Iterator[int | None]:
        """Numbers of the versions of the lineage, newest first, removed ones included.

        Yields None and ends where the number of the next one is not known.
        """
        version: int | None = self.head.version
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

    def find(self, uuid: str, after: int) -> Step | None:
        """The version above `after` that a transaction made, in the lineage or not, if it is still there."""
        for version in range(self.head.version, after, -1):
            # Had it been recorded, the record would have told.
            step = None if self.known.knows(version) else self.step(version)
            if step is not None and step.uuid == uuid:
                return step
        return None

    def all_known(self, after: int) -> bool:
        """Whether every version above `after` was read or recorded."""
        return all(
            self.known.knows(version) or self.step(version) is not None
            for version in range(self.head.version, after, -1)
        )
