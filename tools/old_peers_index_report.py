"""What `old_peers_indices.py` found, as a part of the document, and which of it is not allowed."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from old_peers_index_cases import VARIANTS
from old_peers_report import general_reason

HEADING = "## Tables with indices"
INTRODUCTION = """Tables of several fragments with two data files each, deleted rows, and rows that no index
covers, under an index on each of some columns: eight for BTREE and BITMAP, two for ZONEMAP and BLOOMFILTER,
else one. Whoever writes a table builds the indices; then the other side tends it: it appends, refreshes the
indices, deletes and compacts. After each step filters, searches for words or for the ten nearest vectors
(with all partitions, and distances computed anew) are answered and compared with what was written.

A number without a word counts columns whose questions were answered right with the index (as `explain_plan`
says; lance_ops: as its pruner or its plan says). The other words:

- *scanned*: answered right without the index.
- *with a warning*: answered right, by a scan, because the index is damaged. Compactions by releases before 4
  leave a BTREE whose lookup does not fit its pages when rows were deleted; the newest pylance believes the
  lookup and may lose rows, as the column "the newest" shows.
- *not built*: the release refuses such an index, or has no stable row ids. *not tended*: it failed.
- *refused*, *different*: it fails, or answers wrongly. Allowed where it does so with what it wrote itself.
  And up to 0.20 a BTREE is read from files of storage version 0.1 only, which lance_ops does not write: there
  an index that lance_ops builds or refreshes makes filters on its column fail or lose rows. Drop it before
  such a release reads the table.

What lance_ops writes is for releases since 0.22, but full-text indices and IVF_PQ for those since 0.30 and
zone maps for those since 0.39: before, their layouts were others. lance_ops finds the words of such full-text
indices and the vectors of such IVF_PQ by a scan with a warning, and compacts no fragments under them
(IVF_PQ of 0.25 it reads, and what it refreshes is for releases since 0.30). Compactions by 0.22 and 0.25 lose
the nulls of a BITMAP, so that `IS NULL` finds none with it, in lance_ops and in the newest pylance as well:
build it anew.

0.33.0 (not 0.30, nor 0.34) mixes up the documents of partitions where a full-text index has several: its own
are so once they are large, and any is after a refresh by lance_ops. It fails, or misses rows.

With stable row ids, releases before 0.33 fail on their own indices once rows are deleted, and their
compaction leaves fewer row ids than rows, which fsck names. An index of lance_ops on such a table holds row
ids (index version 0), which every release understands, unless it continues one that holds addresses (version
1, of the newest releases).

Manifests name their writer. Releases before 1.0 hold the number against their own past, whatever the library
is called: after a writer that seems to be from before 0.8.15 they count the coverage of indices anew, which
they cannot do for a BITMAP, so that they can commit nothing. lance_ops states the number of the pylance whose
rules for manifests it follows, and its own as build metadata (`14.0.2+lance-ops.0.1.0`).
"""

OURS, NEWEST, RELEASE = "lance_ops", "the newest", "the release"


@dataclass(frozen=True, slots=True)
class Step:
    """After what was done to a table, who reads it.

    Attributes:
        tended: Whether the side that did not write the table has tended it.
        we_wrote: Whether lance_ops wrote it.
        reader: `OURS`, `NEWEST` or `RELEASE`.
    """

    tended: bool
    we_wrote: bool
    reader: str


STEPS = (
    Step(tended=False, we_wrote=False, reader=RELEASE),
    Step(tended=False, we_wrote=False, reader=OURS),
    Step(tended=True, we_wrote=False, reader=OURS),
    Step(tended=True, we_wrote=False, reader=RELEASE),
    Step(tended=True, we_wrote=False, reader=NEWEST),
    Step(tended=False, we_wrote=True, reader=RELEASE),
    Step(tended=True, we_wrote=True, reader=OURS),
    Step(tended=True, we_wrote=True, reader=NEWEST),
)

_FIRST_OF_2_0 = (0, 22)
"""First release that reads indices in files of storage version 2.0; it is 0.21 or 0.22."""
_FIRST_OF_LAYOUT = {"INVERTED": (0, 30), "IVF_PQ": (0, 30), "ZONEMAP": (0, 39)}
"""First tried release that reads the layout of a kind which lance_ops writes."""
_FIRST_THAT_KEEPS_NULLS = (0, 30)
_MIXES_UP_PARTITIONS = (0, 33)
"""First tried release whose compaction keeps the nulls of a BITMAP."""


@dataclass(frozen=True, slots=True)
class IndexOutcome:
    """How the filters on one column were answered.

    Attributes:
        peer: Release of pylance.
        variant: The name of one of `VARIANTS`.
        step: One of `STEPS`.
        column: The indexed column.
        kind: "used", "scanned", "with a warning", "different", "refused", "failed",
            "not built" or "not tended".
        detail: The error, if any.
    """

    peer: str
    variant: str
    step: Step
    column: str
    kind: str
    detail: str = ""


def index_failures(outcomes: Sequence[IndexOutcome]) -> list[IndexOutcome]:
    """What must not be: a wrong answer of lance_ops, or of others because of what it did."""
    right = {
        (one.peer, one.variant, one.column)
        for one in outcomes
        if one.step == STEPS[0] and one.kind in ("used", "scanned")
    }
    return [one for one in outcomes if _is_failure(one, right)]


def _is_failure(one: IndexOutcome, right: set[tuple[str, str, str]]) -> bool:
    wrong = one.kind in ("different", "refused", "failed")
    reader, step = one.step.reader, one.step
    release = tuple(int(part) for part in one.peer.split(".")[:2])
    loses_nulls = one.variant == "BITMAP" and step.we_wrote and release < _FIRST_THAT_KEEPS_NULLS
    if reader == OURS:
        return wrong and not (loses_nulls and one.kind == "different")
    # What a release did last, or does with its own indices, is its own affair.
    ours_to_answer = step != STEPS[0] and (one.peer, one.variant, one.column) in right
    if reader == NEWEST:
        return wrong and ours_to_answer and not step.we_wrote
    if one.variant == "INVERTED" and release == _MIXES_UP_PARTITIONS and step.tended:
        return False
    first = max(_FIRST_OF_2_0, _FIRST_OF_LAYOUT.get(one.variant, _FIRST_OF_2_0))
    return wrong and ours_to_answer and release >= first


def write_index_report(outcomes: Sequence[IndexOutcome], peers: Iterable[str]) -> str:
    """The part of the document."""
    lines = [
        "| | " + " | ".join(_what(step) for step in STEPS) + " |",
        "|---|---|---|---|---|---|---|---|---|",
        "| read by: | " + " | ".join(step.reader for step in STEPS) + " |",
    ]
    parts = [f"{HEADING}\n", INTRODUCTION]
    for variant in (variant.name for variant in VARIANTS):
        rows = list(lines)
        for peer in peers:
            here = [one for one in outcomes if (one.peer, one.variant) == (peer, variant)]
            cells = [_cell([one for one in here if one.step == step]) for step in STEPS]
            rows.append(f"| {peer} | " + " | ".join(cells) + " |")
        parts.append(f"### {variant}\n\n" + "\n".join(rows) + "\n")
    reasons = list(_reasons(outcomes))
    if reasons:
        parts.append("Why:\n\n" + "\n".join(reasons) + "\n")
    return "\n".join(parts)


def _what(step: Step) -> str:
    writer, tender = ("lance_ops", "the release") if step.we_wrote else ("the release", "lance_ops")
    return f"of {writer}, tended by {tender}" if step.tended else f"of {writer}"


def _cell(outcomes: Sequence[IndexOutcome]) -> str:
    counts = Counter(one.kind for one in outcomes)
    if set(counts) <= {"not built"}:
        return "-"
    order = ("used", "scanned", "with a warning", "different", "refused", "failed", "not tended", "not built")
    return ", ".join(f"{counts[kind]} {kind}".removesuffix(" used") for kind in order if counts[kind])


def _without_places(error: str) -> str:
    """An error without the folders of one run."""
    error = re.sub(r"/?tmp/\w+/path/", "", error)
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", error)


def _reasons(outcomes: Sequence[IndexOutcome]) -> Iterator[str]:
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    order: dict[str, None] = {}
    for one in outcomes:
        order[one.peer] = None
        if one.kind in ("different", "refused", "failed", "not tended"):
            detail = (
                "fewer or more rows than match"
                if one.kind == "different"
                else re.sub(r"\d+ != \d+", "N != N", general_reason(_without_places(one.detail)))
            )
            groups[one.kind, detail].add(one.peer)
    for (kind, detail), peers in sorted(groups.items()):
        yield f"- {kind}, {', '.join(peer for peer in order if peer in peers)}: {detail}"
