"""Findings of checks, and their result."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import ClassVar

from lance_ops.maintenance.fsck.remedy import damage_commands
from lance_ops.maintenance.results import Result
from lance_ops.maintenance.text import count_text

_MENDED_IN_PLACE = frozenset({"indices_readable", "index_rows_match", "column_names"})
"""Checks whose findings name the repair command: the rows are sound."""


class Severity(StrEnum):
    """Severity of a finding: with an error, rows or files are lost or wrong; a warning is unusual only."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem.

    Attributes:
        check: Name of the check that found it.
        severity: Its severity.
        message: The problem, with numbers.
        path: The file, if any.
    """

    check: str
    severity: Severity
    message: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckResult(Result):
    """Result of a check.

    Attributes:
        uri: The dataset.
        version: Version that was checked.
        seconds: Wall-clock time.
        checks: Names of the checks that ran, in order.
        findings: All findings.
        files_checked: Files whose existence and size were checked.
        races: Result of the put-if-absent probe, by name; empty without a probe.
    """

    operation: ClassVar[str] = "fsck"

    checks: tuple[str, ...]
    findings: tuple[Finding, ...]
    files_checked: int = 0
    races: str = ""

    @property
    def ok(self) -> bool:
        """True if no finding is an error."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)

    def of(self, check: str) -> tuple[Finding, ...]:
        """Return the findings of one check."""
        return tuple(finding for finding in self.findings if finding.check == check)

    @property
    def remedy(self) -> str:
        """Repair commands for damage; empty without damage outside of indices."""
        damaged = any(
            finding.severity is Severity.ERROR and finding.check not in _MENDED_IN_PLACE
            for finding in self.findings
        )
        return damage_commands(self.uri) if damaged else ""

    def to_dict(self) -> dict[str, object]:
        """Return all fields, the verdict and the remedy as JSON values."""
        return {
            **Result.to_dict(self),
            "findings": [asdict(finding) for finding in self.findings],
            "ok": self.ok,
            "remedy": self.remedy,
        }

    def summary(self) -> str:
        """Return the findings in one line."""
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
            lines.append(f"  repair: {self.remedy}")
        return "\n".join(lines)
