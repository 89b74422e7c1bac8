"""Dropped fields: the remaining schema, without columns and nested members."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.file.schema.logical_types import EXTENSION_NAME_KEY
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.packing import is_packed_2_0


def schema_without(schema: Schema, names: Iterable[str], storage_version: str, path: str) -> Schema:
    """The schema without some fields. A struct or a list whose last member goes is dropped as well.

    Args:
        schema: Of the dataset.
        names: Names of columns, or paths such as `a.b`; a path into a list names its `item`.
        storage_version: Of the data files.
        path: Of the dataset, for errors.

    Raises:
        InvalidArgumentError: There is no such field, none is named, or none would be left.
        UnsupportedError: What is left of the column could not be read.
    """
    wanted = tuple(dict.fromkeys(names))
    dropped: set[int] = set()
    for name in wanted:
        line = _line(schema, name, path)
        _check_readable(line, name, storage_version, path)
        dropped.update(node.id for node in line[-1].walk())
    kept = [left for top in schema.fields if (left := _left(top, dropped)) is not None]
    if not wanted or not kept:
        what = "no column would be left" if wanted else "the list is empty"
        raise InvalidArgumentError(
            f"cannot drop the columns {list(wanted)}: {what}", path=path, field="columns"
        )
    return replace(schema, fields=tuple(kept))


def _line(schema: Schema, name: str, path: str) -> Sequence[Field]:
    """The fields on the way to a field; a top-level name is taken as it is."""
    own = next((top for top in schema.fields if top.name == name), None)
    if own is not None:
        return (own,)
    try:
        return schema.ancestry(name)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"cannot drop {name!r}: column not found", path=path, field="columns", hint=error.hint
        ) from error


def _check_readable(line: Sequence[Field], name: str, storage_version: str, path: str) -> None:
    """Refuse to drop a member of what is stored, or typed, as a whole."""
    for parent in line[:-1]:
        if storage_version == "2.0" and is_packed_2_0(parent):
            # pylance takes what is left from the wrong bytes.
            reason = "members of a packed struct are stored together in version 2.0"
        elif parent.logical_type.startswith("fixed_size_list"):
            # pylance fails on what is left.
            reason = "it is nested in a fixed-size list"
        elif parent.extension_name or EXTENSION_NAME_KEY in parent.metadata:
            reason = f"column {parent.name!r} has an extension type"
        else:
            continue
        raise UnsupportedError(
            f"cannot drop {name!r}: {reason}",
            path=path,
            field="columns",
            hint=f"drop {line[0].name!r}, or add a column with the members to keep",
        )


def _left(field: Field, dropped: set[int]) -> Field | None:
    """Return the rest of a field; None if nothing is left."""
    if field.id in dropped:
        return None
    if not field.children:
        return field
    children = tuple(left for child in field.children if (left := _left(child, dropped)) is not None)
    if field.logical_type == "map" and [len(entries.children) for entries in children] != [2]:
        raise UnsupportedError(
            f"cannot drop the keys or the values of the map {field.name!r}",
            field="columns",
            hint="drop the whole column",
        )
    return replace(field, children=children) if children else None
