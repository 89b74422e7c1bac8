"""Results: what an operation did, in numbers and ids only, ready for logs, JSON and the Dagster UI."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import ClassVar

from lance_ops.maintenance.text import bytes_text, count_text, ids_text
from lance_ops.table.by_name import ByName


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(ByName, ABC):
    """Base of all results of operations and checks.

    Attributes:
        uri: The dataset.
        version: The version of the result; that after the operation.
        seconds: Wall-clock time from the call to the result.
    """

    uri: str
    version: int
    seconds: float

    @property
    @abstractmethod
    def operation(self) -> str:
        """Name of what was called, for logs and JSON."""

    def to_dict(self) -> dict[str, object]:
        """All fields and the operation's name as JSON values."""
        values: dict[str, object] = {"operation": self.operation}
        for item in fields(self):
            value = getattr(self, item.name)
            values[item.name] = list(value) if isinstance(value, tuple) else value
        return values

    @abstractmethod
    def summary(self) -> str:
        """The result in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult(Result):
    """Base of the results of operations that change a dataset.

    Attributes:
        uri: The dataset.
        read_version: Version of the committed plan; None without a dataset.
        version: Version after the operation; equals `read_version` if there was nothing to do.
        seconds: Wall-clock time from the call to the result.
        attempts: Manifests built for the commit, over all plans.
        conflicts: One line for each commit of another writer that led to a rebase or a new plan.
        rebased_over: Those of them with a rebase only.
        already_committed: An earlier run with the same job key made `version`; this call changed nothing.
    """

    read_version: int | None
    attempts: int = 1
    conflicts: tuple[str, ...] = ()
    rebased_over: tuple[str, ...] = ()
    already_committed: bool = False

    @property
    def lost_to(self) -> tuple[str, ...]:
        """Conflicts that required a new plan, one line each."""
        return tuple(line for line in self.conflicts if line not in self.rebased_over)

    @property
    def changed(self) -> bool:
        """True if this call made a new version."""
        return self.version != self.read_version and not self.already_committed

    def summary(self) -> str:
        """Return the result in one line, without versions and time; subclasses use their own terms."""
        return "done" if self.changed else "nothing to do"

    def __str__(self) -> str:
        if self.already_committed:
            return f"{self.operation}: this job was already committed as version {self.version}"
        versions = (
            f"version {self.version}"
            if self.read_version in (None, self.version)
            else f"version {self.read_version} -> {self.version}"
        )
        lines = [f"{self.operation}: {self.summary()} ({versions}, {self.seconds:.2f} s)"]
        lines += [f"  conflict met: {conflict}" for conflict in self.lost_to]
        lines += [f"  carried over: {conflict}" for conflict in self.rebased_over]
        lines += [f"  {remark}" for remark in self.remarks()]
        return "\n".join(lines)

    def remarks(self) -> tuple[str, ...]:
        """Return what was left unchanged and why, a line each."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult(OperationResult):
    """Result of `write_dataset`, `append` and `replace_where`.

    Attributes:
        mode: "create", "append", "overwrite" or "replace_where": what was committed in the end; "merge" for
            an ingest of Dagster that merges.
        rows_added: Rows written and committed.
        rows_deleted: Rows that the predicate of a replacement selected.
        fragments_added: Fragments of the commit.
        fragments_updated: Fragments of which a replacement deleted some rows.
        fragments_removed: Fragments that an overwrite replaced, or a replacement emptied.
        bytes_written: Size of the data files.
        transaction_uuid: Of the commit; empty when there was none.
    """

    operation: ClassVar[str] = "append"

    mode: str = "append"
    rows_added: int = 0
    rows_deleted: int = 0
    fragments_added: int = 0
    fragments_updated: int = 0
    fragments_removed: int = 0
    bytes_written: int = 0
    transaction_uuid: str = ""

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        verb = {
            "create": "created with",
            "append": "added",
            "overwrite": "replaced all by",
            "replace_where": f"replaced {count_text(self.rows_deleted, 'row')} by",
            "merge": f"merged by key, in the place of {count_text(self.rows_deleted, 'row')},",
        }[self.mode]
        return (
            f"{verb} {count_text(self.rows_added, 'row')} in {count_text(self.fragments_added, 'fragment')}, "
            f"{bytes_text(self.bytes_written)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResult(OperationResult):
    """Result of `delete`.

    Attributes:
        predicate: As the caller wrote it.
        rows_deleted: Rows that this operation marked deleted.
        fragments_updated: Fragments with a new deletion file.
        fragments_removed: Fragments that were emptied.
        bytes_written: Size of the deletion files.
        bytes_removed: Size of the data files of emptied fragments; they go from disk with the next cleanup.
    """

    operation: ClassVar[str] = "delete"
    other_names: ClassVar[Mapping[str, str]] = {"num_deleted_rows": "rows_deleted"}

    predicate: str = ""
    rows_deleted: int = 0
    fragments_updated: int = 0
    fragments_removed: int = 0
    bytes_written: int = 0
    bytes_removed: int = 0

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        if not self.rows_deleted:
            return "no rows match"
        return (
            f"deleted {count_text(self.rows_deleted, 'row')}: "
            f"{count_text(self.fragments_updated, 'fragment')} updated, {self.fragments_removed:,} removed"
        )


@dataclass(frozen=True, slots=True)
class GroupFailure:
    """A group of fragments that was not rewritten, because its task failed.

    Attributes:
        fragments: Ids of the fragments.
        error: Name of the type of the error, see `lance_ops.errors`.
        message: What it says.
    """

    fragments: tuple[int, ...]
    error: str
    message: str

    def __str__(self) -> str:
        return f"fragments {ids_text(self.fragments)}: {self.error}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedSegment:
    """Remap of an index segment after a compaction.

    Attributes:
        index: Name of the index.
        segment: Id of the replaced segment.
        kind: As in the type URL.
        route: "remap", "build anew" or "look at the new rows".
        bytes_written: Size of the new segment.
        seconds: Duration; segments are written concurrently.
        seconds_planned: Duration estimated by the cost model.
    """

    index: str
    segment: str
    kind: str | None
    route: str
    bytes_written: int
    seconds: float
    seconds_planned: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactColumnsResult(OperationResult):
    """Result of `compact_columns`.

    Attributes:
        fragments: Fragments with other data files than before; their ids and rows are the same.
        files_removed: Data files replaced; the next cleanup removes them.
        files_added: Data files that replace them.
        bytes_written: Size of the new data files.
        bytes_removed: Recorded size of the replaced files.
        bytes_freed: Bytes of dropped columns in the replaced files: the difference of the two.
        notes: Why files stayed as they are.
    """

    operation: ClassVar[str] = "compact_columns"

    fragments: int = 0
    files_removed: int = 0
    files_added: int = 0
    bytes_written: int = 0
    bytes_removed: int = 0
    bytes_freed: int = 0
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        if not self.fragments:
            return "nothing to do"
        before = f"{count_text(self.files_removed, 'data file')} of {count_text(self.fragments, 'fragment')}"
        return (
            f"{before} became {self.files_added:,}, {bytes_text(self.bytes_written)} copied, "
            f"{bytes_text(self.bytes_freed)} of dropped columns freed by the next cleanup"
        )

    def remarks(self) -> tuple[str, ...]:
        """See `OperationResult.remarks`."""
        return self.notes


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult(OperationResult):
    """Result of `compact`.

    Attributes:
        groups: Rewritten groups of fragments.
        groups_copied: Those of them whose encoded pages were copied.
        groups_resumed: Those finished by an earlier or concurrent run of the job.
        rows_written: Rows in the new fragments; equals the live rows of the old ones.
        rows_purged: Deleted rows that no longer take space in any fragment.
        fragments_removed: Fragments replaced.
        fragments_added: Fragments that replace them.
        bytes_written: Size of the new data files.
        bytes_removed: Recorded size of the data files replaced; the next cleanup removes them.
        indices_remapped: Remapped index segments.
        remaps_deferred: Index segments with a deferred remap.
        index_bytes_written: Size of the remapped or rebuilt index segments; the plan estimates it.
        index_seconds: Duration of that, part of `seconds`.
        index_segments: The remap of each of them.
        rows_indexed_before: Live rows that each index covered before, by its name.
        rows_indexed_after: The same afterwards.
        indices_short: Full-text and vector indices with stable row ids of rows that it removed: pylance
            returns too few rows from these until `optimize_indices`.
        commits: Rewrite commits made (more than one only with `commit_every`).
        seconds_planned: Planned `seconds`, over all plans.
        task_seconds: Total duration of the tasks of the groups.
        task_seconds_planned: Planned total, for tasks without concurrent ones.
        bytes_written_planned: Planned `bytes_written`.
        estimate_error: Relative error of the planned `seconds`; None if nothing was rewritten.
        notes: Why fragments were not rewritten; not empty if nothing was rewritten.
        skipped: Unreadable indices: rewritten fragments left their coverage.
        failed: Groups whose tasks failed, each with its error; they are unchanged. With a job key, the next
            run of the job retries them.
    """

    operation: ClassVar[str] = "compact"

    groups: int = 0
    groups_copied: int = 0
    groups_resumed: int = 0
    rows_written: int = 0
    rows_purged: int = 0
    fragments_removed: int = 0
    fragments_added: int = 0
    bytes_written: int = 0
    bytes_removed: int = 0
    indices_remapped: int = 0
    remaps_deferred: int = 0
    index_bytes_written: int = 0
    index_seconds: float = 0.0
    index_segments: tuple[FollowedSegment, ...] = ()
    rows_indexed_before: Mapping[str, int] = field(default_factory=dict)
    rows_indexed_after: Mapping[str, int] = field(default_factory=dict)
    indices_short: tuple[str, ...] = ()
    commits: int = 0
    seconds_planned: float = 0.0
    task_seconds: float = 0.0
    task_seconds_planned: float = 0.0
    bytes_written_planned: int = 0
    estimate_error: float | None = None
    notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failed: tuple[GroupFailure, ...] = ()

    @property
    def complete(self) -> bool:
        """True if nothing failed."""
        return not self.failed

    def to_dict(self) -> dict[str, object]:
        """See `Result.to_dict`."""
        # Named: the decorator of a class with slots makes another class, which `super()` does not know.
        values = OperationResult.to_dict(self)
        failed = [asdict(item) | {"fragments": list(item.fragments)} for item in self.failed]
        return {
            **values,
            "index_segments": [asdict(item) for item in self.index_segments],
            "failed": failed,
        }

    def remarks(self) -> tuple[str, ...]:
        """See `OperationResult.remarks`."""
        return (
            *(f"note: {line}" for line in self.notes),
            *(
                f"note: index {name!r} has removed rows: pylance returns too few rows until `lance-ops "
                "index URI`"
                for name in self.indices_short
            ),
            *(f"skipped: {line}" for line in self.skipped),
            *(f"failed: {failure}" for failure in self.failed),
        )

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        if not self.groups:
            return "nothing to compact"
        parts = [
            f"{count_text(self.fragments_removed, 'fragment')} -> {self.fragments_added:,}",
            f"{count_text(self.rows_written, 'row')}",
            f"{bytes_text(self.bytes_removed)} -> {bytes_text(self.bytes_written)}",
        ]
        if self.groups_resumed:
            parts.append(f"{count_text(self.groups_resumed, 'group')} resumed from an earlier run")
        if self.groups_copied:
            parts.append(f"pages copied in {self.groups_copied:,} of {count_text(self.groups, 'group')}")
        if self.rows_purged:
            parts.append(f"{count_text(self.rows_purged, 'deleted row')} purged")
        if self.indices_remapped:
            parts.append(f"{count_text(self.indices_remapped, 'index segment')} remapped")
        if self.remaps_deferred:
            parts.append(f"the remap of {count_text(self.remaps_deferred, 'index segment')} deferred")
        return ", ".join(parts)
