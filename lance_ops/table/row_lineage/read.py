"""Row lineage: row ids and row versions of a fragment. Source: format, "Row ID & Lineage".

A sequence is stored in the manifest, in a file of its own, or ("spilled", feature flag 2048) as a hidden
column of uint64 under a reserved field id in exactly one of the fragment's data files.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CorruptFileError, CorruptManifestError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Field, Schema
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.data_file import LINEAGE_FIELDS, DataFile
from lance_ops.table.manifest.fragment import ExternalFile, Fragment, SpilledSequence
from lance_ops.table.manifest.row_ids import (
    decode_row_ids,
    decode_row_versions,
)

SPILL_CONFIG = "lance.row_lineage.spill"
SPILL_LIMIT_CONFIG = "lance.row_lineage.inline_max_bytes"
_SPILL_LIMIT = 200 << 10

COLUMNS = {
    "row_ids": "_rowid",
    "created_at_versions": "_row_created_at_version",
    "last_updated_at_versions": "_row_last_updated_at_version",
}

UInt64Array = npt.NDArray[np.uint64]


def read_sequence(bases: Bases, fragment: Fragment, name: str) -> UInt64Array:
    """Read one sequence.

    Args:
        bases: Locations of files.
        fragment: The fragment.
        name: A key of `LINEAGE_FIELDS`.

    Returns:
        uint64 of shape (physical rows,).

    Raises:
        CorruptManifestError: The sequence is damaged, missing or of another length than the fragment, or its
            column is in no data file or in several.
        CorruptFileError: The data file is damaged, or the column has nulls.
        FileMissingError: Its file does not exist.
    """
    sequence = getattr(fragment, name)
    root, rows = bases.root.uri, fragment.physical_rows
    if sequence is None:
        raise CorruptManifestError(
            f"{name} of fragment {fragment.id} are missing, but the table has stable row ids",
            path=root,
            field=name,
        )
    if isinstance(sequence, SpilledSequence):
        return _read_column(bases, fragment, name)
    if isinstance(sequence, ExternalFile):
        store, path = bases.external_path(sequence)
        sequence = bytes(store.read(path, sequence.offset, sequence.size))
    decode = decode_row_ids if name == "row_ids" else decode_row_versions
    return decode(sequence, rows=rows, path=root)


def read_sequences(bases: Bases, fragment: Fragment) -> dict[str, UInt64Array]:
    """Read all three sequences by name; see `read_sequence`.

    Old writers recorded no versions: such rows count as created in version 1, as in pylance.
    """
    ids = read_sequence(bases, fragment, "row_ids")
    created = np.ones(fragment.physical_rows, dtype=np.uint64)
    if fragment.created_at_versions is not None:
        created = read_sequence(bases, fragment, "created_at_versions")
    updated = created
    if fragment.last_updated_at_versions is not None:
        updated = read_sequence(bases, fragment, "last_updated_at_versions")
    return {"row_ids": ids, "created_at_versions": created, "last_updated_at_versions": updated}


def lineage_file(fragment: Fragment, name: str) -> DataFile:
    """Return the data file of a spilled sequence.

    Raises:
        CorruptManifestError: None has it, or several do.
    """
    holding = [file for file in fragment.files if file.lineage_column(name) is not None]
    if len(holding) != 1:
        raise CorruptManifestError(
            f"{len(holding) or 'no'} data files of fragment {fragment.id} have its {name}, expected one",
            path=", ".join(file.path for file in fragment.files),
            field=name,
            hint="read other columns, or restore an older version",
        )
    return holding[0]


def spill_limit(config: Mapping[str, str]) -> int | None:
    """Return the size in bytes above which sequences are stored in data files; None for never.

    Args:
        config: Config of the table.
    """
    if config.get(SPILL_CONFIG, "").strip().lower() != "true":
        return None
    limit = config.get(SPILL_LIMIT_CONFIG, "").strip()
    return int(limit) if limit.isdecimal() else _SPILL_LIMIT


def _read_column(bases: Bases, fragment: Fragment, name: str) -> UInt64Array:
    file = lineage_file(fragment, name)
    column = file.lineage_column(name)
    assert column is not None
    store, path = bases.data_path(file)
    reader = FileReader.open(store, path, size=file.size_bytes or None)
    if reader.num_rows != fragment.physical_rows:
        raise CorruptFileError(
            f"row count does not match the manifest (expected {fragment.physical_rows}, got "
            f"{reader.num_rows})",
            path=f"{store.uri}/{path}",
        )
    nullable = Field(LINEAGE_FIELDS[name], -1, COLUMNS[name], "uint64")
    values = reader.read_table(Schema((nullable,)), {nullable.id: column}).column(0)
    if values.null_count:
        raise CorruptFileError(
            f"{values.null_count} of the {name} of fragment {fragment.id} are null",
            path=f"{store.uri}/{path}",
        )
    return np.asarray(values.combine_chunks().to_numpy(zero_copy_only=False), dtype=np.uint64)
