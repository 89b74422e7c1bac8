"""Column lineage, declared or proven, never guessed.

Declared lineage is given by a dataset, an ingest or an asset. Proven lineage is noted by a commit that
computed columns by SQL: the columns in the expressions.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from lance_ops.dagster import keys
from lance_ops.errors import InvalidArgumentError, LanceOpsError
from lance_ops.filter import parse_value

ColumnSources = Mapping[str, Sequence[tuple[dg.AssetKey | str, str]]]
"""For each column, its source columns as (asset, column) pairs; an asset by its key or as "a/b"."""


def column_lineage(sources: ColumnSources) -> dg.TableColumnLineageMetadataValue:
    """Return the value of the metadata `dagster/column_lineage`, for other assets.

    Args:
        sources: Source columns of each column.
    """
    return dg.MetadataValue.column_lineage(
        dg.TableColumnLineage(
            {
                column: [
                    dg.TableColumnDep(asset_key=key_of(asset), column_name=name) for asset, name in pairs
                ]
                for column, pairs in sources.items()
            }
        )
    )


def check_sources(sources: ColumnSources, what: str) -> None:
    """Check the form of a declaration.

    Raises:
        InvalidArgumentError: Names the invalid column.
    """
    for column, pairs in sources.items():
        fits = isinstance(pairs, list | tuple) and all(
            isinstance(pair, list | tuple)
            and len(pair) == 2
            and isinstance(pair[0], str | dg.AssetKey)
            and isinstance(pair[1], str)
            for pair in pairs
        )
        if not fits:
            raise InvalidArgumentError(
                f"{what}: invalid sources of column {column!r}: {pairs!r}",
                field="columns_from",
                hint='use pairs of an asset and a column, e.g. [("raw/orders", "price")]',
            )


def lineage_metadata(
    key: dg.AssetKey,
    schema: pa.Schema,
    declared: ColumnSources,
    properties: Mapping[str, str],
    kept: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Return metadata of a version with the lineage of its columns; empty if none is known.

    Args:
        key: Asset of the dataset.
        schema: Of the version. Declared columns that it lacks are omitted.
        declared: Declared lineage of the dataset.
        properties: Properties of the transaction of the version.
        kept: Proven lineage of earlier commits that still holds.
    """
    known = {name: list(pairs) for name, pairs in declared.items() if name in schema.names}
    for name, columns in (computed_columns(schema, properties) | dict(kept or {})).items():
        known.setdefault(name, [(key, column) for column in columns])
    return {keys.COLUMN_LINEAGE: column_lineage(known)} if known else {}


def noted_expressions(values: Mapping[str, str]) -> dict[str, str]:
    """Return the property in which a commit notes the SQL of computed columns."""
    return {keys.EXPRESSIONS: json.dumps(dict(values))} if values else {}


def key_of(asset: dg.AssetKey | str) -> dg.AssetKey:
    """Return an asset key, also from its parts joined by "/"."""
    return dg.AssetKey(asset.split("/")) if isinstance(asset, str) else asset


def computed_columns(schema: pa.Schema, properties: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the columns in the expressions of a commit; unreadable expressions prove nothing."""
    try:
        expressions = json.loads(properties.get(keys.EXPRESSIONS, "{}"))
    except ValueError:
        return {}
    found: dict[str, list[str]] = {}
    for name, sql in expressions.items() if isinstance(expressions, dict) else ():
        if name not in schema.names or not isinstance(sql, str):
            continue
        try:
            columns = parse_value(sql, schema).root_columns
        except LanceOpsError:
            continue
        found[str(name)] = sorted(columns)
    return {name: columns for name, columns in found.items() if columns}
