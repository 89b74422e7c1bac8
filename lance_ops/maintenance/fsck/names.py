"""Fsck of column names: those with which pylance cannot read a table."""

from collections.abc import Iterator

from lance_ops.file.schema.column_names import refused_names
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.table.dataset import Dataset


def check_names(dataset: Dataset) -> Iterator[Finding]:
    """No column has a name that is reserved or empty, or that contains a NUL character."""
    for name, problem in refused_names(dataset.lance_schema):
        message = f"{problem}: pylance cannot read the table; rename column {name!r} or drop it"
        yield Finding("column_names", Severity.ERROR, message)
