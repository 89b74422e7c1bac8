"""Row lineage of new fragments: store sequences in the manifest, or in a data file of their own."""

from collections.abc import Mapping

import pyarrow as pa

from lance_ops.file.schema.model import Field, Schema
from lance_ops.table.data_writer import write_data_files
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.data_file import LINEAGE_FIELDS
from lance_ops.table.manifest.fragment import Fragment, SpilledSequence
from lance_ops.table.manifest.row_ids import encode_row_ids, encode_row_versions
from lance_ops.table.row_lineage.read import COLUMNS, UInt64Array


def store_sequences(
    bases: Bases,
    fragment: Fragment,
    sequences: Mapping[str, UInt64Array],
    *,
    storage_version: str,
    limit: int | None,
    job_key: str | None = None,
) -> Fragment:
    """Store the sequences of a new fragment, in the manifest or in an additional data file.

    Args:
        bases: Locations of files.
        fragment: The fragment, whose data files are already written.
        sequences: The values, one for each physical row, by name.
        storage_version: Of the additional file.
        limit: See `spill_limit`.
        job_key: See `write_data_files`.
    """
    changes: dict[str, object] = {}
    spilled: dict[str, UInt64Array] = {}
    for name, values in sequences.items():
        encoded = encode_row_ids(values) if name == "row_ids" else encode_row_versions(values)
        if limit is not None and len(encoded) > limit:
            spilled[name] = values
            changes[name] = SpilledSequence()
        else:
            changes[name] = encoded
    if spilled:
        batch = pa.record_batch(
            [pa.array(values, pa.uint64()) for values in spilled.values()],
            schema=_schema(*spilled).to_arrow(),
        )
        (written,) = write_data_files(
            bases.root,
            [batch],
            _schema(*spilled),
            version=storage_version,
            max_rows_per_file=fragment.physical_rows,
            job_key=job_key,
        )
        changes["files"] = (*fragment.files, *written.files)
    return fragment.replace(**changes)


def _schema(*names: str) -> Schema:
    return Schema(
        tuple(Field(LINEAGE_FIELDS[name], -1, COLUMNS[name], "uint64", nullable=False) for name in names)
    )
