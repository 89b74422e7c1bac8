"""Column lineage: which columns of assets feed those of a dataset, declared or proven, never guessed.

Declared is what a dataset, an ingest or an asset says itself. Proven is what a commit notes of columns that
it computed by SQL: the columns that the expressions read.
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
"""Of each column, the (asset, column) pairs that feed it; an asset by its key or as "a/b"."""


def column_lineage(sources: ColumnSources) -> dg.TableColumnLineageMetadataValue:
    """The value of the metadata `dagster/column_lineage`, for assets of one's own.

    Args:
        sources: Which columns feed which.
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
    """See that a declaration has the shape of one.

    Raises:
        InvalidArgumentError: Names the column that has not.
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
                f"{what}: column {column!r} comes from {pairs!r}",
                field="columns_from",
                hint='pairs of an asset and a column, e.g. [("raw/orders", "price")]',
            )


def lineage_metadata(
    key: dg.AssetKey,
    schema: pa.Schema,
    declared: ColumnSources,
    properties: Mapping[str, str],
    kept: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Metadata of a version with the lineage of its columns; nothing when none is known.

    Args:
        key: Asset of the dataset.
        schema: Of the version. Declared columns that it has not are left out.
        declared: What is declared of the dataset.
        properties: Of the transaction that made the version.
        kept: What earlier commits proved, and still holds, of columns by columns of the dataset.
    """
    known = {name: list(pairs) for name, pairs in declared.items() if name in schema.names}
    for name, columns in (computed_columns(schema, properties) | dict(kept or {})).items():
        known.setdefault(name, [(key, column) for column in columns])
    return {keys.COLUMN_LINEAGE: column_lineage(known)} if known else {}


def noted_expressions(values: Mapping[str, str]) -> dict[str, str]:
    """The property by which a commit notes the SQL of the columns that it computes."""
    return {keys.EXPRESSIONS: json.dumps(dict(values))} if values else {}


def key_of(asset: dg.AssetKey | str) -> dg.AssetKey:
    """An asset key, also from its parts joined by "/"."""
    return dg.AssetKey(asset.split("/")) if isinstance(asset, str) else asset


def computed_columns(schema: pa.Schema, properties: Mapping[str, str]) -> dict[str, list[str]]:
    """The columns that the expressions of a commit read; what cannot be read any more proves nothing."""
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
