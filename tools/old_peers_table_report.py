"""What `old_peers_tables.py` found, as a part of the document, and which of it is not allowed."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from old_peers_index_report import OURS, RELEASE
from old_peers_report import general_reason
from old_peers_table_cases import DIRECTIONS, TABLE_VARIANTS, TableVariant

EQUAL, MAIN_ONLY, NOT_DONE, NOT_TRIED = "equal", "equal, main only", "not done", "not tried"
HEADING = "## Whole tables"
INTRODUCTION = f"""Whole tables of storage version 2.0 (one of them with files of 2.1 beside those of 2.0): a
release writes, lance_ops tends the table, the release goes on; and the other way round. After each step
lance_ops, the release and the newest pylance read main, the branch and every tag, all rows and those that a
filter keeps, lance_ops looks for faults (`fsck`), and all rows and values are compared with what was written;
with stable row ids also that each row that was not updated keeps its id, for all three. A cell is a step:

- *{EQUAL}*: all three found what was written.
- *{MAIN_ONLY}*: the release knows no branches and read main; the others read the branch, too.
- *{NOT_DONE}*: the release has no such operation, or refuses it; below is why. What follows goes on without.
- *not for ...*: these did not find what was written. What follows is *{NOT_TRIED}*.
- *, as of the newest's*: so it ends as well with the newest pylance in the place of lance_ops.
- **bold**: what must not be. There is none unless a table says so.

Let only releases since 0.35 write to tables with stable row ids. Earlier ones cannot read what an update by
lance_ops or by the newest pylance leaves there; updates by 0.22 to 0.30 damage such a table for every reader,
and so do compactions by releases before 0.33 once rows are deleted. Files of several storage versions in one
table are for 14.0 and newer: 10.0 and older refuse to open it.
"""


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """How one step ended.

    Attributes:
        peer: Release of pylance.
        variant: The name of one of `TABLE_VARIANTS`.
        writer: Who wrote the table.
        number: Of the step.
        actor: Who did it.
        step: What it is called.
        kind: See the document.
        detail: The first error.
        twin: The kind of the same step with the newest pylance in the place of lance_ops; None if not tried.
    """

    peer: str
    variant: str
    writer: str
    number: int
    actor: str
    step: str
    kind: str
    detail: str = ""
    twin: str | None = None

    @property
    def as_of_the_newest(self) -> bool:
        """Whether the newest pylance would have served the release no better."""
        return self.twin in (self.kind, NOT_TRIED)


def table_failures(outcomes: Sequence[TableOutcome]) -> list[TableOutcome]:
    """What must not be: anything but equal rows that is not the release's own affair."""
    return [one for one in outcomes if _is_failure(one)]


def _is_failure(one: TableOutcome) -> bool:
    if one.kind in (EQUAL, MAIN_ONLY, NOT_TRIED):
        return False
    if one.kind == NOT_DONE and one.actor == RELEASE and one.writer == RELEASE and one.number == 0:
        return False
    return not one.as_of_the_newest


def write_table_report(outcomes: Sequence[TableOutcome], peers: Iterable[str]) -> str:
    """The part of the document."""
    parts = [f"{HEADING}\n", INTRODUCTION]
    for variant in TABLE_VARIANTS:
        for writer, tender in DIRECTIONS:
            here = [one for one in outcomes if (one.variant, one.writer) == (variant.name, writer)]
            parts.append(f"### {variant.name}: written by {writer}, tended by {tender}\n")
            parts.append("\n".join(_table(variant, writer, here, peers)) + "\n")
    reasons = list(_reasons(outcomes))
    if reasons:
        parts.append("Why:\n\n" + "\n".join(reasons) + "\n")
    return "\n".join(parts)


def _table(
    variant: TableVariant, writer: str, outcomes: Sequence[TableOutcome], peers: Iterable[str]
) -> Iterator[str]:
    # What the writer does first is one cell, for it is the same in most releases; so is what it does last.
    first, last = len(variant.written), len(variant.written) + len(variant.tended)
    names = ["written", *(step.name for step in variant.tended), f"{writer} goes on"]
    yield f"| | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for peer in peers:
        here = sorted((one for one in outcomes if one.peer == peer), key=lambda one: one.number)
        if here:
            tended = [_cell([one]) for one in here[first:last]]
            yield f"| {peer} | {' | '.join([_cell(here[:first]), *tended, _cell(here[last:])])} |"


def _cell(outcomes: Sequence[TableOutcome]) -> str:
    told = [one for one in outcomes if one.kind not in (EQUAL, MAIN_ONLY, NOT_TRIED)]
    if not told:
        return max((one.kind for one in outcomes), key=(EQUAL, MAIN_ONLY, NOT_TRIED).index)
    return "; ".join(_word(one, named=len(outcomes) > 1) for one in told)


def _word(one: TableOutcome, *, named: bool) -> str:
    word = f"{one.step} {one.kind}" if named else one.kind
    if _is_failure(one):
        return f"**{word}**"
    return f"{word}, as of the newest's" if one.as_of_the_newest and OURS in (one.writer, one.actor) else word


def _reasons(outcomes: Sequence[TableOutcome]) -> Iterator[str]:
    groups: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    order: dict[str, None] = {}
    for one in outcomes:
        order[one.peer] = None
        if one.detail:
            detail = re.sub(r"/?tmp/\w+/path/?", "", one.detail)
            detail = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", detail)
            groups[f"{one.step} {one.kind}", general_reason(detail)][one.peer] = None
    for (step, detail), peers in sorted(groups.items()):
        yield f"- {step}, {', '.join(peer for peer in order if peer in peers)}: {detail}"
