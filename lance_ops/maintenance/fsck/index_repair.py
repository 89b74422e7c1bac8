"""The command that repairs a damaged index: build it anew as it was, or drop it where that cannot be done."""

import json
import shlex
from typing import Any

from lance_ops.errors import InvalidArgumentError, LanceOpsError, StorageError
from lance_ops.file.schema.model import Field
from lance_ops.index.default_name import default_index_name
from lance_ops.index.kind import IndexKind, Parameters
from lance_ops.index.registry import kind_by_name, kind_of
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata

_DEFAULT_KIND = "BTREE"


def repair_of(dataset: Dataset, segment: IndexMetadata) -> str:
    """What to do about a damaged index, with a command that does it.

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
        options = _options(dataset, segment, kind, field)
    except StorageError:
        raise
    except LanceOpsError as error:
        return f"drop it, since it cannot be built here ({error.message}): {drop}"
    column = dataset.lance_schema.path(field.id)
    if segment.name != default_index_name(dataset, column):
        options = ["--name", segment.name, *options]
    return f"build it anew: {shlex.join(['lance-ops', 'index', 'URI', column, '--replace', *options])}"


def _options(dataset: Dataset, segment: IndexMetadata, kind: IndexKind, field: Field) -> list[str]:
    """Options for an index of the same kind, with the parameters that differ from the defaults.

    Raises:
        LanceOpsError: No such index can be built.
    """
    kind.check_new(field)
    known = dict(_parameters(dataset, segment, kind))
    name = str(known.pop("index_type", kind.name))
    try:
        defaults = kind_by_name(name).parameters(field, {})
    except InvalidArgumentError:
        # Some cannot be left open, such as the path of a JSON index.
        defaults = {}
    given = {key: value for key, value in known.items() if value != defaults.get(key)}
    chosen = kind_by_name(name)
    if not chosen.can_build:
        raise InvalidArgumentError(f"{name} cannot be built here")
    chosen.parameters(field, given)
    found: list[str] = [] if name == _DEFAULT_KIND else ["--kind", name]
    for key, value in given.items():
        found += ["--param", f"{key}={_text(value)}"]
    return found


def _parameters(dataset: Dataset, segment: IndexMetadata, kind: IndexKind) -> Parameters:
    try:
        return kind.parameters_of(dataset, segment)
    except StorageError:
        raise
    except LanceOpsError:
        return kind.recorded_parameters(segment)


def _text(value: Any) -> str:
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value)
