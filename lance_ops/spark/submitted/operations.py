"""Operations by name: run a request with a runner, here or on a cluster."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.columns.alter import Alteration, alter_columns
from lance_ops.maintenance.columns.operation import add_columns
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.compact_wal.operation import compact_wal
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.index.decision import WearLimits
from lance_ops.maintenance.index.operation import create_index, optimize_indices
from lance_ops.maintenance.index.several import WantedIndex, build_indices
from lance_ops.maintenance.ingest.operation import write_dataset
from lance_ops.maintenance.maintain.operation import maintain
from lance_ops.maintenance.merge_insert.operation import merge_insert
from lance_ops.maintenance.progress import Progress
from lance_ops.maintenance.runner import Runner
from lance_ops.maintenance.sources.open import described_input
from lance_ops.maintenance.update.operation import update
from lance_ops.spark.submitted.request import Request, import_named

Arguments = Mapping[str, Any]


def operate(
    request: Request, *, runner: Runner, progress: Progress | None, storage_options: Mapping[str, str] | None
) -> object:
    """Run a request.

    Args:
        request: Request of an operation of `OPERATIONS`.
        runner: Runs its tasks; commits are made here.
        progress: Receives progress events.
        storage_options: Options of the dataset's store.

    Returns:
        Its result, or its plan.

    Raises:
        InvalidArgumentError: The operation is unknown.
    """
    work = OPERATIONS.get(request.operation)
    if request.operation in _ELSEWHERE:
        work = import_named(_ELSEWHERE[request.operation], field="operation")
    if work is None:
        raise InvalidArgumentError(
            f"unknown operation {request.operation!r}",
            field="operation",
            hint=f"one of {', '.join((*OPERATIONS, *_ELSEWHERE))}",
        )
    options: dict[str, Any] = {
        "runner": runner,
        "job_key": request.job_key,
        "properties": dict(request.properties),
        "progress": progress,
        "storage_options": storage_options,
    }
    return work(request.uri, dict(request.arguments), options)


def _input_of(given: dict[str, Any]) -> Any:
    """Take the input out of arguments."""
    names = ("paths", "read_options", "query", "database")
    return described_input(**{name: given.pop(name) for name in names if name in given})


def _append(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    given = dict(arguments)
    return write_dataset(_input_of(given), uri, mode="append", **given, **options)


def _merge_insert(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    given = dict(arguments)
    return merge_insert(uri, _input_of(given), given.pop("on"), **given, **options)


def _update(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    given = dict(arguments)
    return update(uri, given.pop("values"), given.pop("where"), **given, **options)


def _delete(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    given = dict(arguments)
    return delete(uri, given.pop("predicate"), **given, **options)


def _add_columns(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    values, function = arguments["values"], arguments["function"]
    if bool(values) == bool(function):
        raise InvalidArgumentError(
            "use either SQL expressions or a function for the new columns", field="values, function"
        )
    columns = import_named(function, field="function") if function else values
    return add_columns(uri, columns, dry_run=arguments["dry_run"], **options)


def _alter_columns(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    asked = [_alteration(item) for item in arguments["alterations"]]
    return alter_columns(uri, *asked, dry_run=arguments["dry_run"], **options)


def _alteration(values: Mapping[str, Any]) -> Alteration:
    """Return the alteration of one column, with its type by name.

    Raises:
        InvalidArgumentError: The type is unknown.
    """
    name = values.get("data_type")
    if name is None:
        return cast("Alteration", dict(values))
    try:
        return cast("Alteration", {**values, "data_type": pa.type_for_alias(name)})
    except ValueError as error:
        raise InvalidArgumentError(
            f"unknown type {name!r}",
            field="data_type",
            hint="use an Arrow name: int64, float, double, string, date32, timestamp[us]",
        ) from error


def _compact(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    return compact(uri, **arguments, **options)


def _compact_wal(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    return compact_wal(uri, **arguments, **options)


def _maintain(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    given = dict(arguments)
    return maintain(uri, MaintenancePolicy.of_values(given.pop("policy")), **given, **options)


def _create_index(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    given = dict(arguments)
    return create_index(uri, given.pop("column"), given.pop("kind"), **given, **options)


def _optimize_indices(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    given = _refresh(arguments)
    return optimize_indices(uri, given.pop("names"), **given, **options)


def _build_indices(uri: str, arguments: Arguments, options: dict[str, Any]) -> object:
    wanted = [WantedIndex(**item) for item in arguments["wanted"]]
    return build_indices(
        uri,
        wanted,
        options,
        replace_all=arguments["replace"],
        dry_run=arguments["dry_run"],
        refresh=_refresh(arguments["refresh"]),
    )


def _refresh(arguments: Arguments) -> dict[str, Any]:
    return {**arguments, "limits": WearLimits(**arguments["limits"])}


OPERATIONS: Mapping[str, Callable[[str, Arguments, dict[str, Any]], object]] = {
    "append": _append,
    "merge_insert": _merge_insert,
    "update": _update,
    "delete": _delete,
    "add_columns": _add_columns,
    "alter_columns": _alter_columns,
    "compact": _compact,
    "compact_wal": _compact_wal,
    "maintain": _maintain,
    "create_index": _create_index,
    "optimize_indices": _optimize_indices,
    "build_indices": _build_indices,
}
"""The operations by their names in requests."""

_ELSEWHERE: Mapping[str, str] = {"fleet_run": "lance_ops.fleet.run.submitted:run_submitted"}
"""Operations of packages above this one, by their location."""
