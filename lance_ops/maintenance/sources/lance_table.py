"""Lance table: the rows of one version of another table, with columns and a filter, as a source."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.sources.source import LazySource, StreamSource
from lance_ops.storage.paths import is_address
from lance_ops.table.dataset import Dataset


def is_lance_table(path: str) -> bool:
    """Return whether a path is that of a Lance table; a URI by the end of its name."""
    if is_address(path):
        return path.partition("?")[0].rstrip("/").endswith(".lance")
    return (Path(path) / "_versions").is_dir()


def open_table(
    uri: str,
    version: int | str | None = None,
    columns: Iterable[str] | None = None,
    filter: str | None = None,  # noqa: A002 - as in `Dataset.scanner`
    storage_options: Mapping[str, str] | None = None,
) -> LazySource:
    """Open a source of the rows of a Lance table.

    Args:
        uri: Path or URI of the table.
        version: Number of a version, or a tag; the newest if None.
        columns: Names of columns; all if None.
        filter: SQL condition of the rows.
        storage_options: Options of its store.

    Raises:
        DatasetNotFoundError: There is none. Raised when the source is read, like the following.
        PredicateError: The filter does not parse.
    """

    def make() -> StreamSource:
        table = Dataset.open(uri, version, storage_options)
        chosen = None if columns is None else list(columns)
        reader = table.scanner(chosen, filter).to_batches()
        return StreamSource(reader.schema, reader, what=f"version {table.version} of {uri}")

    if isinstance(columns, str):
        raise InvalidArgumentError(f"expected a list of names, got {columns!r}", field="columns")
    return LazySource(make)
