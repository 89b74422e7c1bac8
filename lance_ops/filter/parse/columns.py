"""Finding the column that a name in a filter means."""

import difflib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pat

from lance_ops.errors import PredicateError
from lance_ops.filter.expression import Column, format_path
from lance_ops.filter.types.coercion import plain_type


def find_column(schema: pa.Schema, names: Sequence[tuple[str, bool]]) -> Column:
    """Resolve a column name or a path into a struct.

    Args:
        schema: The columns.
        names: The parts of the path, each with a flag for backticks. Without backticks the first
            part is also found in another case, if only one column has that name; the parts behind it are
            always exact.

    Raises:
        PredicateError: There is no such column, or more than one; the message has no position yet.
    """
    root = _root_name(schema, *names[0])
    data_type = schema.field(root).type
    path = [root]
    for name, _quoted in names[1:]:
        data_type = plain_type(data_type)
        if not pat.is_struct(data_type):
            raise PredicateError(
                f"column {format_path(tuple(path))!r} has the type {data_type}, which has no fields"
            )
        fields = [data_type.field(index).name for index in range(data_type.num_fields)]
        if name not in fields:
            raise PredicateError(
                f"column {format_path(tuple(path))!r} has no field {name!r}", hint=_suggestion(name, fields)
            )
        data_type = data_type.field(name).type
        path.append(name)
    return Column(tuple(path), plain_type(data_type))


def _root_name(schema: pa.Schema, name: str, quoted: bool) -> str:
    found = [name] if name in schema.names else []
    if not found and not quoted:
        found = [candidate for candidate in schema.names if candidate.lower() == name.lower()]
    if not found:
        hint = _suggestion(name, schema.names)
        if not quoted and not hint.endswith("?"):
            hint += f"; use single quotes for a string: '{name}'"
        raise PredicateError(f"there is no column {name!r}", hint=hint)
    if len(found) > 1 or schema.names.count(found[0]) > 1:
        raise PredicateError(f"{name!r} means more than one column: {', '.join(found)}", hint="use backticks")
    return found[0]


def _suggestion(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(
        name.lower(), [candidate.lower() for candidate in names], n=3, cutoff=0.6
    )
    shown = [candidate for candidate in names if candidate.lower() in close]
    if shown:
        return f"did you mean {' or '.join(f'`{candidate}`' for candidate in shown[:3])}?"
    listed = ", ".join(names[:20])
    return f"there are {listed}{', ...' if len(names) > 20 else ''}"
