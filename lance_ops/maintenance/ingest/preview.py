"""Write preview: the columns of data, as they are read and as they would be written."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_ops.maintenance.ingest.plan import WritePlan
from lance_ops.maintenance.sources.source import unify_schemas
from lance_ops.maintenance.text import count_text, table_text


@dataclass(frozen=True, slots=True)
class ColumnPreview:
    """One column.

    Attributes:
        name: Its name.
        found: Type in the data: as inferred for text, or stated; empty if the data lack it.
        written: Type in the dataset.
        action: "as it is", "read as the type of the dataset", "cast", or "filled with nulls".
    """

    name: str
    found: str
    written: str
    action: str


@dataclass(frozen=True, slots=True)
class WritePreview:
    """Result of a dry run of a write; prints as a table.

    Attributes:
        uri: The dataset.
        mode: "create" if there is no dataset yet, else that of the write.
        version: Newest version of the dataset; None without a dataset.
        inputs: Input files, or the name of other data.
        columns: Columns in the order of the dataset.
        committed_version: Version in which the job was committed before; None if it was not.
    """

    uri: str
    mode: str
    version: int | None
    inputs: tuple[str, ...]
    columns: tuple[ColumnPreview, ...]
    committed_version: int | None = None

    def to_dict(self) -> dict[str, object]:
        """All values, as JSON can hold them."""
        return {
            "operation": "append",
            "dry_run": True,
            "uri": self.uri,
            "mode": self.mode,
            "version": self.version,
            "inputs": list(self.inputs),
            "columns": [
                {"name": item.name, "found": item.found, "written": item.written, "action": item.action}
                for item in self.columns
            ],
            "committed_version": self.committed_version,
        }

    def __str__(self) -> str:
        if self.committed_version is not None:
            return f"{self.mode}: nothing to do, version {self.committed_version} has the rows of this job"
        what = self.inputs[0] if len(self.inputs) == 1 else count_text(len(self.inputs), "file")
        place = f"new dataset {self.uri}" if self.version is None else f"{self.uri} (version {self.version})"
        rows = [(item.name, item.found or "-", item.written, item.action) for item in self.columns]
        table = table_text(("column", "in the data", "in the dataset", "action"), rows, limit=None)
        return f"{self.mode}: {what} fits {place}; nothing was written\n{table}"


def preview_write(
    plan: WritePlan, given: Sequence[tuple[str, pa.Schema]], parts: Sequence[tuple[str, pa.Schema]]
) -> WritePreview:
    """Return the preview of a plan.

    Args:
        plan: Of the write.
        given: Schemas of the parts of the data, as they are without a dataset.
        parts: Schemas as they are read for the dataset.
    """
    version = None if plan.dataset is None else plan.dataset.version
    inputs = tuple(what for what, _ in parts)
    if plan.committed_version is not None:
        return WritePreview(plan.uri, plan.mode, version, inputs, (), plan.committed_version)
    found, read = unify_schemas(given), unify_schemas(parts)
    columns = [_column(item, found, read) for item in plan.task.schema.to_arrow()]
    return WritePreview(plan.uri, plan.mode, version, inputs, tuple(columns))


def _column(target: pa.Field, found: pa.Schema, read: pa.Schema) -> ColumnPreview:
    written = str(target.type)
    if target.name not in read.names:
        return ColumnPreview(target.name, "", written, "filled with nulls")
    kind, parsed = found.field(target.name).type, read.field(target.name).type
    if not parsed.equals(target.type):
        action = "cast"
    elif not kind.equals(parsed):
        action = "read as the type of the dataset"
    else:
        action = "as it is"
    return ColumnPreview(target.name, str(kind), written, action)
