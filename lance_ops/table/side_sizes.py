"""Side sizes: bytes of the side files of data files, which store values of blobs of 2.2.

A manifest records the size of a data file, but not of its side files, so these are listed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lance_ops.file.io.side_files import data_file_of, list_side_files
from lance_ops.file.schema.blob_fields import is_blob_v2
from lance_ops.file.schema.model import Schema
from lance_ops.storage import Store
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY, Bases
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment

FileKey = tuple[int | None, str]
"""Key of a data file: its base and its path."""

# Folders of up to so many files are listed one by one, so that a small query does not list a large table.
_FEW = 8


def file_key(file: DataFile) -> FileKey:
    """Return the key of a data file."""
    return file.base_id, file.path


def may_have_side_files(file: DataFile, blob_fields: frozenset[int]) -> bool:
    """Return whether a data file has blobs of 2.2, which may have side files.

    Args:
        file: The file.
        blob_fields: See `blob_field_ids`.
    """
    return not blob_fields.isdisjoint(file.fields)


def blob_field_ids(schema: Schema) -> frozenset[int]:
    """Return ids of the fields that are blobs of 2.2."""
    return frozenset(node.id for node in schema.walk() if is_blob_v2(node))


def with_side_sizes(bases: Bases, schema: Schema, fragments: Sequence[Fragment]) -> Sequence[Fragment]:
    """Return fragments whose data files have sizes of side files, see `DataFile.side_bytes`.

    Args:
        bases: Locations of files.
        schema: Of the table; without blobs of 2.2 nothing is listed.
        fragments: Fragments of the table.

    Returns:
        As many, in the same order; the same object if nothing was listed.
    """
    blobs = blob_field_ids(schema)
    unknown = (
        [
            file
            for fragment in fragments
            for file in fragment.all_files
            if file.side_bytes is None and may_have_side_files(file, blobs)
        ]
        if blobs
        else []
    )
    if not unknown:
        return fragments
    found = list_side_sizes(bases, unknown)
    sizes = {key: sum(found.get(key, {}).values()) for key in map(file_key, unknown)}
    return tuple(fragment.with_side_bytes(sizes) for fragment in fragments)


def list_side_bytes(root: Store) -> dict[str, int]:
    """Return the bytes of side files for each data file of a root, by the path as in manifests."""
    found: dict[str, int] = defaultdict(int)
    for info in root.list(DATA_DIRECTORY):
        owner = data_file_of(info.path)
        if owner is not None:
            found[owner.removeprefix(f"{DATA_DIRECTORY}/")] += info.size
    return found


def list_side_sizes(bases: Bases, files: Iterable[DataFile]) -> dict[FileKey, dict[str, int]]:
    """Return sizes of the side files of data files.

    Args:
        bases: Locations of files.
        files: Data files that may have such files.

    Returns:
        For each data file that has some: bytes of each by its name in the folder of the data file.

    Raises:
        PathEscapeError: A path leaves its base.
        CorruptManifestError: A file refers to a base that is not declared.
    """
    groups: dict[int | None, dict[str, DataFile]] = defaultdict(dict)
    for file in files:
        _, path = bases.data_path(file)
        groups[file.base_id][path] = file
    found: dict[FileKey, dict[str, int]] = {}
    for base_id, wanted in groups.items():
        for path, name, size in _side_files(bases, base_id, wanted):
            found.setdefault(file_key(wanted[path]), {})[name] = size
    return found


def _side_files(
    bases: Bases, base_id: int | None, wanted: Mapping[str, DataFile]
) -> Iterable[tuple[str, str, int]]:
    store: Store = bases.store_for(base_id)
    if len(wanted) <= _FEW:
        listed = ((path, item, size) for path in wanted for item, size in list_side_files(store, path))
    else:
        infos = store.list(bases.data_folder(base_id))
        listed = ((data_file_of(info.path) or "", info.path, info.size) for info in infos)
    return ((path, item.rpartition("/")[2], size) for path, item, size in listed if path in wanted)
