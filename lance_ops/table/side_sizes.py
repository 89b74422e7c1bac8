"""Side sizes: bytes of the side files of data files, where the values of blobs of 2.2 lie.

A manifest records the size of a data file and knows nothing of the files beside it, so that these are listed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from lance_ops.file.io.side_files import data_file_of, list_side_files
from lance_ops.file.schema.blob_fields import is_blob_v2
from lance_ops.file.schema.model import Schema
from lance_ops.storage import Store
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.data_file import DataFile

FileKey = tuple[int | None, str]
"""A data file by its base and its path."""

# Folders of so many files are listed one by one, so that a small question does not list a large table.
_FEW = 8


def file_key(file: DataFile) -> FileKey:
    """How side sizes name a data file."""
    return file.base_id, file.path


def may_have_side_files(file: DataFile, blob_fields: frozenset[int]) -> bool:
    """Whether a data file holds blobs of 2.2, of which some may lie beside it.

    Args:
        file: The file.
        blob_fields: See `blob_field_ids`.
    """
    return not blob_fields.isdisjoint(file.fields)


def blob_field_ids(schema: Schema) -> frozenset[int]:
    """Ids of the fields that are blobs of 2.2."""
    return frozenset(node.id for node in schema.walk() if is_blob_v2(node))


def list_side_sizes(bases: Bases, files: Iterable[DataFile]) -> dict[FileKey, dict[str, int]]:
    """Sizes of the side files of data files.

    Args:
        bases: Where files lie.
        files: Data files that may have such files.

    Returns:
        For each data file that has some: bytes of each by its name in the folder of the data file.

    Raises:
        PathEscapeError: A path leaves its base.
        CorruptManifestError: A file lies in a base that is not declared.
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
