"""Index plan: segments to write for a new index, a refresh, or a rebuild.

Reads metadata, and the start of segments to merge or with a deferred remap.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from lance_ops.errors import InvalidArgumentError, UnreadableIndexError, UnsupportedError, check_type
from lance_ops.index.coverage import coverage
from lance_ops.index.default_name import free_index_name, indexed_field
from lance_ops.index.kind import IndexKind, Parameters
from lance_ops.index.registry import kind_by_name, kind_of, parameters_as_made
from lance_ops.index.upkeep.wear import IndexWear
from lance_ops.index.vector.kind import VectorKind
from lance_ops.maintenance.index.reuse_trim import ReuseTrim, SegmentNeeds
from lance_ops.maintenance.text import share_text, table_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import numbers_of, total_rows
from lance_ops.table.manifest.index_metadata import IndexMetadata

NEW, REPLACED = "new", "replaced"
"""Reasons for a requested segment."""


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """One segment to write.

    Attributes:
        name: Index name.
        kind: Kind by name.
        column: Path of the indexed column.
        fragments: Fragments to read.
        merged: Existing segments to merge.
        removed: Existing segments to replace.
        row_ids: True for stable row ids instead of addresses.
        parameters: Its parameters, see `IndexKind.parameters`.
        reason: Why it is written.
        catches_up: True if it equals the one in `merged` after a remap.
    """

    name: str
    kind: str
    column: str
    fragments: tuple[Fragment, ...]
    merged: tuple[IndexMetadata, ...]
    removed: tuple[IndexMetadata, ...]
    row_ids: bool = False
    parameters: Parameters = field(default_factory=dict)
    reason: str = ""
    catches_up: bool = False

    @property
    def is_asked_for(self) -> bool:
        """True if a user requested this one, not maintenance."""
        return self.reason in (NEW, REPLACED)

    @property
    def rows(self) -> int:
        """Live rows to read from the table."""
        return total_rows(self.fragments)


@dataclass(frozen=True, slots=True)
class SegmentChoice:
    """Choice for an existing segment.

    Attributes:
        index: Name of the index.
        uuid: UUID of the segment.
        action: "keep"; "merge" (into another one); "rewrite" (without deleted rows); "rebuild" (its rows are
            read from the table again); "catch up" (a deferred remap is applied); "skip" (lance_ops does not
            change its index).
        reason: The reason, with numbers.
        rows: Rows in it; None if not measured.
        dead_ratio: Share of deleted ones, 0 to 1; None if not measured.
    """

    index: str
    uuid: UUID
    action: str
    reason: str
    rows: int | None = None
    dead_ratio: float | None = None

    def to_dict(self) -> dict[str, object]:
        """Numbers, names and ids as JSON values."""
        return {
            "index": self.index,
            "segment": str(self.uuid),
            "action": self.action,
            "reason": self.reason,
            "rows": self.rows,
            "dead_ratio": self.dead_ratio,
        }


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Plan of an index operation.

    Attributes:
        uri: The dataset.
        read_version: Version it was planned from.
        segments: Segments to write; empty if there is nothing to do.
        names: Examined indices.
        skipped: Indices that lance_ops does not change, with coverage and reason.
        coverage_before: Share of live rows covered by the indices to write, 0 to 1; by all examined ones if
            there is nothing to write.
        trim: Change of the fragment reuse index; None without a change.
        rebuilt: Indices that are rebuilt without a request, with the reason.
        choices: Choice for each existing segment, with the reason; empty for a new index.
        wear: Measured degradation for these choices.
    """

    uri: str
    read_version: int
    segments: tuple[SegmentPlan, ...]
    names: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    coverage_before: float = 1.0
    trim: ReuseTrim | None = None
    rebuilt: tuple[str, ...] = ()
    choices: tuple[SegmentChoice, ...] = ()
    wear: tuple[IndexWear, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Numbers, names and ids as JSON values."""
        return {
            "operation": "index",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.read_version,
            "coverage_before": self.coverage_before,
            "segments": [
                {
                    "index": segment.name,
                    "kind": segment.kind,
                    "column": segment.column,
                    "fragments": numbers_of(segment.fragments).ids.tolist(),
                    "rows": segment.rows,
                    "segments_merged": [str(merged.uuid) for merged in segment.merged],
                    "segments_removed": [str(removed.uuid) for removed in segment.removed],
                    "reason": segment.reason,
                }
                for segment in self.segments
            ],
            "skipped": list(self.skipped),
            "rebuilt": list(self.rebuilt),
            "choices": [choice.to_dict() for choice in self.choices],
            "wear": [item.to_dict() for item in self.wear],
            "compactions_caught_up": 0 if self.trim is None else self.trim.dropped,
        }

    def __str__(self) -> str:
        notes = [f"skipped: {line}" for line in self.skipped]
        notes += [f"rebuilt: {line}" for line in self.rebuilt]
        if self.trim is not None:
            notes.append(str(self.trim))
        notes += [line for item in self.wear for line in item.lines()]
        if self.choices:
            notes += ["", self._choices_text()]
        if not self.segments:
            what = "nothing to do" if self.trim is None else "no segments to write"
            coverage_text = f"coverage {share_text(self.coverage_before)}"
            return "\n".join([f"index: {what} at version {self.read_version}, {coverage_text}", *notes])
        rows = [
            (
                segment.name,
                segment.kind,
                segment.column,
                f"{len(segment.fragments):,}",
                f"{segment.rows:,}",
                str(len(segment.merged)),
                segment.reason,
            )
            for segment in self.segments
        ]
        header = (
            "index",
            "kind",
            "column",
            "fragments to read",
            "rows to read",
            "segments merged",
            "because",
        )
        return "\n".join([f"index at version {self.read_version}:", table_text(header, rows), *notes])

    def _choices_text(self) -> str:
        rows = [(choice.index, str(choice.uuid)[:8], choice.action, choice.reason) for choice in self.choices]
        return table_text(("index", "segment there", "action", "because"), rows)


def plan_create_index(
    dataset: Dataset,
    column: str,
    kind: str = "BTREE",
    *,
    name: str | None = None,
    replace: bool = False,
    parameters: Parameters | None = None,
    train: bool = True,
) -> IndexPlan:
    """Plan a new index over all fragments, or over none yet.

    Args:
        dataset: Version to plan from.
        column: Path of the column.
        kind: Kind of the index, ignoring case.
        name: Its name; `{column}_idx` by default, with a number if an index of another kind has that name.
        replace: Rebuild an index with this name.
        parameters: Parameters of the kind.
        train: Read the rows. Otherwise the index has no coverage before it is refreshed.

    Raises:
        InvalidArgumentError: the column or kind does not exist, the kind does not support the column or a
            parameter, or the name is taken.
        UnsupportedError: The kind is trained on rows, and train is False.
    """
    chosen = kind_by_name(kind)
    indexed = indexed_field(dataset, column)
    chosen.check_new(indexed)
    checked = chosen.parameters(indexed, parameters or {})
    if not train and isinstance(chosen, VectorKind):
        raise UnsupportedError(
            f"an index of kind {chosen.name} must be trained on rows",
            path=dataset.uri,
            field="train",
            hint="create it after rows are added",
        )
    if name is not None:
        check_type(name, str, "the name of an index", field="name")
    name = name or free_index_name(dataset, column, chosen.type_url.rsplit(".", 1)[-1].lower())
    column = dataset.lance_schema.path(indexed.id)
    check_index_name(name)
    old = tuple(segment for segment in dataset.indices if segment.name == name)
    if old and not replace:
        raise InvalidArgumentError(
            f"index {name!r} already exists",
            path=dataset.uri,
            field="name",
            hint="pass replace=True to rebuild it, or refresh it with optimize_indices()",
        )
    if not parameters:
        _check_replaced(dataset, chosen, old)
    if old and old[0].fields != (indexed.id,):
        raise InvalidArgumentError(
            f"index {name!r} covers another column",
            path=dataset.uri,
            field="name",
            hint="choose another name",
        )
    segment = SegmentPlan(
        name,
        chosen.name,
        column,
        tuple(dataset.fragments) if train else (),
        (),
        old,
        dataset.manifest.uses_stable_row_ids,
        checked,
        REPLACED if old else NEW,
    )
    return IndexPlan(
        dataset.uri,
        dataset.version,
        (segment,),
        (name,),
        coverage_before=mean_coverage(dataset, (name,)),
        trim=SegmentNeeds(dataset).trim(old),
    )


def _check_replaced(dataset: Dataset, chosen: IndexKind, old: Sequence[IndexMetadata]) -> None:
    """Reject a replacement with default parameters of an index that may have others.

    Raises:
        UnreadableIndexError: The parameters of the old one cannot be read or used here.
    """
    type_name = chosen.type_url.rsplit(".", 1)[-1].lower()
    alike = [item for item in old if item.kind == type_name and kind_of(item) in (chosen, None)]
    if not alike or type(chosen).parameters_of is IndexKind.parameters_of:
        return
    try:
        parameters_as_made(dataset, alike)
    except UnreadableIndexError as error:
        raise UnreadableIndexError(
            f"{error.message}; its replacement would have default parameters",
            path=dataset.uri,
            field="parameters",
            hint="set its parameters, or drop it first",
        ) from error.__cause__


def check_index_name(name: str) -> None:
    """Check the name of an index.

    Raises:
        InvalidArgumentError: it is not a name, or reserved.
    """
    check_type(name, str, "the name of an index", field="name")
    if not name:
        raise InvalidArgumentError("name of the index must not be empty", field="name")
    if name.startswith("__lance_"):
        raise InvalidArgumentError(f"index name {name!r} is reserved by the format", field="name")


def mean_coverage(dataset: Dataset, names: Sequence[str]) -> float:
    """Return the mean share of live rows covered by the named indices; missing ones cover none."""
    if not names:
        return 1.0
    by_name = {item.name: item.ratio for item in coverage(dataset)}
    return sum(by_name.get(name, 0.0) for name in names) / len(names)
