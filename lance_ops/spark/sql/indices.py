"""Statements on indices: create, refresh, optimize, show."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.index.upkeep.statistics import IndexDescription, describe_indices
from lance_ops.maintenance.index.operation import create_index, optimize_indices
from lance_ops.spark.sql import results, statements
from lance_ops.spark.sql.names import own_names
from lance_ops.spark.sql.option_values import check_names, typed
from lance_ops.table.dataset import Dataset

_METHODS = {"fts": "INVERTED"}
_WHOLE_BUILD = frozenset({"train", "build_mode", "rows_per_range"})
_TUNING = frozenset({"zone_size", "num_segments", "prefetch_distance"})
"""Tuning options of the connector, without effect here."""


def create_named_index(create: statements.CreateIndex, uri: str, options: Mapping[str, Any]) -> pa.Table:
    """`CREATE INDEX`.

    Args:
        create: The statement.
        uri: The table.
        options: Options of the store, and the runner.
    """
    if len(create.columns) != 1:
        raise UnsupportedError(
            f"an index must have one column, got {len(create.columns)}",
            field="statement",
            hint="create one for each",
        )
    kind = _METHODS.get(create.method, create.method.upper())
    trains = typed("train", create.options.get("train", True), bool)
    if not trains and "num_segments" in create.options:
        raise InvalidArgumentError(
            "an index without training has no segments yet",
            field="num_segments",
            hint="omit the option; REFRESH INDEX builds segments",
        )
    parameters = {name: value for name, value in create.options.items() if name not in _WHOLE_BUILD | _TUNING}
    if kind.endswith("SQ") and parameters.get("num_bits") == 8:
        # The only value, so these kinds have no parameter for it.
        del parameters["num_bits"]
    first, *inner = create.columns[0]
    known = Dataset.open(uri, storage_options=options["storage_options"]).schema.names
    create_index(
        uri,
        format_field_path((own_names(known, [first])[first], *inner)),
        kind,
        name=create.index,
        replace=True,
        parameters=parameters or None,
        train=trains,
        **options,
    )
    return results.one_row(
        results.CREATE_INDEX, _described(uri, create.index, options).num_fragments_indexed, create.index
    )


def maintain_index(maintain: statements.MaintainIndex, uri: str, options: Mapping[str, Any]) -> pa.Table:
    """Run `REFRESH INDEX` and `OPTIMIZE INDEX`; arguments as for `create_named_index`."""
    known = {"num_indices_to_merge", "retrain"}
    if maintain.verb == "refresh":
        # New segments have the parameters of existing ones.
        known = set(maintain.options) - _WHOLE_BUILD
    check_names(maintain.options, known)
    before = _described(uri, maintain.index, options)
    chosen: dict[str, Any] = {}
    if "num_indices_to_merge" in maintain.options:
        chosen["num_indices_to_merge"] = typed(
            "num_indices_to_merge", maintain.options["num_indices_to_merge"], int
        )
    if typed("retrain", maintain.options.get("retrain", False), bool):
        chosen["rebuild"] = True
    done = optimize_indices(uri, [maintain.index], **chosen, **options)
    if "rebuild" in chosen and done.skipped:
        raise UnsupportedError(done.skipped[0], path=uri, field="retrain")
    after = _described(uri, maintain.index, options)
    indexed = max(0, before.num_fragments_unindexed - after.num_fragments_unindexed)
    if maintain.verb == "refresh":
        return results.one_row(results.REFRESH_INDEX, indexed, done.segments_added, maintain.index)
    return results.one_row(
        results.OPTIMIZE_INDEX, maintain.index, indexed, before.num_segments, after.num_segments
    )


def show_indexes(dataset: Dataset) -> pa.Table:
    """Run `SHOW INDEXES`."""
    return results.rows(
        results.SHOW_INDEXES,
        [
            {
                "name": item.name,
                "fields": list(item.field_names),
                "index_type": item.index_type.lower(),
                "num_indexed_fragments": item.num_fragments_indexed,
                "num_indexed_rows": item.num_rows_indexed,
                "num_unindexed_fragments": item.num_fragments_unindexed,
                "num_unindexed_rows": item.num_rows_unindexed,
                "num_segments": item.num_segments,
            }
            for item in describe_indices(dataset)
        ],
    )


def _described(uri: str, index: str, options: Mapping[str, Any]) -> IndexDescription:
    for item in describe_indices(Dataset.open(uri, storage_options=options["storage_options"])):
        if item.name == index:
            return item
    raise InvalidArgumentError(f"index {index!r} does not exist", path=uri, field="statement")
