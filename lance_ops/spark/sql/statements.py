"""Statements of SQL as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pyarrow as pa

Name: TypeAlias = tuple[str, ...]
"""Parts of the name of a table or a column."""

Value: TypeAlias = bool | int | float | str
Options: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Source:
    """Version of a table for a new tag or branch; all None for the newest version of main."""

    version: int | None = None
    branch: str | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Optimize:
    """`OPTIMIZE t [WITH (...)]`: compaction."""

    table: Name
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vacuum:
    """`VACUUM t [WITH (...)]`: cleanup."""

    table: Name
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """`ALTER TABLE t CREATE INDEX i USING kind (columns) [WITH (...)]`."""

    table: Name
    index: str
    method: str
    columns: tuple[Name, ...]
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MaintainIndex:
    """`ALTER TABLE t REFRESH INDEX i` or `OPTIMIZE INDEX i`."""

    table: Name
    index: str
    verb: Literal["refresh", "optimize"]
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropIndex:
    """`ALTER TABLE t DROP INDEX i`."""

    table: Name
    index: str


@dataclass(frozen=True, slots=True)
class Show:
    """`SHOW INDEXES | TAGS | BRANCHES FROM t`."""

    what: Literal["indexes", "tags", "branches"]
    table: Name


@dataclass(frozen=True, slots=True)
class CreateRef:
    """`ALTER TABLE t CREATE TAG | BRANCH [IF NOT EXISTS] r [AS OF ...]`."""

    table: Name
    kind: Literal["tag", "branch"]
    ref: str
    source: Source = field(default_factory=Source)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropRef:
    """`ALTER TABLE t DROP TAG | BRANCH [IF EXISTS] r`."""

    table: Name
    kind: Literal["tag", "branch"]
    ref: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddColumnsFrom:
    """`ALTER TABLE t ADD COLUMNS a, b FROM view`."""

    table: Name
    columns: tuple[str, ...]
    source: Name


@dataclass(frozen=True, slots=True)
class AddNullColumns:
    """`ALTER TABLE t ADD COLUMNS (a INT, b STRING)`; with Arrow types."""

    table: Name
    columns: Mapping[str, pa.DataType]


@dataclass(frozen=True, slots=True)
class DropNotNull:
    """`ALTER TABLE t ALTER COLUMN a DROP NOT NULL`."""

    table: Name
    column: Name


@dataclass(frozen=True, slots=True)
class SetPrimaryKey:
    """`ALTER TABLE t SET UNENFORCED PRIMARY KEY (a, b)`."""

    table: Name
    columns: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class DropColumns:
    """`ALTER TABLE t DROP COLUMN [IF EXISTS] a`."""

    table: Name
    columns: tuple[Name, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """`ALTER TABLE t RENAME COLUMN a TO b`."""

    table: Name
    column: Name
    to: str


@dataclass(frozen=True, slots=True)
class SetProperties:
    """`ALTER TABLE t SET | UNSET TBLPROPERTIES (...)`; None for a removed key."""

    table: Name
    properties: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Delete:
    """`DELETE FROM t [WHERE condition]`."""

    table: Name
    condition: str | None


@dataclass(frozen=True, slots=True)
class Update:
    """`UPDATE t SET a = expression, ... [WHERE condition]`."""

    table: Name
    columns: Mapping[str, str]
    condition: str | None


@dataclass(frozen=True, slots=True)
class Replace:
    """`REPLACE t WHERE condition AS query`."""

    table: Name
    condition: str
    query: str


@dataclass(frozen=True, slots=True)
class Merge:
    """`MERGE INTO t USING source ON keys WHEN ...`.

    Attributes:
        table: The target.
        source: Name of a table or view, or a query.
        on: Key columns, with the same name on both sides.
        matched: Action on rows whose key the source has.
        condition: Its condition, with `source.` and `target.`; None for always.
        not_matched: True to insert new rows.
        not_matched_by_source: Condition for deleting rows that the source lacks; "true" for all.
        columns: Written columns, if the clauses name them; None for all.
    """

    table: Name
    source: Name | str
    on: tuple[str, ...]
    matched: Literal["update", "delete"] | None = None
    condition: str | None = None
    not_matched: bool = False
    not_matched_by_source: str | None = None
    columns: tuple[str, ...] | None = None


Statement: TypeAlias = (
    Optimize
    | Vacuum
    | CreateIndex
    | MaintainIndex
    | DropIndex
    | Show
    | CreateRef
    | DropRef
    | AddColumnsFrom
    | AddNullColumns
    | DropNotNull
    | SetPrimaryKey
    | DropColumns
    | RenameColumn
    | SetProperties
    | Delete
    | Update
    | Replace
    | Merge
)
