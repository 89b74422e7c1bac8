"""Repair command of a damaged index: rebuild it with its parameters, or drop it if that is not possible."""

import json
import shlex
from typing import Any

from lance_ops.errors import InvalidArgumentError, LanceOpsError, StorageError, UnsupportedError
from lance_ops.file.schema.model import Field
from lance_ops.index.default_name import default_index_name
from lance_ops.index.kind import IndexKind, Parameters
from lance_ops.index.reading import reading
from lance_ops.index.registry import kind_by_name, kind_of, parameters_as_made
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata

_DEFAULT_KIND = "BTREE"


def repair_of(dataset: Dataset, segment: IndexMetadata) -> str:
    """Return the repair of a damaged index, with a command.

    Args:
        dataset: The version.
        segment: A damaged segment of the index.
    """
    kind = kind_of(segment)
    field = dataset.lance_schema.by_id(segment.fields[0]) if len(segment.fields) == 1 else None
    drop = f"lance-ops index URI --drop --name {shlex.quote(segment.name)}"
    if kind is None or field is None:
        return f"drop it: {drop}"
    try:
        options, is_known = _options(dataset, segment, kind, field)
    except StorageError:
        raise
    except LanceOpsError as error:
        return f"drop it, since it cannot be rebuilt here ({error.message}): {drop}"
    column = dataset.lance_schema.path(field.id)
    if segment.name != default_index_name(dataset, column):
        options = ["--name", segment.name, *options]
    command = shlex.join(["lance-ops", "index", "URI", column, "--replace", *options])
    if is_known:
        return f"rebuild it: {command}"
    return f"rebuild it, with its parameters besides those recorded in the manifest: {command}"


def _options(
    dataset: Dataset, segment: IndexMetadata, kind: IndexKind, field: Field
) -> tuple[list[str], bool]:
    """Return options for an index of the same kind, with non-default parameters.

    Also returns whether all of them are known; otherwise at least one is given, as required for a
    replacement.

    Raises:
        LanceOpsError: The index cannot be built.
    """
    kind.check_new(field)
    parameters, is_known = _parameters(dataset, segment, kind)
    known = dict(parameters)
    name = str(known.pop("index_type", kind.name))
    chosen = kind_by_name(name)
    try:
        defaults = chosen.parameters(field, {})
    except InvalidArgumentError:
        # Some are required, such as the path of a JSON index.
        defaults = {}
    given = {key: value for key, value in known.items() if value != defaults.get(key)}
    if not (given or is_known):
        given = dict(item for item in {**known, **defaults}.items() if item[1] is not None)
        given = dict([next(iter(given.items()))])
    if not chosen.can_build:
        raise InvalidArgumentError(f"cannot build {name} here")
    chosen.parameters(field, given)
    found: list[str] = [] if name == _DEFAULT_KIND else ["--kind", name]
    for key, value in given.items():
        found += ["--param", f"{key}={_text(value)}"]
    return found, is_known


def _parameters(dataset: Dataset, segment: IndexMetadata, kind: IndexKind) -> tuple[Parameters, bool]:
    """Return the parameters of an index, and whether they are complete (not for unreadable files)."""
    try:
        return parameters_as_made(dataset, [segment]), True
    except StorageError:
        raise
    except LanceOpsError as error:
        if isinstance(error.__cause__, UnsupportedError):
            raise
    with reading(segment):
        return kind.recorded_parameters(segment), False


def _text(value: Any) -> str:
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value)
