"""The column that a user names for an index, and the name of an index that is given none."""

import re
from collections.abc import Sequence
from itertools import chain, count

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.field_path import parse_field_path
from lance_ops.file.schema.model import Field
from lance_ops.table.snapshot import Snapshot


def indexed_field(dataset: Snapshot, column: str) -> Field:
    """Return the field at a path that a user gives, whose names may be in another case, as in pylance.

    Raises:
        InvalidArgumentError: There is no such field.
    """
    return dataset.lance_schema.ancestry(column, any_case=True)[-1]


def free_index_name(dataset: Snapshot, column: str, kind: str) -> str:
    """Return the name of a new index that is given none, as pylance does.

    That is the default name; where an index of another kind or on another column has it, `_2`, `_3` and so on
    follow, up to the first name that is free or belongs to the index of this kind on the column.

    Args:
        dataset: The version.
        column: Path of the column.
        kind: Type of the index details, see `IndexMetadata.kind`.

    Raises:
        InvalidArgumentError: There is no such field.
    """
    base = default_index_name(dataset, column)
    field = indexed_field(dataset, column).id
    taken = {
        segment.name
        for segment in dataset.indices
        if segment.fields != (field,) or segment.kind not in (kind, None)
    }
    names = chain([base], (f"{base}_{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def default_index_name(dataset: Snapshot, column: str) -> str:
    """Return the name of an index that is given none, as pylance does: the path and `_idx`.

    Backticks are in it only where a name has a dot. Earlier releases kept the path as it was given, with its
    backticks: where such an index is on the column, its name is returned.

    Args:
        dataset: The version.
        column: Path of the column.

    Raises:
        InvalidArgumentError: There is no such field.
    """
    field = indexed_field(dataset, column)
    path = parse_field_path(dataset.lance_schema.path(field.id))
    name = f"{_shown_path(path)}_idx"
    present = {segment.name for segment in dataset.indices if segment.fields == (field.id,)}
    if name not in present:
        for other in sorted(present):
            if other.endswith("_idx") and "`" in other and _same_path(other.removesuffix("_idx"), path):
                return other
    return name


def _shown_path(path: Sequence[str]) -> str:
    if not any("." in name for name in path):
        return ".".join(path)
    return ".".join(
        name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`" for name in path
    )


def _same_path(given: str, path: Sequence[str]) -> bool:
    try:
        return tuple(parse_field_path(given)) == tuple(path)
    except InvalidArgumentError:
        return False
