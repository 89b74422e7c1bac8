"""Parser of MERGE INTO: key and clauses."""

from typing import Literal

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.spark.sql.statements import Merge, Name
from lance_ops.spark.sql.tokens import Reader


def parse_merge(reader: Reader) -> Merge:
    """Parse a `MERGE INTO` after these words.

    Raises:
        InvalidArgumentError: It is not valid.
        UnsupportedError: It is valid, but not supported.
    """
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
    """Parse the key columns of `t.a = s.a AND t.b = s.b`."""
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
            f"MERGE requires equality of columns with the same name, got {condition!r}",
            field="ON",
            hint="rename columns in the source: USING (SELECT x AS id, ... FROM ...) AS s ON t.id = s.id",
        ) from error
    return tuple(keys)


def _key(reader: Reader) -> str:
    """Parse the column of `target.a = source.a`, or with sides exchanged."""
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
        """Parse one clause, after its WHEN."""
        if reader.takes("NOT", "MATCHED", "BY", "SOURCE"):
            only_target = {name: "" for name, side in self._sides.items() if side == "target"}
            condition = self._and(reader, only_target)
            reader.expect("THEN", "DELETE")
            self._once(self._not_by_source is None, "WHEN NOT MATCHED BY SOURCE")
            self._not_by_source = condition or "true"
        elif reader.takes("NOT", "MATCHED"):
            reader.takes("BY", "TARGET")
            if reader.sees("AND"):
                raise _beyond("a condition of WHEN NOT MATCHED", "move it into the query after USING")
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
                    raise _beyond("DELETE of some of the matched rows", "use a separate DELETE statement")
                self._matched = "delete"
                return
            reader.expect("UPDATE", "SET")
            self._matched = "update"
            self._written.append(None if reader.takes_sign("*") else self._assigned(reader))

    def merge(self, table: Name, source: Name | str, on: tuple[str, ...]) -> Merge:
        """Combine all clauses."""
        if self._matched is None and not self._not_matched and self._not_by_source is None:
            raise InvalidArgumentError("MERGE INTO requires a WHEN clause", field="statement")
        columns = None
        if any(written is not None for written in self._written):
            sets = {None if written is None else frozenset((*written, *on)) for written in self._written}
            if len(sets) > 1:
                raise _beyond("clauses that write different columns", "use the same columns in both")
            named = [column for written in self._written for column in written or ()]
            columns = tuple(dict.fromkeys((*on, *named)))
        return Merge(
            table, source, on, self._matched, self._condition, self._not_matched, self._not_by_source, columns
        )

    def _and(self, reader: Reader, prefixes: dict[str, str]) -> str | None:
        return reader.translated(("THEN",), prefixes=prefixes) if reader.takes("AND") else None

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
        names = [name[-1] for name in reader.names()]
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
    """Return whether an expression is the column with this name of the source."""
    reader = Reader(value)
    try:
        found = reader.name()
        reader.expect_end()
    except InvalidArgumentError:
        return False
    return [part.lower() for part in found] == ["source", column.lower()]


def _beyond(what: str, hint: str) -> UnsupportedError:
    return UnsupportedError(f"MERGE INTO does not support {what}", field="statement", hint=hint)
