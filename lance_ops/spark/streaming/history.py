"""History of a stream: version after version from an offset on, without gaps."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lance_ops.errors import StreamGapError, VersionNotFoundError
from lance_ops.spark.streaming.deltas import Delta, added_rows, changed_rows, commit_of, snapshot_delta
from lance_ops.spark.streaming.offset import Offset
from lance_ops.spark.streaming.options import SourceOptions
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.data_version import data_transaction
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import list_versions

_KEPT = 8


@dataclass(frozen=True, slots=True)
class Step:
    """One version read by a stream.

    Attributes:
        offset: Start of the version.
        delta: Its rows.
        after: Start of the next version.
    """

    offset: Offset
    delta: Delta
    after: Offset


@dataclass(slots=True)
class History:
    """The versions of a dataset for a stream.

    Attributes:
        dataset: Any version.
        options: Options of the source.
    """

    dataset: Dataset
    options: SourceOptions
    _steps: dict[Offset, Step] = field(default_factory=dict)

    def latest(self) -> Dataset:
        """The newest version."""
        self.dataset = self.dataset.latest()
        return self.dataset

    def first(self) -> Offset:
        """Return the start of a new query.

        Raises:
            VersionNotFoundError: The version or tag does not exist.
            StreamGapError: Versions since then were removed.
        """
        options, head = self.options, self.latest()
        if options.starting_tag is not None:
            tagged = head.checkout_version(options.starting_tag)
            return self._changes_from(tagged.version)
        if options.starting_timestamp is not None:
            return self._changes_from(self._version_since(options.starting_timestamp))
        if options.starting_version == "latest":
            return self._changes_from(head.version + 1)
        if options.starting_version is not None:
            if options.starting_version > head.version + 1:
                raise VersionNotFoundError(
                    f"version {options.starting_version} does not exist yet: the newest is {head.version}",
                    path=head.uri,
                    field="startingVersion",
                )
            return self._changes_from(options.starting_version)
        return Offset(head.version, snapshot=True, data=_data(head))

    def steps(self, start: Offset, until: int) -> Iterator[Step]:
        """Yield the versions from an offset up to one, including those without rows.

        Raises:
            StreamGapError: Versions not read yet were removed.
            StreamChangeError: See `added_rows`.
        """
        offset = start
        while offset.version <= until or offset.snapshot:
            step = self._step(offset)
            yield step
            offset = step.after

    def end_of(self, offset: Offset) -> Offset:
        """Return the offset after a check of its history.

        Raises:
            StreamGapError: The offset belongs to another dataset.
        """
        head = self.latest()
        if offset.version > head.version + 1:
            raise self._recreated_error(offset, f"the newest version is {head.version}")
        return offset

    def _step(self, offset: Offset) -> Step:
        whole = Offset(offset.version, 0, offset.snapshot, offset.data)
        step = self._steps.get(whole)
        if step is None:
            step = self._snapshot_step(whole) if offset.snapshot else self._commit_step(whole)
            while len(self._steps) >= _KEPT:
                del self._steps[next(iter(self._steps))]
            self._steps[whole] = step
        return step

    def _snapshot_step(self, offset: Offset) -> Step:
        dataset = self._find(offset.version)
        if dataset is None:
            raise self._gap(offset, offset.version)
        if _data(dataset) != offset.data:
            raise self._recreated_error(offset, f"version {offset.version} has other rows")
        return Step(offset, snapshot_delta(dataset), Offset(offset.version + 1, data=offset.data))

    def _commit_step(self, offset: Offset) -> Step:
        version = offset.version
        new = self._find(version)
        if new is None:
            return self._skip_gap(offset)
        data = _data(new)
        after = Offset(version + 1, data=data)
        if offset.data and data == offset.data:
            return Step(offset, Delta((), commit_of(new)), after)
        old = self._find(version - 1) if version > 1 else None
        if old is not None and offset.data and _data(old) != offset.data:
            raise self._recreated_error(offset, f"version {version - 1} has other rows")
        if version > 1 and old is None and not self._is_append(new):
            raise self._gap(offset, version - 1)
        if version > 1 and old is not None and data == _data(old):
            return Step(offset, Delta((), commit_of(new)), after)
        if old is None and version == 1:
            delta = snapshot_delta(new)
        elif self.options.mode == "append" or old is None:
            delta = added_rows(old, new, skip_changes=self.options.skip_change_commits)
        else:
            delta = changed_rows(old, new)
        return Step(offset, delta, after)

    def _skip_gap(self, offset: Offset) -> Step:
        """Skip removed versions if it is certain that they changed no rows."""
        there = [
            found.version for found in list_versions(self.dataset.store) if found.version > offset.version
        ]
        next_there = min(there, default=None)
        found = None if next_there is None else self._find(next_there)
        if found is None or not offset.data or _data(found) != offset.data:
            raise self._gap(offset, offset.version)
        return Step(offset, Delta((), commit_of(found)), Offset(found.version + 1, data=offset.data))

    def _changes_from(self, version: int) -> Offset:
        before = self._find(version - 1) if version > 1 else None
        if before is None and version > 1 and self._find(version) is None:
            raise self._gap(Offset(version), version)
        return Offset(version, data="" if before is None else _data(before))

    def _version_since(self, moment: datetime) -> int:
        """Return the first version made at a time or later."""
        limit = moment.astimezone(UTC)
        locations = list_versions(self.dataset.store)
        first = locations[0].version
        # One by one from the newest: streams usually start near it.
        for location in reversed(locations):
            if read_summary(self.dataset.store, location).timestamp < limit:
                return location.version + 1
        if first > 1:
            raise self._gap(Offset(first - 1), first - 1)
        return first

    def _find(self, version: int) -> Dataset | None:
        if version == self.dataset.version:
            return self.dataset
        try:
            return self.dataset.checkout_version(version)
        except VersionNotFoundError:
            return None

    def _is_append(self, dataset: Dataset) -> bool:
        return dataset.read_transaction().operation.name == "Append"

    def _gap(self, offset: Offset, missing: int) -> StreamGapError:
        oldest = min((found.version for found in list_versions(self.dataset.store)), default=0)
        return StreamGapError(
            f"version {missing} was removed before this stream had read it (it is at version "
            f"{offset.version}, the oldest remaining one is {oldest})",
            path=self.dataset.uri,
            field="startingVersion",
            hint="the stream may lose rows: start over with a new checkpoint, which reads the whole "
            "dataset first, or with startingVersion if you know what is missing; and keep versions "
            "longer than a query may be down (older_than of cleanup, or a tag)",
        )

    def _recreated_error(self, offset: Offset, why: str) -> StreamGapError:
        return StreamGapError(
            f"the history differs from the one that this stream has read up to version {offset.version}: "
            f"{why}; the dataset was recreated",
            path=self.dataset.uri,
            hint="start over with a new checkpoint",
        )


def _data(dataset: Dataset) -> str:
    return data_transaction(dataset.store, dataset.manifest)
