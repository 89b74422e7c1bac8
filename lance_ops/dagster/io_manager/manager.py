"""IO manager: outputs of assets become versions of datasets, inputs are read from datasets.

The asset is the dataset: the event that Dagster stores for a materialization is the event of the version,
with its data version and numbers, and the manifest sensor publishes the versions of other writers.
"""

from dataclasses import replace
from typing import Any

import dagster as dg
from pydantic import Field

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.io_manager.declaration import VERSION, AssetDeclaration, overridden
from lance_ops.dagster.io_manager.load_input import load_rows, selection_of
from lance_ops.dagster.io_manager.output_event import describe_output
from lance_ops.dagster.io_manager.store_output import notes_of, store_rows
from lance_ops.dagster.jobs.failures import translated_errors
from lance_ops.dagster.registry import REGISTRY
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.version_event import as_metadata
from lance_ops.errors import InvalidArgumentError

_SUFFIX = ".lance"


class LanceIOManager(dg.ConfigurableIOManager):
    """Writes outputs of assets to Lance datasets, and reads datasets as inputs.

    An output may be any data for `write_dataset` (Arrow, pandas, Polars, paths of files) or a Spark
    DataFrame. An input has the type of the parameter: a pyarrow Table (the default) or RecordBatchReader, a
    pandas, Polars or Spark DataFrame, a Polars LazyFrame, or a `lance_ops.Dataset`.

    Metadata of the asset control the write: `lance/mode` ("overwrite", the default without partitions,
    "append", "replace_where", the default with partitions, "merge"), `partition_expr` (the column that
    identifies the rows of a partition, or one for each dimension), `lance/on` (the key columns of a merge,
    which is the default if they are given), `dagster/uri` (its URI, if not under `root`),
    `lance/max_rows_per_file`, `lance/data_storage_version`, `lance/allow_empty`, `lance/fill_missing`,
    `lance/columns_from` (column lineage: {column: [[asset, column]]}). Metadata of an `AssetIn` control the
    read: `lance/version` (a number or a tag; the newest by default), `columns`, `lance/filter`.

    Retries of a step, and re-executions of a failed run, commit once.
    """

    root: str = Field(
        default="",
        description="Folder or URI of assets without a `dagster/uri`, as <root>/<key>.lance.",
    )
    store: LanceStoreResource = Field(description="Opens datasets and runs tasks.")

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write the output of a step, in one commit.

        Raises:
            InvalidArgumentError: The metadata contradict each other, or the output is None.
        """
        ref = self._ref(context, context.definition_metadata or {})
        declaration = AssetDeclaration.of(
            ref.name, overridden(context.definition_metadata or {}, context.output_metadata or {})
        )
        if obj is None:
            raise InvalidArgumentError(
                f"asset {ref.name!r} returned None: there is nothing to write",
                path=ref.uri,
                field="return",
                hint="return rows; annotate a function that writes by itself with `-> None`, or return "
                "a MaterializeResult",
            )
        notes = notes_of(context)
        with translated_errors(ref, retry_number=notes.retry_number, conflict_retries=2, pause=30.0):
            result = store_rows(context, declaration, ref, self.store, notes, obj)
        described = describe_output(context, ref, self.store, notes, result)
        if described.data_version is not None and context.has_asset_key:
            context.step_context.set_data_version(context.asset_key, dg.DataVersion(described.data_version))
        context.add_output_metadata(described.metadata)

    def load_input(self, context: dg.InputContext) -> Any:
        """Read the input of a step.

        Raises:
            DatasetNotFoundError: There is no such dataset.
            VersionNotFoundError: It has no such version.
            InvalidArgumentError: The type of the parameter is not supported.
        """
        upstream = context.upstream_output
        noted = dict(upstream.definition_metadata or {}) if upstream is not None else {}
        ref = self._ref(upstream if context.has_asset_key is False and upstream else context, noted)
        selection = selection_of(context, AssetDeclaration.of(ref.name, noted))
        dataset = self.store.open(ref, selection.version)
        # Dagster has no observation of several partitions.
        if context.has_asset_key and (
            not context.has_asset_partitions or len(list(context.asset_partition_keys)) == 1
        ):
            context.add_input_metadata(as_metadata({VERSION: dataset.version, keys.URI: ref.uri}))
        return load_rows(dataset, selection, context.dagster_type.typing_type, self.store)

    def _ref(self, context: dg.OutputContext | dg.InputContext, metadata: Any) -> LanceDatasetRef:
        """Return the declared dataset of an asset, or that of an output of an op."""
        path = list(context.asset_key.path) if context.has_asset_key else list(context.get_identifier())
        name = "/".join(path)
        uri = getattr(metadata.get(keys.URI), "value", metadata.get(keys.URI))
        if uri is None:
            if not self.root:
                raise InvalidArgumentError(
                    f"the dataset of {name!r} has no URI",
                    field="root",
                    hint=f"set root of the LanceIOManager, or the metadata {keys.URI!r} of the asset",
                )
            if any(part in ("", ".", "..") or "/" in part or "\\" in part for part in path):
                raise InvalidArgumentError(
                    f"the key {name!r} leads outside of the root, or to no separate folder",
                    field="key",
                    hint=f"change the parts of the key, or set the metadata {keys.URI!r} of the asset",
                )
            uri = "/".join([self.root.rstrip("/"), *path]) + _SUFFIX
        sources = getattr(metadata.get(keys.COLUMNS_FROM), "value", metadata.get(keys.COLUMNS_FROM))
        declared = REGISTRY.find(name, str(uri))
        if declared is not None:
            return replace(declared, columns_from={**(sources or {}), **declared.columns_from})
        return LanceDatasetRef(name, str(uri), columns_from=sources or {})
