"""Declaration of a dataset in the metadata of an asset. Pure.

The keys are those of `OUTPUT_METADATA`; `partition_expr` is the name that Dagster's own IO managers use.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import dagster as dg
import pyarrow as pa

from lance_ops.dagster import keys
from lance_ops.dagster.ingest.partition_predicate import Columns, partition_predicate
from lance_ops.errors import InvalidArgumentError

OutputMode = Literal["overwrite", "append", "replace_where", "merge"]

URI = keys.URI
MODE = "lance/mode"
ON = "lance/on"
PARTITION_EXPR = "partition_expr"
MAX_ROWS_PER_FILE = "lance/max_rows_per_file"
DATA_STORAGE_VERSION = "lance/data_storage_version"
ALLOW_EMPTY = "lance/allow_empty"
FILL_MISSING = "lance/fill_missing"

VERSION = keys.VERSION
COLUMNS = "columns"
FILTER = "lance/filter"

Partitions = dg.PartitionsDefinition[Any]


@dataclass(frozen=True, slots=True)
class AssetDeclaration:
    """Write mode of an asset, and the rows of its partitions.

    Attributes:
        name: Path of the asset key, parts joined by "/".
        mode: None for the default: "merge" with a key, "replace_where" with identified partitions,
            "overwrite" without partitions.
        on: Key columns of "merge".
        partition_expr: The column that identifies the rows of a partition, or that of each dimension.
        options: More arguments of `write_dataset`.
    """

    name: str
    mode: OutputMode | None = None
    on: tuple[str, ...] = ()
    partition_expr: Columns | None = None
    options: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, name: str, metadata: Mapping[str, Any]) -> "AssetDeclaration":
        """Read the metadata of an asset's definition.

        Raises:
            InvalidArgumentError: A value has the wrong type; names asset and key.
        """
        given = {key: getattr(value, "value", value) for key, value in metadata.items()}
        mode = given.get(MODE)
        if mode not in (None, *get_args(OutputMode)):
            raise _wrong(name, MODE, f"unknown mode {mode!r}", f"one of {', '.join(get_args(OutputMode))}")
        on = given.get(ON, ())
        columns = (on,) if isinstance(on, str) else on
        if not _are_texts(columns):
            raise _wrong(
                name,
                ON,
                f"key columns must be a name or a list of names, got {on!r}",
                "a name, or a list of names",
            )
        expr = given.get(PARTITION_EXPR)
        texts = list(expr.values()) if isinstance(expr, Mapping) else [expr]
        if expr is not None and not _are_texts(texts):
            raise _wrong(
                name, PARTITION_EXPR, f"no column: {expr!r}", "use a column, or one for each dimension"
            )
        options = {
            "max_rows_per_file": _typed(name, given, MAX_ROWS_PER_FILE, int),
            "data_storage_version": _typed(name, given, DATA_STORAGE_VERSION, str),
            "allow_empty": _typed(name, given, ALLOW_EMPTY, bool),
            "fill_missing": _typed(name, given, FILL_MISSING, bool),
        }
        return cls(
            name,
            cast("OutputMode | None", mode),
            tuple(columns),
            expr,
            {key: value for key, value in options.items() if value is not None},
        )

    def effective_mode(self, *, partitioned: bool) -> OutputMode:
        """Return the mode of a materialization.

        Raises:
            InvalidArgumentError: The rows of a partition are not identified, or the metadata contradict the
                mode.
        """
        if self.mode == "overwrite" and partitioned:
            raise _wrong(self.name, MODE, "each partition would replace the previous ones", _TELL)
        if self.mode == "replace_where" and (not partitioned or self.partition_expr is None):
            raise _wrong(self.name, MODE, "the rows to replace are not identified", _TELL)
        if self.on and self.mode not in (None, "merge"):
            raise _wrong(
                self.name, ON, f"key columns require mode 'merge', got {self.mode!r}", "remove one of them"
            )
        if self.mode is not None:
            return self.mode
        if self.on:
            return "merge"
        if not partitioned:
            return "overwrite"
        if self.partition_expr is None:
            raise _wrong(
                self.name,
                PARTITION_EXPR,
                "the asset has partitions, and their rows are not identified",
                _TELL,
            )
        return "replace_where"


_AT_RUN_TIME = (MODE, ON, MAX_ROWS_PER_FILE, DATA_STORAGE_VERSION, ALLOW_EMPTY, FILL_MISSING)


def overridden(declared: Mapping[str, Any], output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of an asset, overridden by those of its output.

    URI and partitions cannot be overridden.

    Args:
        declared: Metadata of the asset's definition.
        output: Metadata of the output: `context.add_output_metadata({"lance/mode": "append"})`.
    """
    chosen = {key: output[key] for key in _AT_RUN_TIME if key in output}
    kept = dict(declared)
    if MODE in chosen and ON not in chosen and getattr(chosen[MODE], "value", chosen[MODE]) != "merge":
        # The key belongs to the mode that is overridden.
        kept.pop(ON, None)
    return {**kept, **chosen}


_TELL = f"declare {PARTITION_EXPR!r}, the column that identifies the rows of a partition, or another mode"


def partitions_predicate(
    partitions: Partitions, chosen: Iterable[str], columns: Columns, schema: pa.Schema
) -> str:
    """Return the predicate that selects the rows of some partitions; see `partition_predicate`."""
    parts = [partition_predicate(partitions, key, columns, schema) for key in chosen]
    return parts[0] if len(parts) == 1 else " OR ".join(f"({part})" for part in parts) or "false"


def _are_texts(values: object) -> bool:
    return (
        isinstance(values, Sequence)
        and not isinstance(values, str)
        and all(isinstance(value, str) and value for value in values)
    )


def _typed(name: str, given: Mapping[str, Any], key: str, kind: type) -> Any:
    value = given.get(key)
    if value is None or type(value) is kind:
        return value
    raise _wrong(name, key, f"{value!r} is no {kind.__name__}", f"use a value of type {kind.__name__}")


def _wrong(name: str, key: str, what: str, hint: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"asset {name!r}, metadata {key!r}: {what}", field=key, hint=hint)
