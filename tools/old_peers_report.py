"""What `old_peers.py` found, as a document, and which of it is not allowed."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

EXPERIMENTAL = {"2.1": (0, 38), "2.2": (1, 0)}
"""First release of pylance whose files of a storage version later releases read."""

TITLE = """# Old releases of pylance

Written by `make old-peers`, which installs the releases side by side, lets each write columns of every
type, null pattern and encoding at every storage version, reads them with lance_ops, and then lets each read
what lance_ops writes. Files are read whole and by row; of each version there is also a table of two commits
with deleted rows. Files of 0.1 exist in tables only.

The first table counts what a release wrote and lance_ops read, the second what lance_ops wrote and a
release read. A count without a word means equal values. The other words:

- *as its writer*: the release itself reads other values than it was given (0.1 keeps no nulls of numbers,
  early releases lost some others), and lance_ops reads what that release reads.
- *as the newest*: the release reads back something that the newest pylance does not; lance_ops agrees with
  the newest.
- *not written*: the writer refuses such a column at this version.
- *refused, as by the newest*: neither lance_ops nor the newest pylance reads what this release wrote.
- *refused, as of the newest*: the release reads neither what lance_ops nor what the newest pylance writes
  of this column.
- *experimental*: a storage version before it was settled (2.1 before 0.38, 2.2 before 1.0), whose files
  later releases do not promise to read. What lance_ops writes
  at such a version is not shown to them.
- **refused**, **different**, **failed**: what must not be. There is none unless a table says so.
"""

_WORDS = {
    "equal": "",
    "as its writer reads it": "as its writer",
    "as the newest reads it": "as the newest",
    "not written": "not written",
    "refused by the newest, too": "refused, as by the newest",
    "refused like the newest's": "refused, as of the newest",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One case, one release, one direction.

    Attributes:
        peer: Release of pylance.
        version: Storage version.
        kind: "file" or "table".
        case: Name of the case.
        ours: Whether lance_ops wrote it.
    """

    peer: str
    version: str
    kind: str
    case: str
    ours: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended.

    Attributes:
        exchange: What was tried.
        kind: One of the words that `old_peers.py` uses.
        detail: The error, if any.
    """

    exchange: Exchange
    kind: str
    detail: str = ""


def is_experimental(peer: str, version: str) -> bool:
    """Whether a release wrote this storage version before it was settled."""
    first = EXPERIMENTAL.get(version)
    return first is not None and tuple(int(part) for part in peer.split(".")[:2]) < first


def failures(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """What must not happen: other values anywhere, and refusals of what is settled."""
    return [outcome for outcome in outcomes if is_failure(outcome)]


def is_failure(outcome: Outcome) -> bool:
    """Whether this must not happen."""
    if outcome.kind == "refused" or (outcome.kind == "different" and outcome.exchange.ours):
        return not is_experimental(outcome.exchange.peer, outcome.exchange.version)
    return outcome.kind in ("different", "failed")


def write_report(
    outcomes: Sequence[Outcome], pins: Mapping[str, tuple[str, str]], versions: Sequence[str]
) -> str:
    """The document.

    Args:
        outcomes: Of everything.
        pins: The pyarrow and numpy of each release.
        versions: Storage versions, one column each.
    """
    parts = [TITLE]
    for ours, heading in (
        (False, "Written by the release, read by lance_ops"),
        (True, "Written by lance_ops, read by the release"),
    ):
        parts.append(f"## {heading}\n\n{_table(outcomes, pins, versions, ours)}")
        reasons = list(_reasons(outcomes, ours))
        if reasons:
            parts.append("Why, for all that was refused:\n\n" + "\n".join(reasons) + "\n")
    return "\n".join(parts)


def _table(
    outcomes: Sequence[Outcome], pins: Mapping[str, tuple[str, str]], versions: Sequence[str], ours: bool
) -> str:
    lines = [
        "| pylance | pyarrow, numpy | " + " | ".join(versions) + " |",
        "|---|---|" + "---|" * len(versions),
    ]
    for peer, (pyarrow, numpy) in pins.items():
        cells = []
        for version in versions:
            here = [one for one in outcomes if _is_in(one.exchange, peer, version, ours)]
            cells.append(_cell(here))
        lines.append(f"| {peer} | {pyarrow}, {numpy} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _is_in(exchange: Exchange, peer: str, version: str, ours: bool) -> bool:
    return (exchange.peer, exchange.version, exchange.ours) == (peer, version, ours)


def _cell(outcomes: Sequence[Outcome]) -> str:
    counts: dict[str, int] = defaultdict(int)
    for outcome in outcomes:
        counts[_word(outcome)] += 1
    if set(counts) <= {"not written"}:
        return "-"
    order = ["", *(word for word in _WORDS.values() if word and word != "not written")]
    order += sorted(set(counts) - set(order) - {"not written"})
    parts = [f"{counts[word]} {word}".strip() for word in [*order, "not written"] if counts.get(word)]
    return (
        "experimental: " if is_experimental(outcomes[0].exchange.peer, outcomes[0].exchange.version) else ""
    ) + ", ".join(parts)


def _word(outcome: Outcome) -> str:
    if outcome.kind in _WORDS:
        return _WORDS[outcome.kind]
    return f"**{outcome.kind}**" if is_failure(outcome) else outcome.kind


def _reasons(outcomes: Sequence[Outcome], ours: bool) -> Iterator[str]:
    # One line an error, without the numbers that differ from case to case.
    groups: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for outcome in outcomes:
        exchange = outcome.exchange
        if exchange.ours is ours and not outcome.kind.startswith(("equal", "as ", "not written")):
            reason = (exchange.version, general_reason(outcome.detail))
            groups[reason][exchange.peer].add(
                re.sub(r", (no|some|only) nulls$|, \d+ rows$", "", exchange.case)
            )
    for (version, reason), peers in sorted(groups.items()):
        cases = sorted(set().union(*peers.values()))
        names = "; ".join(cases[:4]) + (f"; and {len(cases) - 4} more" if len(cases) > 4 else "")
        yield f"- {version}, {', '.join(peers)}: {reason} ({names})"


def general_reason(error: str) -> str:
    """An error without places and without the numbers that differ from case to case."""
    error = re.sub(r",? ?(location: Location \{|/home/|/root/|rust/).*", "", error, flags=re.DOTALL)
    error = error.replace("OSError: Io error: ", "").replace("\n", " ").replace("|", "/").replace("`", "'")
    error = re.sub(r"(task|length|len:) \d+", r"\1 N", re.sub(r"\d{3,}", "N", error))
    return error[:160].strip()
