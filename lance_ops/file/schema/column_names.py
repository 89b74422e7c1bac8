"""Column names that no table may have, because pylance cannot read such a table.

Pylance reserves the names of the row columns for top-level columns, finds no column without a name, and
aborts the process over a NUL in a name at any depth. It writes top-level columns with a backtick in their
names, and then reads no column of the table.
"""

from collections.abc import Iterator

from lance_ops.cache import IdentityCache
from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema

RESERVED_NAMES = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
"""Names of the columns that a scan adds to rows; members of structs may have them."""

_ASKED_BY = {"_rowid": "with_row_id=True", "_rowaddr": "with_row_address=True"}


def refused_names(schema: Schema) -> tuple[tuple[str, str], ...]:
    """Find the columns of a table that pylance cannot read.

    Args:
        schema: Of the table.

    Returns:
        Name of each top-level column, and the problem with its name or that of a nested field.
    """
    return _refused(schema)


def _find(schema: Schema) -> Iterator[tuple[str, str]]:
    for top in schema.fields:
        if not top.name:
            yield top.name, "a column has no name"
        elif top.name in RESERVED_NAMES:
            yield top.name, f"the column name {top.name!r} is reserved"
        elif "`" in top.name:
            yield top.name, f"the column name {top.name!r} contains a backtick"
        for node in top.walk():
            if "\0" in node.name:
                yield top.name, f"the column name {node.name!r} contains a NUL character"


# Wide tables have thousands of fields, and each commit asks.
_refused: IdentityCache[[Schema], tuple[tuple[str, str], ...]] = IdentityCache(
    "refused column names", lambda schema: tuple(_find(schema)), 64
)


def check_column_names(schema: Schema, known: Schema | None = None, *, path: str | None = None) -> None:
    """Refuse new columns that would make a table unreadable for pylance.

    Args:
        schema: New schema of the table.
        known: Current schema: tables of earlier versions and of pylance keep their columns until these are
            renamed or dropped.
        path: The table, for the error.

    Raises:
        InvalidArgumentError: A name is refused.
    """
    exempt = () if known is None else refused_names(known)
    for name, problem in refused_names(schema):
        if (name, problem) not in exempt:
            hint = "give the column another name"
            if name in RESERVED_NAMES:
                hint = f"{drop_hint(name)}, or give it another name"
            raise InvalidArgumentError(problem, path=path, field=name, hint=hint)


def drop_hint(name: str) -> str:
    """Return a hint for writing rows that were read with a row column.

    Args:
        name: One of `RESERVED_NAMES`.
    """
    option = _ASKED_BY.get(name)
    origin = f"{option} adds this column to rows: " if option else ""
    return f'{origin}drop it before the write, data.drop_columns(["{name}"])'
