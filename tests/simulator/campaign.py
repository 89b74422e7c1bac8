"""Campaigns: ranges of seeds, what they covered, and their record, with which a later run goes on."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np

from lance_ops.table.commit import conflict_matrix, judged_commits
from lance_ops.table.transaction.transaction import Transaction
from tests.simulator.history import STARTS, UseWorld, Violation, plan_of, run_plan, start_of
from tests.simulator.shrink import shrink, story_table

Branch = tuple[str, str, str]
"""Ours, theirs, and the verdict."""


@dataclass
class Totals:
    """What histories covered.

    Attributes:
        histories: Their number.
        calls: Calls of the store in them.
        outcomes: How work ended, by kind and end.
        branches: Verdicts of the conflict matrix, and how often each was given.
        interleavings: Fingerprints of the sequences of calls.
        failures: Seed and text of the histories that broke a promise.
        seconds: CPU time.
    """

    histories: int = 0
    calls: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    branches: Counter[Branch] = field(default_factory=Counter)
    interleavings: set[int] = field(default_factory=set)
    failures: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0

    def summary(self) -> str:
        """Format the numbers."""
        cells = {branch[:2] for branch in self.branches}
        every = set(conflict_matrix.RULE_OF)
        lines = [
            f"histories               {self.histories:>12,}",
            f"store calls             {self.calls:>12,}",
            f"distinct interleavings  {len(self.interleavings):>12,}",
            f"cells of the matrix     {len(cells):>12,} of {len(every):,}",
            f"verdicts in these cells {len(self.branches):>12,}",
            (
                f"CPU time                {self.seconds:>12,.0f} s"
                f" ({1000 * self.seconds / max(1, self.histories):.1f} ms a history)"
            ),
            f"failures                {len(self.failures):>12,}",
        ]
        return "\n".join(lines)

    def matrix(self) -> str:
        """Format which verdicts were given in which cell: s(tands), r(etry), X."""
        kinds = sorted({branch[0] for branch in self.branches})
        theirs = sorted({branch[1] for branch in self.branches})
        signs = {"compatible": "s", "retryable": "r", "incompatible": "X"}
        lines = [["ours \\ theirs", *theirs]]
        for ours in kinds:
            row = [ours]
            for other in theirs:
                row.append(
                    "".join(sign for name, sign in signs.items() if self.branches[ours, other, name]) or "-"
                )
            lines.append(row)
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def save(self, path: Path, done: list[tuple[int, int]]) -> None:
        """Write the record of a campaign."""
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path.with_suffix(".npy"), np.array(sorted(self.interleavings), np.int64))
        content = {
            "done": done,
            "histories": self.histories,
            "calls": self.calls,
            "seconds": self.seconds,
            "outcomes": dict(self.outcomes),
            "branches": {"|".join(branch): count for branch, count in self.branches.items()},
            "failures": self.failures,
        }
        path.write_text(json.dumps(content, indent=1))

    @classmethod
    def load(cls, path: Path) -> tuple["Totals", list[tuple[int, int]]]:
        """Read the record of a campaign; an empty one without a file."""
        if not path.exists():
            return cls(), []
        content = json.loads(path.read_text())
        branches: Counter[Branch] = Counter()
        for text, count in content["branches"].items():
            ours, theirs, verdict = text.split("|")
            branches[ours, theirs, verdict] = count
        totals = cls(
            content["histories"],
            content["calls"],
            Counter(content["outcomes"]),
            branches,
            set(np.load(path.with_suffix(".npy")).tolist()),
            [(seed, what) for seed, what in content["failures"]],
            content["seconds"],
        )
        return totals, [(first, end) for first, end in content["done"]]


@contextlib.contextmanager
def observed(totals: Totals) -> Iterator[None]:
    """Count the verdicts of the conflict matrix."""
    real = conflict_matrix.judge

    def judge(ours: Transaction, theirs: Transaction) -> conflict_matrix.Verdict:
        verdict = real(ours, theirs)
        totals.branches[ours.operation.kind, theirs.operation.kind, verdict.outcome.value] += 1
        return verdict

    with mock.patch.object(judged_commits, "judge", judge):
        yield


def run_seeds(
    seeds: Iterable[int],
    use: UseWorld,
    totals: Totals,
    *,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Run histories until `stop` says so; returns the number of those that ran."""
    for number in range(STARTS):
        start_of(number)
    began, count = time.process_time(), 0
    with observed(totals):
        for seed in seeds:
            if stop():
                break
            count += 1
            totals.histories += 1
            try:
                history = run_plan(plan_of(seed), use)
            except Violation as error:
                totals.failures.append((seed, str(error)))
            except Exception as error:  # noqa: BLE001 - what the product must not raise is a finding
                totals.failures.append((seed, f"{type(error).__name__}: {error}"))
            else:
                totals.calls += history.world.steps
                totals.interleavings.add(history.fingerprint)
                for run in history.runs:
                    totals.outcomes[f"{type(run.work).__name__} {run.outcome}"] += 1
    totals.seconds += time.process_time() - began
    return count


def explain(seed: int, use: UseWorld) -> str:
    """Shrink a failing seed and format its story."""
    _plan, choices, what, history = shrink(plan_of(seed), use)
    return (
        f"seed {seed}: {what}\n\n{story_table(history.story)}\n\n"
        f"{len(history.runs)} operations, {len(choices.faults)} faults, {len(choices.switches)} switches"
    )
