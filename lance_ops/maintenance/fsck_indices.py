"""Checking that the files of indices can be read, are those of their columns, and what repairs them.

An index that cannot be read costs no rows and changes no answer of ours (`index.reading`), but other readers
may fail every filter on its column, and nothing but building it anew makes it whole.
"""

from collections.abc import Iterator

from lance_ops.errors import LanceOpsError
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.registry import kind_of
from lance_ops.table.dataset import Dataset
from lance_ops.table.index_metadata import IndexMetadata


def unreadable_indices(
    dataset: Dataset, *, deep: bool = False
) -> Iterator[tuple[IndexMetadata, LanceOpsError, str]]:
    """Segments of known kinds that cannot be read.

    Args:
        dataset: The version to look at.
        deep: Read every page, not only the first and what leads there.

    Returns:
        Each with what is wrong, and what to do about it in words.
    """
    for segment in dataset.indices:
        kind = kind_of(segment)
        if segment.is_system or kind is None:
            continue
        try:
            kind.verify(dataset, segment, deep=deep)
        except LanceOpsError as error:
            yield segment, error, _repair(dataset, segment)


def _repair(dataset: Dataset, segment: IndexMetadata) -> str:
    covered = effective_fragments(dataset.manifest, segment)
    use = "queries scan its rows" if covered else "no query needs it"
    try:
        column = dataset.lance_schema.path(segment.fields[0])
    except (LanceOpsError, LookupError):
        return f"{use}; drop it: lance-ops index URI --drop --name {segment.name}"
    named = "" if segment.name == f"{column}_idx" else f" --name {segment.name}"
    return f"{use}; build it anew: lance-ops index URI {column} --replace{named}"
