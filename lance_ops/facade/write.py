"""Opening and writing with pylance's arguments."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, UnsupportedError, VersionNotFoundError, public
from lance_ops.facade.dataset import Dataset
from lance_ops.facade.inputs import with_schema
from lance_ops.facade.parts import auto_cleanup_entries
from lance_ops.maintenance.ingest.options import IngestOptions, Mode

if TYPE_CHECKING:
    from lance_ops.maintenance.ingest.preview import WritePreview
    from lance_ops.storage import Store
    from lance_ops.table.dataset import Dataset as Snapshot
    from lance_ops.table.dataset import DatasetHandle

_TUNING = (
    "allow_external_blob_outside_bases",
    "data_cache_bytes",
    "max_page_bytes",
    "max_rows_per_group",
    "session",
)
_REFUSED: Mapping[str, str] = {
    "base_store_params": "give storage_options",
    "commit_lock": "give committer, such as lance_ops.LockCommitter",
    "external_blob_mode": "leave it out: references stay references",
    "initial_bases": "leave it out",
    "namespace_client": "give the URI of the dataset",
    "table_id": "give the URI of the dataset",
    "target_all_bases": "leave it out",
    "target_bases": "leave it out",
}


@overload
def write_dataset(
    data: Any,
    uri: "str | os.PathLike[str] | Store | Snapshot | DatasetHandle",
    schema: pa.Schema | None = None,
    mode: Mode = "create",
    *,
    predicate: Any = None,
    allow_empty: bool | None = None,
    auto_cleanup_options: Mapping[str, Any] | None = None,
    commit_message: str | None = None,
    enable_v2_manifest_paths: bool = True,
    use_legacy_format: bool | None = None,
    dry_run: Literal[False] = False,
    **options: Unpack[IngestOptions],
) -> Dataset: ...
@overload
def write_dataset(
    data: Any,
    uri: "str | os.PathLike[str] | Store | Snapshot | DatasetHandle",
    schema: pa.Schema | None = None,
    mode: Mode = "create",
    *,
    predicate: Any = None,
    allow_empty: bool | None = None,
    auto_cleanup_options: Mapping[str, Any] | None = None,
    commit_message: str | None = None,
    enable_v2_manifest_paths: bool = True,
    use_legacy_format: bool | None = None,
    dry_run: Literal[True],
    **options: Unpack[IngestOptions],
) -> "WritePreview": ...
@overload
def write_dataset(
    data: Any,
    uri: "str | os.PathLike[str] | Store | Snapshot | DatasetHandle",
    schema: pa.Schema | None = None,
    mode: Mode = "create",
    *,
    predicate: Any = None,
    allow_empty: bool | None = None,
    auto_cleanup_options: Mapping[str, Any] | None = None,
    commit_message: str | None = None,
    enable_v2_manifest_paths: bool = True,
    use_legacy_format: bool | None = None,
    dry_run: bool,
    **options: Unpack[IngestOptions],
) -> "Dataset | WritePreview": ...
@public(
    data_obj="data",
    transaction_properties="properties",
    uri_or_dataset="uri",
    ignored=_TUNING,
    refused=_REFUSED,
)
def write_dataset(
    data: Any,
    uri: "str | os.PathLike[str] | Store | Snapshot | DatasetHandle",
    schema: pa.Schema | None = None,
    mode: Mode = "create",
    *,
    predicate: Any = None,
    allow_empty: bool | None = None,
    auto_cleanup_options: Mapping[str, Any] | None = None,
    commit_message: str | None = None,
    enable_v2_manifest_paths: bool = True,
    use_legacy_format: bool | None = None,
    dry_run: bool = False,
    **options: Unpack[IngestOptions],
) -> "Dataset | WritePreview":
    """Write data to a dataset in one commit, and return it at the new version.

    Columns are matched by name. A column fits if its type is that of the dataset, or every value can be
    converted without loss; all mismatches are listed in one error before anything is written.

    Args:
        data: Paths, directories or globs of Parquet, Arrow IPC, CSV, TSV, JSON, ORC or Avro files, also
            compressed; a Lance table; `read_files` has their options, and `read_query` reads databases. Or
            an Arrow table, batch, reader, dataset or iterable of batches; a list of dicts or a dict of
            columns; a pandas DataFrame, whose named index levels become columns; a Polars frame; a
            `datasets.Dataset`; any object that exports an Arrow stream. Read as a stream.
        uri: URI or path where the dataset is or shall be, or a `Dataset`.
        schema: Names and types of the columns, if the data have others.
        mode: "create" wants no dataset there; "append" adds rows, and creates the dataset if there is none;
            "overwrite" replaces schema and rows in a new version; "replace_where" replaces the rows that
            match `predicate`, in one commit, and creates the dataset if there is none.
        predicate: SQL, for "replace_where". Rows for which it is true are deleted; every row of the data must
            match it, so that the next replacement finds all of them.
        allow_empty: Allow data without rows to replace rows, which are then deleted. The default None allows
            this in mode "overwrite" but not in "replace_where".
        auto_cleanup_options: Let commits to the new dataset clean up: `interval` in versions, `older_than` or
            `retain_versions`.
        commit_message: Stored in the transaction.
        enable_v2_manifest_paths: Only True: new datasets have these names of manifests.
        use_legacy_format: True stands for `data_storage_version="legacy"`.
        dry_run: Return a preview of the columns and casts, and write nothing. Of the data the schema is read
            only; a mismatch is raised.
        **options: See `IngestOptions` and `RunOptions`; tuning options of pylance have no effect. The runner
            writes several input files at once; every other kind of data is one stream written here.

    Returns:
        The dataset; its `result` is the `AppendResult` with what was written.

    Raises:
        DatasetExistsError: mode is "create" and the dataset exists.
        SchemaMismatchError: the data do not fit; lists every mismatch.
        PredicateError: the predicate does not parse, or names an unknown column.
        InvalidArgumentError: rows of the data do not match the predicate, or there are none and
            `allow_empty` is not set. Nothing was changed.
        UnsupportedTypeError: the storage version cannot hold a type; lists every field.
        CommitConflictError: another commit stands in the way.

    Examples:
        >>> lo.write_dataset(pa.table({"id": [1, 2]}), "new.lance").result.rows_added
        2
        >>> lo.write_dataset(pa.table({"id": [3]}), "new.lance", mode="overwrite").version
        2
    """
    from lance_ops.maintenance.distributed.commit import MESSAGE_KEY
    from lance_ops.maintenance.ingest.operation import write_dataset as write
    from lance_ops.maintenance.metadata.actions import update_config
    from lance_ops.maintenance.results import AppendResult
    from lance_ops.table.dataset import Dataset as Snapshot
    from lance_ops.table.dataset import snapshot_of

    if not enable_v2_manifest_paths:
        raise UnsupportedError(
            "new datasets have manifest names of version 2",
            field="enable_v2_manifest_paths",
            hint="leave it out",
        )
    if use_legacy_format is not None:
        if options.get("data_storage_version") is not None:
            raise InvalidArgumentError(
                "give either use_legacy_format or data_storage_version", field="use_legacy_format"
            )
        options["data_storage_version"] = "legacy" if use_legacy_format else "stable"
    if commit_message is not None:
        options["properties"] = {**(options.get("properties") or {}), MESSAGE_KEY: commit_message}
    done = write(
        with_schema(data, schema),
        uri,
        mode=mode,
        predicate=predicate,
        allow_empty=allow_empty,
        dry_run=dry_run,
        **options,
    )
    if not isinstance(done, AppendResult):
        return done
    given = snapshot_of(uri)
    where = uri if given is None else given.store
    # Opened when it is asked for: a write costs no request more.

    def opened() -> "Snapshot":
        try:
            return Snapshot.open(where, done.version, options.get("storage_options"))  # type: ignore[arg-type]
        except VersionNotFoundError:
            # Of an earlier run of the job, and cleaned up since.
            return Snapshot.open(where, None, options.get("storage_options"))  # type: ignore[arg-type]

    made = Dataset(opened)
    if auto_cleanup_options is not None and done.mode == "create":
        update_config(made, auto_cleanup_entries(auto_cleanup_options))
        made.checkout_latest()
    made.result = done
    return made
