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
class Statement:
    """A statement on a table."""

    table: Name


@dataclass(frozen=True, slots=True)
class Optimize(Statement):
    """`OPTIMIZE t [WITH (...)]`: compaction."""

    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vacuum(Statement):
    """`VACUUM t [WITH (...)]`: cleanup."""

    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateIndex(Statement):
    """`ALTER TABLE t CREATE INDEX i USING kind (columns) [WITH (...)]`."""

    index: str
    method: str
    columns: tuple[Name, ...]
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MaintainIndex(Statement):
    """`ALTER TABLE t REFRESH INDEX i` or `OPTIMIZE INDEX i`."""

    index: str
    verb: Literal["refresh", "optimize"]
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropIndex(Statement):
    """`ALTER TABLE t DROP INDEX i`."""

    index: str


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """`SHOW INDEXES | TAGS | BRANCHES FROM t`."""

    what: Literal["indexes", "tags", "branches"]


@dataclass(frozen=True, slots=True)
class CreateRef(Statement):
    """`ALTER TABLE t CREATE TAG | BRANCH [IF NOT EXISTS] r [AS OF ...]`."""

    kind: Literal["tag", "branch"]
    ref: str
    source: Source = field(default_factory=Source)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropRef(Statement):
    """`ALTER TABLE t DROP TAG | BRANCH [IF EXISTS] r`."""

    kind: Literal["tag", "branch"]
    ref: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """`DESCRIBE HISTORY t [LIMIT n]`, `DESCRIBE DETAIL t`."""

    what: Literal["history", "detail"]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Restore(Statement):
    """`RESTORE [TABLE] t TO VERSION AS OF n`, or a tag, or `TIMESTAMP AS OF '...'`."""

    version: int | str | None = None
    timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class Clone(Statement):
    """`CREATE TABLE c SHALLOW | DEEP CLONE t [VERSION AS OF n] [LOCATION '...']`.

    Attributes:
        table: The source.
        target: Name of the new table, or its path.
        is_deep: Copy the files.
        version: Version or tag of the source; None for the newest.
        location: URI of the new dataset; None if the target is a path.
    """

    target: Name
    is_deep: bool
    version: int | str | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class AddColumnsFrom(Statement):
    """`ALTER TABLE t ADD COLUMNS a, b FROM view`."""

    columns: tuple[str, ...]
    source: Name


@dataclass(frozen=True, slots=True)
class AddNullColumns(Statement):
    """`ALTER TABLE t ADD COLUMNS (a INT, b STRING)`; with Arrow types."""

    columns: Mapping[str, pa.DataType]


@dataclass(frozen=True, slots=True)
class DropNotNull(Statement):
    """`ALTER TABLE t ALTER COLUMN a DROP NOT NULL`."""

    column: Name


@dataclass(frozen=True, slots=True)
class SetPrimaryKey(Statement):
    """`ALTER TABLE t SET UNENFORCED PRIMARY KEY (a, b)`."""

    columns: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class DropColumns(Statement):
    """`ALTER TABLE t DROP COLUMN [IF EXISTS] a`."""

    columns: tuple[Name, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn(Statement):
    """`ALTER TABLE t RENAME COLUMN a TO b`."""

    column: Name
    to: str


@dataclass(frozen=True, slots=True)
class SetProperties(Statement):
    """`ALTER TABLE t SET | UNSET TBLPROPERTIES (...)`; None for a key that goes."""

    properties: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """`DELETE FROM t [WHERE condition]`."""

    condition: str | None


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """`UPDATE t SET a = expression, ... [WHERE condition]`."""

    columns: Mapping[str, str]
    condition: str | None


@dataclass(frozen=True, slots=True)
class Replace(Statement):
    """`REPLACE t WHERE condition AS query`."""

    condition: str
    query: str


@dataclass(frozen=True, slots=True)
class Merge(Statement):
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

    source: Name | str
    on: tuple[str, ...]
    matched: Literal["update", "delete"] | None = None
    condition: str | None = None
    not_matched: bool = False
    not_matched_by_source: str | None = None
    columns: tuple[str, ...] | None = None
