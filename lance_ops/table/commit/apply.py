"""Application of a transaction: build the manifest after the head. Pure.

Source: transaction.proto; the manifests that pylance writes for each operation.
"""

import re
from datetime import datetime, timedelta
from functools import cache

from lance_ops._version import __version__
from lance_ops.errors import CorruptManifestError, InvalidArgumentError
from lance_ops.file.schema.column_names import check_column_names
from lance_ops.file.schema.pandas_metadata import without_replaced_columns
from lance_ops.file.versions import DEFAULT_STORAGE_VERSION
from lance_ops.table.manifest.feature_flags import Feature, contradictions, flags_for
from lance_ops.table.manifest.field_ids import record_given
from lance_ops.table.manifest.fragments.totals import ids_of, in_id_order
from lance_ops.table.manifest.model import Manifest, WriterVersion
from lance_ops.table.transaction.apply_fragments import check_fragment_id, next_fragment_id
from lance_ops.table.transaction.apply_mem_wal import drop_stale_catchup, record_catchup
from lance_ops.table.transaction.operations import (
    CommittedOperation,
    CreateIndex,
    ManifestOptions,
    Overwrite,
    Restore,
)
from lance_ops.table.transaction.transaction import Transaction, encode_transaction

_TICK = timedelta(microseconds=1)
FORMAT_RULES = "14.0.2"
"""pylance release whose manifest rules are followed: the newest one compared."""


@cache
def writer_version() -> WriterVersion:
    """Return the writer version recorded in manifests.

    The version number is that of the rules (`FORMAT_RULES`); our own is build metadata. Releases of pylance
    compare the number with their own early ones, and those before 1.0 do so whatever the library name. They
    repair manifests of writers before 0.8.15 with every commit by recomputing the coverage of each index from
    its files. That fails for some kinds (all later commits fail) and is wrong for others. Later releases
    compare only if the library is called "lance".
    """
    own = re.sub(r"[^0-9A-Za-z.-]", "-", __version__)
    return WriterVersion("lance_ops", FORMAT_RULES, build_metadata=f"lance-ops.{own}")


def build_manifest(
    current: Manifest | None,
    transaction: Transaction,
    options: ManifestOptions,
    *,
    encoded: bytes | None = None,
) -> Manifest:
    """Apply a transaction.

    Args:
        current: The head; None to create a dataset.
        transaction: What to commit. New fragments get their ids and row ids here.
        options: Options of the caller.
        encoded: Result of `encode_transaction`, if already computed.

    Returns:
        The manifest of the next version, with the transaction in it.

    Raises:
        InvalidArgumentError: The operation does not fit the head, or a new column has a forbidden name.
        CorruptManifestError: No reader could open the successor of the head.
    """
    operation = transaction.operation
    if current is None:
        if not isinstance(operation, Overwrite):
            raise InvalidArgumentError(
                f"{operation.name} needs an existing dataset; only Overwrite creates one"
            )
        current = _nothing(operation, options)
    if not isinstance(operation, CommittedOperation):
        raise InvalidArgumentError(
            f"{operation.kind} can be read in history, not committed", field="operation"
        )
    operation.check(current, schema=options.base_schema)
    changed = _with_data_format(operation.apply(current, options))
    if isinstance(operation, Overwrite):
        check_column_names(changed.schema)
    elif not isinstance(operation, Restore) and changed.schema is not current.schema:
        check_column_names(changed.schema, current.schema)
        changed = changed.replace(schema=without_replaced_columns(changed.schema, current.schema))
    changed = record_given(current, changed, options.highest_field_id)
    version = current.version + 1
    indices = drop_stale_catchup(current.indices, changed.indices, version)
    if isinstance(operation, CreateIndex):
        names = frozenset(index.name for index in operation.new_indices)
        indices = record_catchup(indices, names, frozenset(ids_of(changed.fragments)), version)
    changed = changed.replace(indices=indices)
    fragments = in_id_order(changed.fragments)
    highest = next_fragment_id(changed) - 1
    check_fragment_id(highest)
    manifest = changed.replace(
        version=current.version + 1,
        fragments=fragments,
        max_fragment_id=highest if highest >= 0 else None,
        # Versions are also selected by time ("as of", retention by age): time must not stand still.
        timestamp=_next_timestamp(current.timestamp, options),
        tag=transaction.tag,
        transaction_file=transaction.file_name,
        transaction=encode_transaction(transaction) if encoded is None else encoded,
        writer_version=writer_version(),
    )
    reader_flags, writer_flags = flags_for(manifest)
    result = manifest.replace(reader_flags=reader_flags, writer_flags=writer_flags)
    for what, field in contradictions(result):
        # No reader could open this version, so it must not be published.
        raise CorruptManifestError(what, field=field, hint="restore an older version")
    return result


def _next_timestamp(before: datetime, options: ManifestOptions) -> datetime:
    # A clock that is far ahead would otherwise set the time of all later versions and exempt them from
    # cleanup.
    credible = options.follow_until is None or before <= options.follow_until
    return max(options.timestamp, before + _TICK) if credible else options.timestamp


def _nothing(operation: Overwrite, options: ManifestOptions) -> Manifest:
    flags = int(Feature.STABLE_ROW_IDS) if options.stable_row_ids else 0
    return Manifest(
        version=0,
        schema=operation.schema,
        fragments=(),
        timestamp=options.timestamp - _TICK,
        reader_flags=flags,
        writer_flags=flags,
        data_format=("lance", DEFAULT_STORAGE_VERSION),
        base_paths=operation.initial_bases,
    )


def _with_data_format(manifest: Manifest) -> Manifest:
    """Set the storage version, which old manifests leave to be derived from the files."""
    if manifest.data_format[1] == manifest.storage_version:
        return manifest
    return manifest.replace(data_format=("lance", manifest.storage_version))
