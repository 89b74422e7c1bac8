"""Fsck of blobs: the bytes of blobs of 2.2 exist, within data files and outside of them."""

from collections.abc import Iterator, Mapping

from lance_ops.errors import FileMissingError, LanceOpsError, UnsupportedError
from lance_ops.file.blob_extents import blob_extents
from lance_ops.file.io.side_files import side_folder
from lance_ops.file.reader import FileReader
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.side_sizes import blob_field_ids, file_key, list_side_sizes, may_have_side_files

_HINT = "restore the file under its name, or restore an older version"


def check_blobs(dataset: Dataset) -> Iterator[Finding]:
    """Check that every blob is within its data file or in a side file that exists and is long enough."""
    blobs = blob_field_ids(dataset.lance_schema)
    if not blobs:
        return
    files = {
        file_key(file): (fragment, file)
        for fragment in dataset.manifest.fragments
        for file in fragment.all_files
        if may_have_side_files(file, blobs)
    }
    sizes = list_side_sizes(dataset.bases, (file for _, file in files.values()))
    for key, (fragment, file) in files.items():
        try:
            yield from _file_findings(dataset, fragment, file, sizes.get(key, {}))
        except FileMissingError:
            # The check of files reports it.
            continue
        except LanceOpsError as error:
            severity = Severity.WARNING if isinstance(error, UnsupportedError) else Severity.ERROR
            message = f"cannot check blobs of fragment {fragment.id}: {error.message}"
            yield Finding("blobs_present", severity, message, error.path or file.path)


def _file_findings(
    dataset: Dataset, fragment: Fragment, file: DataFile, sizes: Mapping[str, int]
) -> Iterator[Finding]:
    store, path = dataset.bases.data_path(file)
    reader = FileReader.open(store, path, size=file.size_bytes or None)
    columns = file.live_columns
    vector = dataset.deletion_vector(fragment)
    deleted = None if vector is None else vector.offsets()
    for field in dataset.lance_schema.fields:
        if not any(node.id in columns for node in field.walk()):
            continue
        extents = blob_extents(reader, (field,), columns, deleted)
        of_field = f"blobs of field {field.name!r} of fragment {fragment.id}"
        if extents.within > reader.size_bytes:
            message = (
                f"{of_field} require {extents.within:,} bytes of their data file, which has "
                f"{reader.size_bytes:,}; restore an older version"
            )
            yield Finding("blobs_present", Severity.ERROR, message, path)
        for (base_id, name), needed in sorted(extents.objects.items()):
            try:
                size = dataset.bases.store_for(base_id).size(name)
            except LanceOpsError as error:
                message = f"cannot find an object with {of_field}: {error.message}; {_HINT}"
            else:
                if size >= needed:
                    continue
                message = f"an object with {of_field} has {size:,} bytes, expected {needed:,}; {_HINT}"
            yield Finding("blobs_present", Severity.ERROR, message, name)
        for name, needed in sorted(extents.beside.items()):
            place = f"{side_folder(path)}/{name}"
            found = sizes.get(name)
            if found is None:
                message = f"a side file with {of_field} is missing; {_HINT}"
            elif found < needed:
                message = f"a side file with {of_field} has {found:,} bytes, expected {needed:,}; {_HINT}"
            else:
                continue
            yield Finding("blobs_present", Severity.ERROR, message, place)
