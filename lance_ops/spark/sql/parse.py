"""Parser of maintenance statements; see `statements`."""

from typing import Literal

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.spark.sql.parse_merge import parse_merge
from lance_ops.spark.sql.schema_changes import column_type
from lance_ops.spark.sql.statements import (
    AddColumnsFrom,
    AddNullColumns,
    CreateIndex,
    CreateRef,
    Delete,
    DropColumns,
    DropIndex,
    DropNotNull,
    DropRef,
    MaintainIndex,
    Name,
    Optimize,
    RenameColumn,
    Replace,
    SetPrimaryKey,
    SetProperties,
    Show,
    Source,
    Statement,
    Update,
    Vacuum,
)
from lance_ops.spark.sql.tokens import Reader

_SHOWN: dict[str, Literal["indexes", "tags", "branches"]] = {
    "INDEXES": "indexes",
    "INDEX": "indexes",
    "TAGS": "tags",
    "TAG": "tags",
    "BRANCHES": "branches",
    "BRANCH": "branches",
}


def parse_statement(sql: str) -> Statement | None:
    """Parse a statement; None for other ones, such as queries.

    Raises:
        InvalidArgumentError: It starts like one of ours and is not valid.
        UnsupportedError: It is valid, but not supported.
    """
    reader = Reader(sql)
    statement = _parse(reader)
    if statement is not None:
        reader.expect_end()
    return statement


def _parse(reader: Reader) -> Statement | None:
    if reader.takes("OPTIMIZE"):
        return Optimize(reader.name(), reader.options())
    if reader.takes("VACUUM"):
        return Vacuum(reader.name(), reader.options())
    if reader.takes("DELETE", "FROM"):
        return _delete(reader)
    if reader.takes("UPDATE"):
        return _update(reader)
    if reader.takes("REPLACE"):
        # Not CREATE OR REPLACE, and not REPLACE TABLE, which are Spark's own.
        return None if reader.sees("TABLE") else _replace(reader)
    if reader.takes("MERGE", "INTO"):
        return parse_merge(reader)
    if reader.sees("SHOW"):
        for word, what in _SHOWN.items():
            if reader.takes("SHOW", word):
                if not reader.takes("IN"):
                    reader.expect("FROM")
                return Show(what, reader.name())
        return None
    return _alter(reader) if reader.takes("ALTER", "TABLE") else None


def _alter(reader: Reader) -> Statement | None:
    table = reader.name()
    if reader.takes("CREATE", "INDEX"):
        return _create_index(reader, table)
    if reader.takes("REFRESH", "INDEX"):
        return MaintainIndex(table, reader.identifier(), "refresh", reader.options())
    if reader.takes("OPTIMIZE", "INDEX"):
        return MaintainIndex(table, reader.identifier(), "optimize", reader.options())
    if reader.takes("DROP", "INDEX"):
        return DropIndex(table, reader.identifier())
    for kind in ("tag", "branch"):
        ref: Literal["tag", "branch"] = "tag" if kind == "tag" else "branch"
        if reader.takes("CREATE", kind.upper()):
            is_lenient = reader.takes("IF", "NOT", "EXISTS")
            return CreateRef(table, ref, _ref(reader), _source(reader), is_lenient)
        if reader.takes("DROP", kind.upper()):
            is_lenient = reader.takes("IF", "EXISTS")
            return DropRef(table, ref, _ref(reader), is_lenient)
    if reader.takes("ADD", "COLUMNS") or reader.takes("ADD", "COLUMN"):
        return _add_columns(reader, table)
    if reader.takes("DROP", "COLUMNS") or reader.takes("DROP", "COLUMN"):
        is_lenient = reader.takes("IF", "EXISTS")
        return DropColumns(table, tuple(reader.names()), is_lenient)
    if reader.takes("RENAME", "COLUMN"):
        column = reader.name("a column")
        reader.expect("TO")
        return RenameColumn(table, column, reader.identifier())
    if reader.takes("SET", "UNENFORCED", "PRIMARY", "KEY"):
        return SetPrimaryKey(table, tuple(reader.names()))
    if reader.takes("ALTER", "COLUMN"):
        column = reader.name("a column")
        return DropNotNull(table, column) if reader.takes("DROP", "NOT", "NULL") else None
    if reader.takes("UPDATE", "COLUMNS"):
        raise UnsupportedError(
            "columns cannot be updated by row addresses",
            field="statement",
            hint="use MERGE INTO by a key, with UPDATE SET of these columns",
        )
    if reader.takes("SET", "TBLPROPERTIES"):
        return SetProperties(table, dict(_properties(reader, with_values=True)))
    if reader.takes("UNSET", "TBLPROPERTIES"):
        reader.takes("IF", "EXISTS")
        return SetProperties(table, dict(_properties(reader, with_values=False)))
    return None


def _create_index(reader: Reader, table: Name) -> CreateIndex:
    index = reader.identifier()
    reader.expect("USING")
    method = reader.identifier("the method of an index").lower()
    return CreateIndex(table, index, method, tuple(reader.names()), reader.options())


def _ref(reader: Reader) -> str:
    """Parse a reference; names of branches have parts between slashes."""
    name = reader.identifier()
    while reader.takes_sign("/"):
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


def _add_columns(reader: Reader, table: Name) -> AddColumnsFrom | AddNullColumns:
    in_brackets = reader.takes_sign("(")
    names = [reader.identifier("a column")]
    if not in_brackets:
        while reader.takes_sign(","):
            names.append(reader.identifier("a column"))
        if reader.takes("FROM"):
            return AddColumnsFrom(table, tuple(names), reader.name())
    if len(names) > 1:
        reader.fail("FROM, or columns with types in parentheses")
    typed = {names[0]: _type(reader)}
    while in_brackets and reader.takes_sign(","):
        name = reader.identifier("a column")
        typed[name] = _type(reader)
    if in_brackets:
        reader.expect_sign(")")
    return AddNullColumns(table, typed)


def _type(reader: Reader) -> pa.DataType:
    name = reader.identifier("a type")
    arguments: list[int] = []
    if reader.takes_sign("("):
        arguments.append(_version(reader))
        while reader.takes_sign(","):
            arguments.append(_version(reader))
        reader.expect_sign(")")
    for word in ("FIRST", "AFTER", "DEFAULT", "NOT", "COMMENT"):
        if reader.sees(word):
            raise UnsupportedError(
                f"an added column comes last and is null: {word} is not supported",
                field="statement",
                hint="lance_ops.add_columns computes values by SQL",
            )
    return column_type(name, arguments)


def _properties(reader: Reader, *, with_values: bool) -> list[tuple[str, str | None]]:
    reader.expect_sign("(")
    found: list[tuple[str, str | None]] = []
    while True:
        key = ".".join(reader.name("a key"))
        if with_values:
            reader.expect_sign("=")
        found.append((key, _text(reader.value()) if with_values else None))
        if not reader.takes_sign(","):
            reader.expect_sign(")")
            return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# Row changes


def _prefixes(table: Name, alias: str | None) -> dict[str, str]:
    return {(alias or table[-1]).lower(): ""}


def _delete(reader: Reader) -> Delete:
    table = reader.name()
    alias = reader.alias("WHERE")
    condition = reader.translated(prefixes=_prefixes(table, alias)) if reader.takes("WHERE") else None
    return Delete(table, condition)


def _update(reader: Reader) -> Update:
    table = reader.name()
    prefixes = _prefixes(table, reader.alias("SET"))
    reader.expect("SET")
    columns: dict[str, str] = {}
    while True:
        name = reader.name("a column")
        path = name[1:] if len(name) > 1 and name[0].lower() in prefixes else name
        reader.expect_sign("=")
        if ".".join(path).lower() in (known.lower() for known in columns):
            raise InvalidArgumentError(f"column {'.'.join(path)!r} is set twice", field="statement")
        columns[".".join(path)] = reader.translated(("WHERE",), comma=True, prefixes=prefixes)
        if not reader.takes_sign(","):
            break
    condition = reader.translated(prefixes=prefixes) if reader.takes("WHERE") else None
    return Update(table, columns, condition)


def _replace(reader: Reader) -> Replace:
    table = reader.name()
    prefixes = _prefixes(table, reader.alias("WHERE"))
    reader.expect("WHERE")
    condition = reader.translated(("AS",), prefixes=prefixes)
    reader.expect("AS")
    return Replace(table, condition, reader.rest())
