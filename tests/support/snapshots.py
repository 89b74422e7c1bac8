"""Snapshots of a dataset made of given tables, without a commit: for tests of what reads them."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lance_ops.file.schema.model import Schema
from lance_ops.storage import Store
from lance_ops.table.data_writer import write_data_files
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.deletion_file import write_deletion_file
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.listing import ManifestLocation, NamingScheme, manifest_path
from tests.support.table_values import manifest


def write_snapshot(
    store: Store,
    tables: Sequence[pa.Table],
    *,
    deleted: Mapping[int, Sequence[int]] | None = None,
    schema: Schema | None = None,
    version: int = 1,
    **more,
) -> Dataset:
    """Write one fragment per table and a manifest that lists them.

    Args:
        store: Root of the dataset.
        tables: Rows of the fragments; columns may be missing.
        deleted: Row offsets by fragment.
        schema: Of the dataset; that of the first table when None.
        version: Of the dataset.
        more: Attributes of the manifest.
    """
    schema = schema or Schema.from_arrow(tables[0].schema)
    fragments = []
    for number, table in enumerate(tables):
        part = schema.project(table.column_names)
        (fragment,) = write_data_files(store, table.to_batches(), part)
        fragments.append(delete_rows(store, fragment.replace(id=number), (deleted or {}).get(number, ())))
    return put_snapshot(store, *fragments, schema=schema, version=version, **more)


def delete_rows(store: Store, fragment: Fragment, offsets: Sequence[int]) -> Fragment:
    """The fragment with these rows deleted."""
    if not offsets:
        return fragment
    vector = DeletionVector.from_offsets(offsets)
    file = write_deletion_file(store, fragment.id, 1, vector, physical_rows=fragment.physical_rows).file
    return fragment.replace(deletion_file=file)


def put_snapshot(store: Store, *fragments: Fragment, version: int = 1, **more) -> Dataset:
    """Write a manifest of these fragments and open it."""
    path = manifest_path(version, NamingScheme.V2)
    versions = {file.storage_version for fragment in fragments for file in fragment.files}
    if len(versions) == 1:
        more.setdefault("data_format", ("lance", *versions))
    store.put(path, encode_manifest(manifest(*fragments, version=version, **more)))
    return Dataset.open(store, version)


def location(version: int) -> ManifestLocation:
    """Where `put_snapshot` puts a version."""
    return ManifestLocation(version, manifest_path(version, NamingScheme.V2))
