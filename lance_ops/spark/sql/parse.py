"""Parses statements of maintenance; see `statements`."""

from typing import Literal

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, UnsupportedError
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
    Merge,
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
    """What a statement says, or None for one that is none of ours, such as a query.

    Raises:
        InvalidArgumentError: It begins like one of ours and goes on otherwise.
        UnsupportedError: It is right, but no operation does it.
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
        return _merge(reader)
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
        return DropColumns(table, tuple(_names(reader)), is_lenient)
    if reader.takes("RENAME", "COLUMN"):
        column = reader.name("a column")
        reader.expect("TO")
        return RenameColumn(table, column, reader.identifier())
    if reader.takes("SET", "UNENFORCED", "PRIMARY", "KEY"):
        return SetPrimaryKey(table, tuple(_names(reader)))
    if reader.takes("ALTER", "COLUMN"):
        column = reader.name("a column")
        return DropNotNull(table, column) if reader.takes("DROP", "NOT", "NULL") else None
    if reader.takes("UPDATE", "COLUMNS"):
        raise UnsupportedError(
            "columns are not updated by the addresses of rows here",
            field="statement",
            hint="MERGE INTO by a key, with UPDATE SET of these columns",
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
    return CreateIndex(table, index, method, tuple(_names(reader)), reader.options())


def _ref(reader: Reader) -> str:
    """Names of branches have parts between slashes."""
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
        raise InvalidArgumentError(f"{value!r} is not the number of a version", field="statement")
    return value


def _names(reader: Reader) -> list[Name]:
    """Names between commas, in brackets or not."""
    in_brackets = reader.takes_sign("(")
    names = [reader.name("a column")]
    while reader.takes_sign(","):
        names.append(reader.name("a column"))
    if in_brackets:
        reader.expect_sign(")")
    return names


def _add_columns(reader: Reader, table: Name) -> AddColumnsFrom | AddNullColumns:
    in_brackets = reader.takes_sign("(")
    names = [reader.identifier("a column")]
    if not in_brackets:
        while reader.takes_sign(","):
            names.append(reader.identifier("a column"))
        if reader.takes("FROM"):
            return AddColumnsFrom(table, tuple(names), reader.name())
    if len(names) > 1:
        reader.fail("FROM, or brackets around columns with types")
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
                f"a column that is added comes last and is null: no {word}",
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


# Changes of rows


def _prefixes(table: Name, alias: str | None) -> dict[str, str]:
    return {(alias or table[-1]).lower(): ""}


def _delete(reader: Reader) -> Delete:
    table = reader.name()
    alias = reader.alias("WHERE")
    condition = reader.expression(prefixes=_prefixes(table, alias)) if reader.takes("WHERE") else None
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
            raise InvalidArgumentError(f"column {'.'.join(path)!r} gets two values", field="statement")
        columns[".".join(path)] = reader.expression(("WHERE",), comma=True, prefixes=prefixes)
        if not reader.takes_sign(","):
            break
    condition = reader.expression(prefixes=prefixes) if reader.takes("WHERE") else None
    return Update(table, columns, condition)


def _replace(reader: Reader) -> Replace:
    table = reader.name()
    prefixes = _prefixes(table, reader.alias("WHERE"))
    reader.expect("WHERE")
    condition = reader.expression(("AS",), prefixes=prefixes)
    reader.expect("AS")
    return Replace(table, condition, reader.rest())


def _merge(reader: Reader) -> Merge:
    table = reader.name()
    target = (reader.alias("USING") or table[-1]).lower()
    reader.expect("USING")
    source: Name | str
    try:
        source = reader.name()
    except InvalidArgumentError:
        source = reader.bracketed()
    alias = reader.alias("ON") or (source[-1] if isinstance(source, tuple) else "source")
    sides = {target: "target", alias.lower(): "source"}
    reader.expect("ON")
    on = _keys(reader.expression(("WHEN",), prefixes=sides))
    clauses = _Clauses(sides)
    while reader.takes("WHEN"):
        clauses.read(reader)
    return clauses.merge(table, source, on)


def _keys(condition: str) -> tuple[str, ...]:
    """Columns of the key, from `t.a = s.a AND t.b = s.b`."""
    reader = Reader(condition)
    try:
        in_brackets = reader.takes_sign("(")
        keys = [_key(reader)]
        while reader.takes("AND"):
            keys.append(_key(reader))
        if in_brackets:
            reader.expect_sign(")")
        reader.expect_end()
    except InvalidArgumentError as error:
        raise UnsupportedError(
            f"MERGE joins by columns that are equal and have one name, not by {condition!r}",
            field="ON",
            hint="rename columns in the source: USING (SELECT x AS id, ... FROM ...) AS s ON t.id = s.id",
        ) from error
    return tuple(keys)


def _key(reader: Reader) -> str:
    """The column of `target.a = source.a`, or the other way round."""
    left = reader.name("a column")
    if not reader.takes_sign("=="):
        reader.expect_sign("=")
    right = reader.name("a column")
    same = [part.lower() for part in left[1:]] == [part.lower() for part in right[1:]]
    if len(left) != 2 or not same or {left[0], right[0]} != {"source", "target"}:
        reader.fail("one column of both sides")
    return left[1]


class _Clauses:
    """The clauses of a MERGE."""

    def __init__(self, sides: dict[str, str]) -> None:
        self._sides = sides
        self._matched: Literal["update", "delete"] | None = None
        self._condition: str | None = None
        self._not_matched = False
        self._not_by_source: str | None = None
        self._written: list[tuple[str, ...] | None] = []

    def read(self, reader: Reader) -> None:
        """Read one, after its WHEN."""
        if reader.takes("NOT", "MATCHED", "BY", "SOURCE"):
            only_target = {name: "" for name, side in self._sides.items() if side == "target"}
            condition = self._and(reader, only_target)
            reader.expect("THEN", "DELETE")
            self._once(self._not_by_source is None, "WHEN NOT MATCHED BY SOURCE")
            self._not_by_source = condition or "true"
        elif reader.takes("NOT", "MATCHED"):
            reader.takes("BY", "TARGET")
            if reader.sees("AND"):
                raise _beyond("a condition of WHEN NOT MATCHED", "put it into the query after USING")
            reader.expect("THEN", "INSERT")
            self._once(not self._not_matched, "WHEN NOT MATCHED")
            self._not_matched = True
            self._written.append(None if reader.takes_sign("*") else self._inserted(reader))
        else:
            reader.expect("MATCHED")
            condition = self._and(reader, self._sides)
            reader.expect("THEN")
            self._once(self._matched is None, "WHEN MATCHED")
            self._condition = condition
            if reader.takes("DELETE"):
                if condition is not None:
                    raise _beyond("DELETE of some of the matched rows", "delete them by their own statement")
                self._matched = "delete"
                return
            reader.expect("UPDATE", "SET")
            self._matched = "update"
            self._written.append(None if reader.takes_sign("*") else self._assigned(reader))

    def merge(self, table: Name, source: Name | str, on: tuple[str, ...]) -> Merge:
        """All of them together."""
        if self._matched is None and not self._not_matched and self._not_by_source is None:
            raise InvalidArgumentError("MERGE INTO needs a WHEN clause", field="statement")
        columns = None
        if any(written is not None for written in self._written):
            sets = {None if written is None else frozenset((*written, *on)) for written in self._written}
            if len(sets) > 1:
                raise _beyond("clauses that write different columns", "name the same columns in both")
            named = [column for written in self._written for column in written or ()]
            columns = tuple(dict.fromkeys((*on, *named)))
        return Merge(
            table, source, on, self._matched, self._condition, self._not_matched, self._not_by_source, columns
        )

    def _and(self, reader: Reader, prefixes: dict[str, str]) -> str | None:
        return reader.expression(("THEN",), prefixes=prefixes) if reader.takes("AND") else None

    def _once(self, is_first: bool, clause: str) -> None:
        if not is_first:
            raise _beyond(f"a second {clause}", "merge twice")

    def _assigned(self, reader: Reader) -> tuple[str, ...]:
        columns = []
        while True:
            name = reader.name("a column")[-1]
            reader.expect_sign("=")
            self._check_same(name, reader.expression(("WHEN",), comma=True, prefixes=self._sides))
            columns.append(name)
            if not reader.takes_sign(","):
                return tuple(columns)

    def _inserted(self, reader: Reader) -> tuple[str, ...]:
        names = [name[-1] for name in _names(reader)]
        reader.expect("VALUES")
        reader.expect_sign("(")
        for name in names:
            self._check_same(name, reader.expression(comma=True, prefixes=self._sides))
            if not reader.takes_sign(","):
                reader.expect_sign(")")
        return tuple(names)

    def _check_same(self, column: str, value: str) -> None:
        if not _is_source(value, column):
            raise _beyond(
                f"{column} = {value}", "compute it in the query after USING, under the name of the column"
            )


def _is_source(value: str, column: str) -> bool:
    """Whether an expression is the column of this name of the source, and nothing else."""
    reader = Reader(value)
    try:
        found = reader.name()
        reader.expect_end()
    except InvalidArgumentError:
        return False
    return [part.lower() for part in found] == ["source", column.lower()]


def _beyond(what: str, hint: str) -> UnsupportedError:
    return UnsupportedError(f"MERGE INTO does not know {what}", field="statement", hint=hint)
