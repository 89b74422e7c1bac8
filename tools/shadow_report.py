"""What a shadow run counted, and how it is told."""

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TextIO


class Outcome(Enum):
    """How the two answers to one call compare."""

    EQUAL = "equal"
    CLOSE = "as near as the peer"
    BOTH_REFUSE = "refused by both"
    REFUSED = "refused by lance_ops"
    ONLY_OURS = "refused by the peer only"
    NOT_OURS = "not compared"
    KNOWN = "known difference"
    DIFFERENT = "different"
    CRASHED = "crashed"
    BROKEN = "comparison broke"


_WITH_REASONS = (Outcome.REFUSED, Outcome.ONLY_OURS, Outcome.NOT_OURS, Outcome.KNOWN, Outcome.BOTH_REFUSE)


@dataclass
class Tally:
    """Counts of one run.

    Attributes:
        counts: Calls by outcome and method.
        reasons: Refusals of lance_ops and calls that were not compared, by reason.
        examples: The first calls of each bad outcome.
    """

    counts: Counter[tuple[Outcome, str]] = field(default_factory=Counter)
    reasons: Counter[tuple[Outcome, str]] = field(default_factory=Counter)
    examples: dict[Outcome, list[str]] = field(default_factory=dict)
    keep: int = 40

    def add(self, outcome: Outcome, method: str, call: str = "", detail: str = "") -> None:
        """Count a call.

        Args:
            outcome: How the answers compare.
            method: Of the peer, such as `LanceDataset.take`.
            call: Its arguments in words.
            detail: The reason or the difference.
        """
        self.counts[outcome, method] += 1
        if outcome in _WITH_REASONS:
            self.reasons[outcome, _general(detail)] += 1
        kept = self.examples.setdefault(outcome, [])
        if outcome not in (Outcome.EQUAL, Outcome.CLOSE) and len(kept) < self.keep:
            where = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
            kept.append(f"{method}({call}) in {where or 'the script'}\n    {detail}")

    def of(self, outcome: Outcome) -> int:
        """Number of calls with an outcome."""
        return sum(count for (kind, _), count in self.counts.items() if kind is outcome)

    @property
    def is_bad(self) -> bool:
        """Whether lance_ops answered something else than the peer, or broke."""
        return bool(sum(self.of(outcome) for outcome in (Outcome.DIFFERENT, Outcome.CRASHED, Outcome.BROKEN)))

    def write(self, out: TextIO, *, shown: Mapping[Outcome, int]) -> None:
        """Print the counts, the reasons and the first examples.

        Args:
            out: Where to.
            shown: How many examples of each outcome.
        """
        methods = sorted({method for _, method in self.counts})
        out.write("\nshadow run: every call answered by both libraries\n")
        for outcome in Outcome:
            total = self.of(outcome)
            split = [f"{method} {self.counts[outcome, method]:,}" for method in methods]
            split = [text for text in split if not text.endswith(" 0")]
            out.write(f"  {outcome.value:26} {total:8,}   {', '.join(split)}\n")
        for outcome in _WITH_REASONS:
            found = [(n, text) for (kind, text), n in self.reasons.items() if kind is outcome]
            if found:
                out.write(f"\n{outcome.value}, by reason\n")
            out.writelines(f"  {count:6,}  {text}\n" for count, text in sorted(found, reverse=True))
        for outcome, number in shown.items():
            out.writelines(f"\n{outcome.value}: {text}\n" for text in self.examples.get(outcome, [])[:number])


def _general(detail: str) -> str:
    """The reason without what is particular to one call: names, numbers, paths."""
    first = detail.split("\n")[0]
    first = re.sub(r"(/|[a-z0-9]+://)\S+", "<path>", first)
    first = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "'...'", first)
    return re.sub(r"\d+", "N", first)[:160]
