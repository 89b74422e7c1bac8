"""Parser of maintenance statements; see `statements`."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.spark.sql.expressions import Reader
from lance_ops.spark.sql.schema_changes import column_type
from lance_ops.spark.sql.statements import (
    AddColumnsFrom,
    AddNullColumns,
    Clone,
    CreateIndex,
    CreateRef,
    Delete,
    Describe,
    DropColumns,
    DropIndex,
    DropNotNull,
    DropRef,
    MaintainIndex,
    Merge,
    Name,
    Optimize,
    RenameColumn,
    Replace,
    Restore,
    SetPrimaryKey,
    SetProperties,
    Show,
    Source,
    Statement,
    Update,
    Vacuum,
)


def parse_statement(sql: str) -> Statement | None:
    """Parse a statement; None for one that is none of ours, such as a query.

    Raises:
        InvalidArgumentError: It starts like one of ours and is not valid.
        UnsupportedError: It is valid, but not supported.
    """
    try:
        reader = Reader(sql)
    except InvalidArgumentError:
        if any(sql.upper().split()[:1] == form.split()[:1] for form, _ in _FORMS):
            raise
        # Spark may know quotes that statements do not have.
        return None
    for form, make in _FORMS:
        fields = _fields(reader, form)
        if fields is not None:
            statement: Statement | None = make(**fields)
            if statement is not None:
                reader.expect_end()
            return statement
    return None


def named_table(sql: str) -> Name | None:
    """Return the table of a statement that starts like one of ours; the rest need not be valid.

    The table of a clone is its source.
    """
    try:
        reader = Reader(sql)
    except InvalidArgumentError:
        return None
    for form, _ in _FORMS:
        head = form.split()
        head = head[: max(head.index("..."), head.index("table") if "table" in head else 0) + 1]
        try:
            fields = _fields(reader, " ".join(head))
            if fields and "CLONE" in head:
                return reader.name()
            if fields:
                table: Name = fields["table"]
                return table
        except InvalidArgumentError:
            continue
    return None


def _fields(reader: Reader, form: str) -> dict[str, Any] | None:
    """What a statement has in the places of a form; None when the form is of another statement."""
    reader.restart()
    fields: dict[str, Any] = {}
    is_of_this_form = False
    for part in form.split():
        if part == "...":
            is_of_this_form = True
        elif not part.isupper():
            field, _, reads = part.partition(":")
            fields[field] = _READERS[reads or field](reader)
        elif not any(map(reader.takes, part.split("|"))):
            if not is_of_this_form:
                return None
            reader.raise_error(part.replace("|", " or "))
    return fields


def _ref(reader: Reader) -> str:
    """Parse a reference; names of branches have parts between slashes."""
    name = reader.identifier()
    while reader.takes("/"):
        name = f"{name}/{reader.identifier()}"
    return name


def _source(reader: Reader) -> Source:
    if not reader.takes("AS", "OF"):
        return Source()
    if reader.takes("VERSION"):
        return Source(version=_version(reader))
    if reader.takes("TAG"):
        return Source(tag=reader.identifier())
    reader.expect("BRANCH")
    branch = _ref(reader)
    return Source(_version(reader) if reader.takes("VERSION") else None, branch)


def _version(reader: Reader) -> int:
    value = reader.value()
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgumentError(f"{value!r} is not a version number", field="statement")
    return value


# Columns and properties


def _add_columns(table: Name, reader: Reader) -> AddColumnsFrom | AddNullColumns:
    if reader.sees("("):
        return AddNullColumns(
            table, dict(reader.in_parentheses(lambda: (reader.identifier("a column"), _type(reader))))
        )
    names = reader.separated(lambda: reader.identifier("a column"))
    if reader.takes("FROM"):
        return AddColumnsFrom(table, tuple(names), reader.name())
    if len(names) > 1:
        reader.raise_error("FROM, or parentheses around columns with types")
    return AddNullColumns(table, {names[0]: _type(reader)})


def _type(reader: Reader) -> pa.DataType:
    name = reader.identifier("a type")
    arguments = reader.in_parentheses(partial(_version, reader)) if reader.sees("(") else []
    for word in ("FIRST", "AFTER", "DEFAULT", "NOT", "COMMENT"):
        if reader.sees(word):
            raise UnsupportedError(
                f"an added column comes last and is null: {word} is not supported",
                field="statement",
                hint="lance_ops.add_columns computes values by SQL",
            )
    return column_type(name, arguments)


def _update_columns(table: Name) -> None:  # noqa: ARG001 - as the form has it
    raise UnsupportedError(
        "columns are not updated by the addresses of rows here",
        field="statement",
        hint="MERGE INTO by a key, with UPDATE SET of these columns",
    )


def _history(table: Name, reader: Reader) -> Describe:
    limit = _version(reader) if reader.takes("LIMIT") else None
    return Describe(table, "history", limit)


def _point(reader: Reader) -> int | str:
    """Parse a version number or a tag."""
    value = reader.value()
    return value if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _restore(table: Name, reader: Reader) -> Restore:
    if reader.takes("TIMESTAMP", "AS", "OF"):
        return Restore(table, timestamp=reader.identifier("a timestamp in quotes"))
    reader.expect("VERSION", "AS", "OF")
    return Restore(table, _point(reader))


def _clone(table: Name, reader: Reader, *, is_deep: bool) -> Clone:
    source = reader.name()
    version = _point(reader) if reader.takes("VERSION", "AS", "OF") else None
    location = reader.identifier("a path in quotes") if reader.takes("LOCATION") else None
    return Clone(source, table, is_deep, version, location)


def _properties(reader: Reader) -> dict[str, str]:
    def pair() -> tuple[str, str]:
        key = ".".join(reader.name("a key"))
        reader.expect("=")
        value = reader.value()
        return key, str(value).lower() if isinstance(value, bool) else str(value)

    return dict(reader.in_parentheses(pair))


def _keys(reader: Reader) -> dict[str, None]:
    reader.takes("IF", "EXISTS")
    return dict.fromkeys(map(".".join, reader.in_parentheses(lambda: reader.name("a key"))))


# Rows


def _prefixes(table: Name, alias: str | None) -> dict[str, str]:
    return {(alias or table[-1]).lower(): ""}


def _delete(table: Name, reader: Reader) -> Delete:
    prefixes = _prefixes(table, reader.alias("WHERE"))
    return Delete(table, reader.translate(prefixes=prefixes) if reader.takes("WHERE") else None)


def _update(table: Name, reader: Reader) -> Update:
    prefixes = _prefixes(table, reader.alias("SET"))
    reader.expect("SET")
    columns: dict[str, str] = {}
    while not columns or reader.takes(","):
        name = reader.name("a column")
        column = ".".join(name[1:] if len(name) > 1 and name[0].lower() in prefixes else name)
        reader.expect("=")
        if column.lower() in map(str.lower, columns):
            raise InvalidArgumentError(f"column {column!r} gets two values", field="statement")
        columns[column] = reader.translate("WHERE", ",", prefixes=prefixes)
    condition = reader.translate(prefixes=prefixes) if reader.takes("WHERE") else None
    return Update(table, columns, condition)


def _replace(table: Name, reader: Reader) -> Replace:
    prefixes = _prefixes(table, reader.alias("WHERE"))
    reader.expect("WHERE")
    condition = reader.translate("AS", prefixes=prefixes)
    reader.expect("AS")
    return Replace(table, condition, reader.rest())


def _merge(table: Name, reader: Reader) -> Merge:
    target = (reader.alias("USING") or table[-1]).lower()
    reader.expect("USING")
    source = reader.parenthesized() if reader.sees("(") else reader.name()
    alias = reader.alias("ON") or (source[-1] if isinstance(source, tuple) else "source")
    sides = {target: "target", alias.lower(): "source"}
    reader.expect("ON")
    on = merge_keys(reader.translate("WHEN", prefixes=sides), {"source", "target"})
    clauses: dict[str, dict[str, Any]] = {}
    while reader.takes("WHEN"):
        name, fields = _merge_clause(reader, sides)
        if name in clauses:
            raise _unknown_to_merge(f"a second {name}", "merge twice")
        clauses[name] = fields
    if not clauses:
        raise InvalidArgumentError("MERGE INTO needs a WHEN clause", field="statement")
    written = [fields.pop("columns") for fields in clauses.values() if "columns" in fields]
    columns = None
    if any(written):
        if len({None if names is None else frozenset((*names, *on)) for names in written}) > 1:
            raise _unknown_to_merge("clauses that write different columns", "name the same columns in both")
        columns = tuple(dict.fromkeys((*on, *(name for names in written for name in names))))
    every = {name: value for fields in clauses.values() for name, value in fields.items()}
    return Merge(table, source, on, columns=columns, **every)


def merge_keys(condition: str, sides: Collection[str] = ()) -> tuple[str, ...]:
    """Columns of the key, from `t.a = s.a AND s.b = t.b`.

    Args:
        condition: Joins the rows.
        sides: Names of the two tables; empty for any two.

    Raises:
        UnsupportedError: It is another condition.
    """

    def key() -> str:
        left = reader.name("a column")
        if not reader.takes("=="):
            reader.expect("=")
        right = reader.name("a column")
        tables = {left[0], right[0]}
        same = [part.lower() for part in left[1:]] == [part.lower() for part in right[1:]]
        if len(left) != 2 or not same or tables != set(sides or tables) or len(tables) != 2:
            reader.raise_error("one column of both sides")
        return left[1]

    try:
        reader = Reader(condition)
        in_parentheses = reader.takes("(")
        keys = [key()]
        while reader.takes("AND"):
            keys.append(key())
        if in_parentheses:
            reader.expect(")")
        reader.expect_end()
    except InvalidArgumentError as error:
        raise UnsupportedError(
            f"MERGE requires equality of columns with the same name, got {condition!r}",
            field="ON",
            hint="rename columns in the source: USING (SELECT x AS id, ... FROM ...) AS s ON t.id = s.id",
        ) from error
    return tuple(keys)


def _merge_clause(reader: Reader, sides: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """The name of a clause, and fields of `Merge`; columns are those that it writes, None for all."""

    def condition(prefixes: dict[str, str]) -> str | None:
        return reader.translate("THEN", prefixes=prefixes) if reader.takes("AND") else None

    def assigned() -> str:
        name = reader.name("a column")[-1]
        reader.expect("=")
        _check_same(name, reader.translate("WHEN", ",", prefixes=sides))
        return name

    if reader.takes("NOT", "MATCHED", "BY", "SOURCE"):
        found = condition({name: "" for name, side in sides.items() if side == "target"})
        reader.expect("THEN", "DELETE")
        return "WHEN NOT MATCHED BY SOURCE", {"not_matched_by_source": found or "true"}
    if reader.takes("NOT", "MATCHED"):
        reader.takes("BY", "TARGET")
        if reader.sees("AND"):
            raise _unknown_to_merge("a condition of WHEN NOT MATCHED", "put it into the query after USING")
        reader.expect("THEN", "INSERT")
        return "WHEN NOT MATCHED", {
            "not_matched": True,
            "columns": None if reader.takes("*") else _inserted(reader, sides),
        }
    reader.expect("MATCHED")
    found = condition(sides)
    reader.expect("THEN")
    if not reader.takes("DELETE"):
        reader.expect("UPDATE", "SET")
        columns = None if reader.takes("*") else reader.separated(assigned)
        return "WHEN MATCHED", {"matched": "update", "condition": found, "columns": columns}
    if found is not None:
        raise _unknown_to_merge("DELETE of some of the matched rows", "delete them by their own statement")
    return "WHEN MATCHED", {"matched": "delete"}


def _inserted(reader: Reader, sides: dict[str, str]) -> list[str]:
    names = [name[-1] for name in reader.columns()]
    reader.expect("VALUES")
    for position, name in enumerate(names):
        reader.expect("," if position else "(")
        _check_same(name, reader.translate(",", prefixes=sides))
    reader.expect(")")
    return names


def _check_same(column: str, value: str) -> None:
    """See that a value is the column of the source that has the name of the one that it is for."""
    try:
        reader = Reader(value)
        found = reader.name()
        reader.expect_end()
    except InvalidArgumentError:
        found = ()
    if [part.lower() for part in found] != ["source", column.lower()]:
        raise _unknown_to_merge(
            f"{column} = {value}", "compute it in the query after USING, under the name of the column"
        )


def _unknown_to_merge(what: str, hint: str) -> UnsupportedError:
    return UnsupportedError(f"MERGE INTO does not support {what}", field="statement", hint=hint)


_FORMS: tuple[tuple[str, Callable[..., Statement | None]], ...] = (
    ("OPTIMIZE ... table options", Optimize),
    ("VACUUM ... table options", Vacuum),
    ("DELETE FROM ... table reader", _delete),
    ("UPDATE ... table reader", _update),
    # Not CREATE OR REPLACE, and not REPLACE TABLE, which are Spark's own.
    ("REPLACE TABLE ...", lambda: None),
    ("REPLACE ... table reader", _replace),
    ("MERGE INTO ... table reader", _merge),
    ("DESCRIBE|DESC HISTORY table ... reader", _history),
    ("DESCRIBE|DESC DETAIL table ...", partial(Describe, what="detail")),
    ("RESTORE TABLE table TO ... reader", _restore),
    ("RESTORE table TO ... reader", _restore),
    ("CREATE TABLE table SHALLOW CLONE ... reader", partial(_clone, is_deep=False)),
    ("CREATE TABLE table DEEP CLONE ... reader", partial(_clone, is_deep=True)),
    ("SHOW INDEXES|INDEX ... FROM|IN table", partial(Show, what="indexes")),
    ("SHOW TAGS|TAG ... FROM|IN table", partial(Show, what="tags")),
    ("SHOW BRANCHES|BRANCH ... FROM|IN table", partial(Show, what="branches")),
    ("ALTER TABLE table CREATE INDEX ... index:name USING method columns options", CreateIndex),
    ("ALTER TABLE table REFRESH INDEX ... index:name options", partial(MaintainIndex, verb="refresh")),
    ("ALTER TABLE table OPTIMIZE INDEX ... index:name options", partial(MaintainIndex, verb="optimize")),
    ("ALTER TABLE table DROP INDEX ... index:name", DropIndex),
    ("ALTER TABLE table CREATE TAG ... if_not_exists ref source", partial(CreateRef, kind="tag")),
    ("ALTER TABLE table CREATE BRANCH ... if_not_exists ref source", partial(CreateRef, kind="branch")),
    ("ALTER TABLE table DROP TAG ... if_exists ref", partial(DropRef, kind="tag")),
    ("ALTER TABLE table DROP BRANCH ... if_exists ref", partial(DropRef, kind="branch")),
    ("ALTER TABLE table ADD COLUMNS|COLUMN ... reader", _add_columns),
    ("ALTER TABLE table DROP COLUMNS|COLUMN ... if_exists columns", DropColumns),
    ("ALTER TABLE table RENAME COLUMN ... column TO to:name", RenameColumn),
    ("ALTER TABLE table ALTER COLUMN column DROP NOT NULL ...", DropNotNull),
    ("ALTER TABLE table SET UNENFORCED PRIMARY KEY ... columns", SetPrimaryKey),
    ("ALTER TABLE table UPDATE COLUMNS ...", _update_columns),
    ("ALTER TABLE table SET TBLPROPERTIES ... properties", SetProperties),
    ("ALTER TABLE table UNSET TBLPROPERTIES ... properties:keys", SetProperties),
)
"""Statements, by the words and fields that they consist of, and what is made of the fields.

A field is read by the entry of its name, or of the one behind its colon, in `_READERS`. A statement with the
words before the dots is of this form, and what does not follow it is an error.
"""

_READERS: dict[str, Callable[[Reader], Any]] = {
    "reader": lambda reader: reader,
    "table": Reader.name,
    "name": Reader.identifier,
    "options": Reader.options,
    "method": lambda reader: reader.identifier("the method of an index").lower(),
    "column": lambda reader: reader.name("a column"),
    "columns": Reader.columns,
    "ref": _ref,
    "source": _source,
    "if_exists": lambda reader: reader.takes("IF", "EXISTS"),
    "if_not_exists": lambda reader: reader.takes("IF", "NOT", "EXISTS"),
    "properties": _properties,
    "keys": _keys,
}
