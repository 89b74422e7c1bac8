"""Write fragments: one task of a write, in files that are unused until a commit names them."""

from collections.abc import Mapping
from typing import Any, Literal, overload

import pyarrow as pa

from lance_ops.errors import public
from lance_ops.maintenance.ingest.conform import check_schema, conform
from lance_ops.maintenance.ingest.options import KEEPS_SCHEMA, Mode, WriteOptions
from lance_ops.maintenance.ingest.plan import WritePlan, plan_write_on, write_task
from lance_ops.maintenance.sources.open import open_source
from lance_ops.maintenance.target import Target, open_target
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.transaction.operations import Append, Overwrite
from lance_ops.table.transaction.transaction import Transaction, new_transaction

WriteMode = Literal["create", "append", "overwrite"]


@overload
def write_fragments(
    data: Any,
    uri_or_dataset: Target,
    schema: pa.Schema | None = None,
    *,
    mode: WriteMode = "append",
    return_transaction: Literal[False] = False,
    max_rows_per_file: int = MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
    data_storage_version: str | None = None,
    fill_missing: bool = False,
    job_key: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[Fragment, ...]: ...
@overload
def write_fragments(
    data: Any,
    uri_or_dataset: Target,
    schema: pa.Schema | None = None,
    *,
    mode: WriteMode = "append",
    return_transaction: Literal[True],
    max_rows_per_file: int = MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
    data_storage_version: str | None = None,
    fill_missing: bool = False,
    job_key: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Transaction: ...
@public(uri="uri_or_dataset", dataset_uri="uri_or_dataset")
def write_fragments(
    data: Any,
    uri_or_dataset: Target,
    schema: pa.Schema | None = None,
    *,
    mode: WriteMode = "append",
    return_transaction: bool = False,
    max_rows_per_file: int = MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
    data_storage_version: str | None = None,
    fill_missing: bool = False,
    job_key: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[Fragment, ...] | Transaction:
    """Write rows as new fragments, without a commit: one task of a distributed write.

    The files are unused until `commit` adds them, here or in another process; a fragment is serialized as a
    pickle, or as JSON (`fragment_to_json`), which pylance reads and writes, too. A cleanup removes
    uncommitted files after its grace period.

    Args:
        data: See `write_dataset`.
        uri_or_dataset: URI or path where the dataset is or shall be, or a `Dataset`.
        schema: What the data are to be cast to before, where nothing is lost; that of the data when None.
        mode: "append" for rows that fit the dataset, if there is one; "overwrite" for a schema of their own,
            and "create" if there is to be no dataset yet. These two, and "append" where there is none, give
            new ids to the columns: they are committed with an `Overwrite`.
        return_transaction: Return the transaction that would commit these fragments alone.
        max_rows_per_file: Rows after which a new fragment begins.
        max_bytes_per_file: Bytes after which a new fragment begins.
        data_storage_version: See `IngestOptions`.
        fill_missing: See `IngestOptions`.
        job_key: Marks the files as those of a job: they must be committed under it, and after the commit of
            another run of the job, a cleanup removes them at once.
        storage_options: Options of the dataset's store.

    Returns:
        The fragments in the order of the rows, without ids; none when there are no rows.

    Raises:
        DatasetExistsError: mode is "create" and the dataset exists.
        SchemaMismatchError: The data do not fit; lists every mismatch.
        UnsupportedTypeError: The storage version cannot hold a type; lists every field.

    Examples:
        >>> fragments = lo.write_fragments(pa.table({"id": [10, 11]}), "events.lance", fill_missing=True)
        >>> [fragment.physical_rows for fragment in fragments]
        [2]
    """
    chosen: Mode = mode
    options = WriteOptions(
        mode=chosen,
        data_storage_version=data_storage_version,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        fill_missing=fill_missing,
        job_key=job_key,
        storage_options=storage_options,
    )
    source = open_source(data if schema is None else _cast(data, schema))
    store, head = open_target(uri_or_dataset, storage_options)
    if chosen in KEEPS_SCHEMA and head is not None:
        source = source.typed_by(head.schema)
    plan = plan_write_on(store, head, source.read_schemas(), options)
    fragments = write_task(plan.task, source.batches()).fragments
    return _transaction(plan, fragments) if return_transaction else fragments


def _cast(data: Any, schema: pa.Schema) -> pa.RecordBatchReader:
    found = open_source(data).typed_by(schema)
    for what, part in found.read_schemas():
        check_schema(part, schema, what=what, path="", fill_missing=False)
    batches = (conform(batch, schema, fill_missing=False) for batch in found.batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def _transaction(plan: WritePlan, fragments: tuple[Fragment, ...]) -> Transaction:
    if plan.mode == "append":
        assert plan.dataset is not None
        return new_transaction(Append(fragments), plan.dataset.version)
    version = 0 if plan.dataset is None else plan.dataset.version
    return new_transaction(Overwrite(fragments, plan.task.schema), version)
