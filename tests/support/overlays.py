"""Data overlays, made by the peer: nobody else makes any."""

import os
import uuid
from collections.abc import Sequence

import lance
import pyarrow as pa
from lance.file import LanceFileWriter
from lance.fragment import DataFile

ALLOWED = "LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES"
"""Variable of the environment without which the peer refuses overlays."""


def lay(
    uri: str,
    values: pa.Table,
    fields: Sequence[int],
    offsets: Sequence[int] | Sequence[Sequence[int]],
    fragment_id: int = 0,
) -> None:
    """Let the peer commit an overlay.

    Args:
        uri: A local dataset.
        values: As many rows as there are offsets.
        fields: Ids of the columns of the file.
        offsets: Rows of the fragment, the same for each column or some for each.
        fragment_id: The fragment.
    """
    dataset = lance.dataset(uri)
    name = f"{uuid.uuid4()}.lance"
    path = f"{uri}/data/{name}"
    version = dataset.data_storage_version
    with LanceFileWriter(path, values.schema, version=version) as writer:
        writer.write_batch(values)
    major, minor = map(int, version.split("."))
    file = DataFile(name, list(fields), list(range(len(fields))), major, minor, os.path.getsize(path))
    overlay = lance.LanceOperation.DataOverlayFile(file, offsets)
    group = lance.LanceOperation.DataOverlayGroup(fragment_id, [overlay])
    operation = lance.LanceOperation.DataOverlay([group])
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)
