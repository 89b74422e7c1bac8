"""Column lineage that was proven by earlier commits and still holds for the newest version.

A column is unchanged as long as its field keeps its id and the rows for which it was computed keep their
values: rows may be added, removed and moved, columns may be added, renamed and dropped. Any other commit, and
an unreadable one, ends the proof.
"""

from collections.abc import Mapping, Sequence

from lance_ops.dagster import keys
from lance_ops.dagster.lineage import computed_columns
from lance_ops.errors import LanceOpsError
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.history import HistoryEntry
from lance_ops.table.manifest.model import Manifest

VERSIONS = 50
"""Number of versions to search for a proof."""

_KEEP_VALUES = frozenset(
    {"Append", "Delete", "Rewrite", "CreateIndex", "ReserveFragments", "UpdateConfig", "Merge", "Project"}
)


def kept_lineage(dataset: Dataset) -> dict[str, list[str]]:
    """Return columns of the newest version with the columns they were computed from, by present names.

    Args:
        dataset: The newest version.
    """
    history = dataset.history(VERSIONS)
    found: dict[str, list[str]] = {}
    present = {field.id: field.name for field in dataset.lance_schema.fields}
    for position, entry in enumerate(history):
        if position and not _keeps(history[position - 1], entry):
            break
        if keys.EXPRESSIONS not in entry.properties or entry.operation != "Merge":
            continue
        try:
            for column, sources in _proven(dataset, entry, history[:position], present).items():
                found.setdefault(column, sources)
        except LanceOpsError:
            break
    return found


def _keeps(later: HistoryEntry, earlier: HistoryEntry) -> bool:
    """Return whether a commit keeps the values of columns of its predecessor."""
    return later.version == earlier.version + 1 and not later.damage and later.operation in _KEEP_VALUES


def _proven(
    dataset: Dataset, entry: HistoryEntry, since: Sequence[HistoryEntry], present: Mapping[int, str]
) -> dict[str, list[str]]:
    """Return the proof of a commit that added columns, for those that still exist."""
    made = dataset.checkout_version(entry.version)
    ids = {field.name: field.id for field in made.lance_schema.fields}
    before = _manifest(dataset, entry.version - 1)
    old = {field.id for field in before.schema.fields}
    merges = [later.version for later in since if later.operation == "Merge"]
    found: dict[str, list[str]] = {}
    for name, sources in computed_columns(made.schema, entry.properties).items():
        number = ids[name]
        if number in old or number not in present or any(ids[source] not in present for source in sources):
            continue
        if all(_is_in_the_same_files(dataset, version, number) for version in merges):
            found[present[number]] = sorted(present[ids[source]] for source in sources)
    return found


def _is_in_the_same_files(dataset: Dataset, version: int, field: int) -> bool:
    """Return whether a merge left a column of all existing fragments in its files."""
    before, after = (_files(_manifest(dataset, number), field) for number in (version - 1, version))
    return all(after.get(fragment) == files for fragment, files in before.items() if fragment in after)


def _files(manifest: Manifest, field: int) -> dict[int, tuple[str, ...]]:
    return {
        fragment.id: tuple(file.path for file in fragment.files if field in file.fields)
        for fragment in manifest.fragments
    }


def _manifest(dataset: Dataset, version: int) -> Manifest:
    return dataset.checkout_version(version).manifest
