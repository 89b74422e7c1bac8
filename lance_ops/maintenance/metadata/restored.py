"""Plan of a restore: what it brings back and what it takes away."""

from dataclasses import dataclass
from typing import Any

from lance_ops.errors import LanceOpsError, NotFoundError, StorageError
from lance_ops.maintenance.fsck.files import check_files
from lance_ops.maintenance.text import count_text
from lance_ops.table.dataset import Dataset

_MOST_DESCRIBED = 20


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What `restore` would do; prints as text.

    Attributes:
        uri: The dataset.
        version: The newest version, whose rows and columns would be replaced.
        restored: The version to restore.
        rows_before: Live rows of the newest version.
        rows_after: Live rows of the restored version.
        rows_back: Rows of the restored version alone: they come back; None if unknown.
        rows_lost: Rows of the newest version alone: they go; None if unknown.
        rows_changed: Rows that get their earlier values; None if unknown.
        unknown: Why the rows cannot be compared; empty if they can.
        columns_back: Columns that come back.
        columns_lost: Columns that go.
        indices_back: Indices that come back.
        indices_lost: Indices that go.
        config_changed: Config keys that get another value or go, without the records of lance_ops.
        undone: What the versions in between did, newest first.
        missing: Files of the restored version that cannot be found: its restore would be damaged.
    """

    uri: str
    version: int
    restored: int
    rows_before: int
    rows_after: int
    rows_back: int | None = None
    rows_lost: int | None = None
    rows_changed: int | None = None
    unknown: str = ""
    columns_back: tuple[str, ...] = ()
    columns_lost: tuple[str, ...] = ()
    indices_back: tuple[str, ...] = ()
    indices_lost: tuple[str, ...] = ()
    config_changed: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "operation": "restore",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "restored": self.restored,
            "rows_before": self.rows_before,
            "rows_after": self.rows_after,
            "rows_back": self.rows_back,
            "rows_lost": self.rows_lost,
            "rows_changed": self.rows_changed,
            "unknown": self.unknown,
            "columns_back": list(self.columns_back),
            "columns_lost": list(self.columns_lost),
            "indices_back": list(self.indices_back),
            "indices_lost": list(self.indices_lost),
            "config_changed": list(self.config_changed),
            "undone": list(self.undone),
            "missing": list(self.missing),
        }

    def __str__(self) -> str:
        rows = f"{count_text(self.rows_before, 'row')} become {self.rows_after:,}"
        lines = [f"restore version {self.restored} of {self.uri} over version {self.version}: {rows}"]
        if self.unknown:
            lines.append(f"  which rows differ is unknown: {self.unknown}")
        else:
            lines.append(
                f"  rows: {self.rows_back:,} come back, {self.rows_lost:,} go, {self.rows_changed:,} get "
                "earlier values"
            )
        for what, back, lost in (
            ("columns", self.columns_back, self.columns_lost),
            ("indices", self.indices_back, self.indices_lost),
        ):
            if back or lost:
                parts = [f"{', '.join(back)} come back"] if back else []
                parts += [f"{', '.join(lost)} go"] if lost else []
                lines.append(f"  {what}: {'; '.join(parts)}")
        if self.config_changed:
            lines.append(f"  config with other values: {', '.join(self.config_changed)}")
        lines += [f"  undone: {line}" for line in self.undone]
        lines += [f"  file is missing: {line}" for line in self.missing]
        return "\n".join(lines)


def plan_restore(head: Dataset, number: int) -> RestorePlan:
    """Plan a restore; reads manifests, deletion files and a listing, no values.

    Args:
        head: The newest version.
        number: The version to restore.

    Raises:
        VersionNotFoundError: It does not exist.
        StorageError: The store fails.
    """
    old = head.checkout_version(number)
    back: int | None = None
    lost: int | None = None
    changed: int | None = None
    unknown = ""
    try:
        _, _, found = head.find_changes(number)
        back, lost, changed = len(found.deleted), len(found.inserted), len(found.after)
    except StorageError:
        raise
    except LanceOpsError as error:
        unknown = error.message
    columns = [tuple(field.name for field in dataset.schema) for dataset in (old, head)]
    indices = [
        sorted({item.name for item in dataset.indices if not item.is_system}) for dataset in (old, head)
    ]
    keys = sorted({*old.config, *head.config})
    return RestorePlan(
        uri=head.uri,
        version=head.version,
        restored=number,
        rows_before=head.count_rows(),
        rows_after=old.count_rows(),
        rows_back=back,
        rows_lost=lost,
        rows_changed=changed,
        unknown=unknown,
        columns_back=tuple(name for name in columns[0] if name not in columns[1]),
        columns_lost=tuple(name for name in columns[1] if name not in columns[0]),
        indices_back=tuple(name for name in indices[0] if name not in indices[1]),
        indices_lost=tuple(name for name in indices[1] if name not in indices[0]),
        config_changed=tuple(
            key
            for key in keys
            if old.config.get(key) != head.config.get(key) and not key.startswith("lance_ops.")
        ),
        undone=tuple(_undone(head, number)),
        missing=tuple(finding.message for finding in check_files(old)),
    )


def _undone(head: Dataset, number: int) -> list[str]:
    lines: list[str] = []
    for version in range(head.version, number, -1):
        if len(lines) == _MOST_DESCRIBED:
            return [*lines, f"and {count_text(version - number, 'earlier version')}"]
        try:
            lines.append(f"version {version}: {head.read_transaction(version).operation.describe()}")
        except NotFoundError:
            lines.append(f"version {version}: was removed")
    return lines
