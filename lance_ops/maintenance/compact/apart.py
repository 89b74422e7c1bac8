"""Groups kept apart by narrow dictionaries: they would not shrink, and be due again at once."""

from collections.abc import Iterable

from lance_ops.errors import LanceOpsError
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.maintenance.compact.groups import CompactionGroup
from lance_ops.maintenance.text import ids_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.narrow_dictionaries import NarrowDictionaries, narrow_columns
from lance_ops.table.scan.fragment_reader import FragmentReader

_ROWS = 1 << 17


def without_kept_apart(
    dataset: Dataset, groups: Iterable[CompactionGroup], notes: list[str]
) -> list[CompactionGroup]:
    """Exclude groups that cannot become fewer fragments, which `rewrite_group` would reject.

    Only narrow dictionaries are read, and of a group that can become fewer those of its first fragments.

    Args:
        dataset: The version.
        groups: Candidates.
        notes: Receives a line for each excluded group.
    """
    names = narrow_columns(prepare_schema(dataset.lance_schema).arrow)
    if not names:
        return list(groups)
    kept: list[CompactionGroup] = []
    for group in groups:
        if group.deleted_rows or not _is_kept_apart(dataset, group, names):
            kept.append(group)
        else:
            notes.append(
                f"fragments {ids_text(group.fragment_ids)} cannot be merged: the dictionaries of "
                f"{', '.join(names)} together have more values than their index type allows; give the "
                "column a wider index type, or plain values, with alter_columns"
            )
    return kept


def _is_kept_apart(dataset: Dataset, group: CompactionGroup, names: list[str]) -> bool:
    schema = dataset.lance_schema.select(names)
    version = dataset.manifest.storage_version
    arrow = prepare_schema(schema).arrow
    known = NarrowDictionaries(arrow, version)
    files = 1
    try:
        for number, fragment in enumerate(group.fragments):
            for batch in FragmentReader(dataset, fragment).iter_batches(schema, batch_rows=_ROWS):
                if not known.add(batch):
                    known, files = NarrowDictionaries(arrow, version), files + 1
                    known.add(batch)
            if files <= number:
                return False
    except LanceOpsError:
        # The rewrite reports the error.
        return False
    return files > group.files
