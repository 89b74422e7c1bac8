"""Field ids that a table has given out, so that a new column gets one that no column had before."""

from collections.abc import Iterable

from lance_ops.table.manifest.fragment import Fragment


def stored_ids(fragments: Iterable[Fragment]) -> set[int]:
    """Field ids under which data files hold values, also those of dropped columns."""
    return {
        number
        for fragment in fragments
        for file in fragment.all_files
        for number in file.fields
        if number >= 0
    }
