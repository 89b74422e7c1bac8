"""Small fragments, read as one: tables that grow by small appends have thousands of them."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from lance_ops.errors import LanceOpsError
from lance_ops.file.joined_files import JoinedFiles, SmallFile
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.file.versions import is_legacy
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.fragment import Fragment

# More bytes or rows gain nothing, and a run takes no more memory than a large fragment.
_SMALL_BYTES = 64 << 10
_RUN_BYTES = 8 << 20
_RUN_ROWS = 1 << 16
_RUN_FILES = 256

_T = TypeVar("_T")


class FragmentGroup:
    """Fragments, without deletions, whose rows follow each other.

    Args:
        bases: Where files lie.
        fragments: Two or more, as `find_groups` put them together.
    """

    def __init__(self, bases: Bases, fragments: Sequence[Fragment]) -> None:
        self._bases = bases
        self._fragments = fragments
        self._files: JoinedFiles | None = None

    @property
    def num_rows(self) -> int:
        """Rows of all of them."""
        return sum(fragment.physical_rows for fragment in self._fragments)

    def read(self, schema: Schema) -> pa.Table | None:
        """All rows of some columns.

        Args:
            schema: The columns, all of which the files have.

        Returns:
            A table of exactly the Arrow schema of `schema`. None when the fragments have to be read one by
            one, which also says what is wrong with a damaged one.
        """
        file = self._fragments[0].files[0]
        if not prepare_schema(schema).leaves <= set(file.fields):
            return None
        try:
            if self._files is None:
                self._files = JoinedFiles([self._small_file(fragment) for fragment in self._fragments])
            return self._files.read_table(schema, file.live_columns)
        except LanceOpsError:
            return None

    def _small_file(self, fragment: Fragment) -> SmallFile:
        (file,) = fragment.files
        store, path = self._bases.data_path(file)
        return SmallFile(store, path, file.size_bytes, fragment.physical_rows)


def find_groups(
    items: Iterable[_T], fragment_of: Callable[[_T], Fragment | None], max_rows: int = _RUN_ROWS
) -> Iterator[Sequence[_T]]:
    """Put those together whose fragments can be read as one; all others stand alone.

    Args:
        items: In the order of their rows.
        fragment_of: The fragment of one, None for one that must stand alone.
        max_rows: Of a run.
    """
    max_rows = min(max_rows, _RUN_ROWS)
    run: list[_T] = []
    kind: Hashable = None
    rows = size = 0
    for item in items:
        fragment = fragment_of(item)
        own, more_rows, more_bytes = None, 0, 0
        if fragment is not None:
            own, more_rows, more_bytes = _kind(fragment), fragment.physical_rows, fragment.data_bytes
        fits = (
            own is not None
            and own == kind
            and rows + more_rows <= max_rows
            and size + more_bytes <= _RUN_BYTES
            and len(run) < _RUN_FILES
        )
        if run and not fits:
            yield run
            run, rows, size = [], 0, 0
        run.append(item)
        kind, rows, size = own, rows + more_rows, size + more_bytes
    if run:
        yield run


def _kind(fragment: Fragment) -> Hashable:
    """What the fragments of a run have in common; None of one that must stand alone."""
    if (
        len(fragment.files) != 1
        or not 0 < fragment.files[0].size_bytes <= _SMALL_BYTES
        or not fragment.physical_rows
        or fragment.deletion_file is not None
        or fragment.has_overlays
    ):
        return None
    (file,) = fragment.files
    if is_legacy(file.major, file.minor):
        return None
    return file.fields, file.column_indices, file.major, file.minor
