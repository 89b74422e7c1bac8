"""Findings: what a check says is wrong, and the result that collects them."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import ClassVar

from lance_ops.maintenance.fsck.remedy import damage_commands
from lance_ops.maintenance.results import Result
from lance_ops.maintenance.text import count_text

_MENDED_IN_PLACE = frozenset({"indices_readable", "index_rows_match", "column_names"})
"""Checks whose findings name the command that mends them: the rows are sound."""


class Severity(StrEnum):
    """How bad a finding is: with an error, rows or files are lost or wrong; a warning is only odd."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        check: Name of the check that found it.
        severity: How bad it is.
        message: What is wrong, with the numbers.
        path: The file it is about, if any.
    """

    check: str
    severity: Severity
    message: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckResult(Result):
    """What was checked and what was found.

    Attributes:
        uri: The dataset.
        version: Version that was checked.
        seconds: Wall-clock time.
        checks: Names of the checks that ran, in order.
        findings: Everything found.
        files_checked: Files whose presence and size were looked at.
        races: What the probe of put-if-absent said, by name; empty when nobody asked for it.
    """

    operation: ClassVar[str] = "fsck"

    checks: tuple[str, ...]
    findings: tuple[Finding, ...]
    files_checked: int = 0
    races: str = ""

    @property
    def ok(self) -> bool:
        """No finding is an error."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)

    def of(self, check: str) -> tuple[Finding, ...]:
        """Findings of one check."""
        return tuple(finding for finding in self.findings if finding.check == check)

    @property
    def remedy(self) -> str:
        """What to do about damage, in commands; empty when none is found but in indices."""
        damaged = any(
            finding.severity is Severity.ERROR and finding.check not in _MENDED_IN_PLACE
            for finding in self.findings
        )
        return damage_commands(self.uri) if damaged else ""

    def to_dict(self) -> dict[str, object]:
        """All fields, the verdict and the remedy as JSON values."""
        return {
            **Result.to_dict(self),
            "findings": [asdict(finding) for finding in self.findings],
            "ok": self.ok,
            "remedy": self.remedy,
        }

    def summary(self) -> str:
        """What was found, in one line."""
        verdict = "is sound" if self.ok else "is damaged"
        work = f"{count_text(len(self.checks), 'check')}, {count_text(self.files_checked, 'file')}"
        return f"version {self.version} {verdict}: {work}"

    def __str__(self) -> str:
        lines = [f"fsck: {self.summary()}, {self.seconds:.2f} s"]
        if self.races:
            lines.append(f"  racing writers: {self.races}")
        lines += [
            f"  {finding.severity.value}: {finding.message} [{finding.check}]"
            + (f" {finding.path}" if finding.path else "")
            for finding in self.findings
        ]
        if self.remedy:
            lines.append(f"  what to do: {self.remedy}")
        return "\n".join(lines)
