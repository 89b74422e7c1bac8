"""Index plan: which segments to write for a new index, a refresh, or a rebuild.

Reads metadata, and the beginning of segments that are to be merged or that may wait for a remap.
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
from lance_ops.table.manifest.index_metadata import IndexMetadata

NEW, REPLACED = "new", "replaced"
"""Reasons for a segment that a user asks for."""


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """One segment to write.

    Attributes:
        name: Index name.
        kind: Kind by name.
        column: Path of the indexed column.
        fragments: Fragments to read.
        merged: Existing segments that go into the new one.
        removed: Existing segments that the new one replaces.
        row_ids: Whether it holds stable row ids and not addresses.
        parameters: How it is made, see `IndexKind.parameters`.
        reason: Why it is written.
        catches_up: Whether it is the one of `merged` as it is, but for where its rows lie now.
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
        """Whether a user asked for this one, and not for upkeep."""
        return self.reason in (NEW, REPLACED)

    @property
    def rows(self) -> int:
        """Live rows to read from the table."""
        return sum(fragment.num_rows for fragment in self.fragments)


@dataclass(frozen=True, slots=True)
class SegmentChoice:
    """What becomes of a segment that is there.

    Attributes:
        index: Name of the index.
        uuid: Of the segment.
        action: "keep"; "merge" (into another one); "rewrite" (without what is
            gone); "rebuild" (its rows are read from the table again); "catch up" (with
            deferred compactions); "skip" (lance_ops leaves its index alone).
        reason: Why, with the numbers.
        rows: Rows that it names; None when it was not looked at.
        dead_ratio: Share of them that are gone, 0 to 1; None when it was not looked at.
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
    """What an index operation will do.

    Attributes:
        uri: The dataset.
        read_version: Version it was planned from.
        segments: Segments to write; empty when there is nothing to do.
        names: Indices that were looked at.
        skipped: Indices that lance_ops leaves alone, with their coverage and the reason.
        coverage_before: Share of live rows covered by the indices that are written to, 0 to 1; by all that
            were looked at if there is nothing to write.
        trim: What becomes of the fragment reuse index; None when it stays as it is, or there is none.
        rebuilt: Indices that are built anew although nobody asked for it, with the reason.
        choices: What becomes of each segment that is there, and why; empty for a new index.
        wear: What was measured of the indices to decide that.
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
                    "fragments": [fragment.id for fragment in segment.fragments],
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
        notes += [f"built anew: {line}" for line in self.rebuilt]
        if self.trim is not None:
            notes.append(str(self.trim))
        notes += [line for item in self.wear for line in item.lines()]
        if self.choices:
            notes += ["", self._choices_text()]
        if not self.segments:
            what = "nothing to do" if self.trim is None else "no segment to write"
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
        name: Its name; `{column}_idx` by default, followed by a number where an index of another kind has
            that name.
        replace: Rebuild the index if there is one of this name.
        parameters: How the index is made, as its kind knows them.
        train: Read the rows. Otherwise the index is there, and covers nothing before it is refreshed.

    Raises:
        InvalidArgumentError: no such column or kind, the kind cannot index the column or does not know a
            parameter, or the name is taken.
        UnsupportedError: The kind learns from rows, and is to be made without.
    """
    chosen = kind_by_name(kind)
    indexed = indexed_field(dataset, column)
    chosen.check_new(indexed)
    checked = chosen.parameters(indexed, parameters or {})
    if not train and isinstance(chosen, VectorKind):
        raise UnsupportedError(
            f"an index of kind {chosen.name} has to learn from rows",
            path=dataset.uri,
            field="train",
            hint="create it once the rows are there",
        )
    if name is not None:
        check_type(name, str, "the name of an index", field="name")
    name = name or free_index_name(dataset, column, chosen.type_url.rsplit(".", 1)[-1].lower())
    column = dataset.lance_schema.path(indexed.id)
    check_index_name(name)
    old = tuple(segment for segment in dataset.indices if segment.name == name)
    if old and not replace:
        raise InvalidArgumentError(
            f"there is an index {name!r} already",
            path=dataset.uri,
            field="name",
            hint="replace it to build it anew, or optimize the indices to refresh it",
        )
    if not parameters:
        _check_replaced(dataset, chosen, old)
    if old and old[0].fields != (indexed.id,):
        raise InvalidArgumentError(
            f"index {name!r} is on another column", path=dataset.uri, field="name", hint="choose another name"
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
    """Refuse to put an index with default parameters in the place of one of its kind that may have others.

    Raises:
        UnreadableIndexError: Nothing here can read or honour how the old one was made.
    """
    type_name = chosen.type_url.rsplit(".", 1)[-1].lower()
    alike = [item for item in old if item.kind == type_name and kind_of(item) in (chosen, None)]
    if not alike or type(chosen).parameters_of is IndexKind.parameters_of:
        return
    try:
        parameters_as_made(dataset, alike)
    except UnreadableIndexError as error:
        raise UnreadableIndexError(
            f"{error.message}; what is built in its place would have default parameters",
            path=dataset.uri,
            field="parameters",
            hint="name the parameters that it is to have, or drop it first",
        ) from error.__cause__


def check_index_name(name: str) -> None:
    """Refuse a name that no index of a user can have.

    Raises:
        InvalidArgumentError: it is none, or reserved.
    """
    check_type(name, str, "the name of an index", field="name")
    if not name:
        raise InvalidArgumentError("the name of an index is empty", field="name")
    if name.startswith("__lance_"):
        raise InvalidArgumentError(f"{name!r} is a name the format reserves", field="name")


def mean_coverage(dataset: Dataset, names: Sequence[str]) -> float:
    """Mean share of live rows that the named indices cover; an index that is not there covers none."""
    if not names:
        return 1.0
    by_name = {item.name: item.ratio for item in coverage(dataset)}
    return sum(by_name.get(name, 0.0) for name in names) / len(names)
