"""Names of tables: location of the dataset of a statement."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.spark.sql.statements import Name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_REDACTED = "*********(redacted)"
_FORMAT = "lance"
_SUFFIX = ".lance"
# How names of files end that DuckDB reads.
_FILES = frozenset({"csv", "json", "jsonl", "ndjson", "parquet", "tsv"})


@dataclass(frozen=True, slots=True)
class TableRef:
    """A dataset.

    Attributes:
        uri: URI of the dataset.
        storage_options: Options of its store.
        quoted: Its quoted name in Spark's catalog; None if found elsewhere.
        padded: Its columns of CHAR(n), in lower case.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    quoted: str | None = None
    padded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Tables:
    """Resolver of table names: among `named`, in Spark's catalog, below `root`.

    Attributes:
        named: URIs by the names in statements, with dots.
        root: Folder of a namespace: table `t` is `root/t.lance`.
        spark: A session, whose catalog has tables of the format.
        storage_options: Options of all stores.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    root: str | None = None
    spark: "SparkSession | None" = None
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: Name) -> TableRef:
        """Return the dataset of a name.

        Raises:
            InvalidArgumentError: It is unknown. A folder has no databases, only names of one part.
            UnsupportedError: It is a view, or a table of another format; or Spark redacts its storage
                options.
        """
        dotted = ".".join(name)
        if dotted in self.named:
            return TableRef(self.named[dotted], self.storage_options)
        if "/" in name[-1]:
            # A path in backticks, alone or after the name of the format.
            return TableRef(name[-1], self.storage_options)
        if self.spark is not None:
            found = _in_catalog(self.spark, name)
            if found is not None:
                storage = {**found.storage_options, **self.storage_options}
                _refuse_redacted(dotted, storage)
                return replace(found, storage_options=storage)
        if len(name) == 2 and f".{name[1]}" == _SUFFIX:
            # The name of a folder without quotes is two names for SQL.
            name = (dotted,)
        if self.root is not None and len(name) == 1:
            place = f"{self.root.rstrip('/')}/{name[-1].removesuffix(_SUFFIX)}{_SUFFIX}"
            return TableRef(place, self.storage_options)
        if name[-1].endswith(_SUFFIX) and name[:-1] in ((), (_FORMAT,)):
            # A path without a folder: words of SQL contain no dots.
            return TableRef(name[-1], self.storage_options)
        if name[-1].lower() in _FILES:
            raise InvalidArgumentError(
                f"unknown table {dotted}",
                field="statement",
                hint=f"name a file in single quotes, as in FROM '{dotted}'; SELECT reads files, too",
            )
        raise InvalidArgumentError(
            f"unknown table {dotted}",
            field="statement",
            hint="write its path in backticks, or pass tables={name: uri}, or root=folder for names of one "
            "part, or spark=session for those of a catalog",
        )


def _refuse_redacted(name: str, storage: Mapping[str, str]) -> None:
    """Check for redacted options: a store would use Spark's asterisks as a key, and report another error."""
    hidden = sorted(key for key, value in storage.items() if _REDACTED in value)
    if hidden:
        raise UnsupportedError(
            f"Spark redacts storage options of the table {name}: {', '.join(hidden)}",
            field="storage_options",
            hint="pass them in storage_options={...}, also to LanceTable.for_path",
        )


def _in_catalog(spark: "SparkSession", name: Name) -> TableRef | None:
    """Return a table of Spark's catalog, from `DESCRIBE`; None if the name is unknown.

    Raises:
        UnsupportedError: It is a view, or a table of another format.
    """
    quoted = quoted_name(name)
    try:
        if not spark.catalog.tableExists(quoted):
            return None
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect()
    except Exception as error:
        if type(error).__module__.startswith("pyspark."):
            return None
        raise
    said = {str(row["col_name"]): str(row["data_type"] or "") for row in rows}
    dotted = ".".join(name)
    if said.get("Provider", _FORMAT).lower() != _FORMAT:
        raise UnsupportedError(
            f"table {dotted} has format {said['Provider']}, expected lance",
            path=said.get("Location"),
            field="statement",
            hint="spark.sql(...) runs statements on tables of other formats",
        )
    if "VIEW" in said.get("Type", "VIEW" if "Provider" not in said else ""):
        raise UnsupportedError(f"{dotted} is a view, expected a table", field="statement")
    options = dict(part.partition("=")[::2] for part in said.get("Table Properties", "")[1:-1].split(","))
    uri = options.get("option.uri") or said.get("Location")
    if not uri:
        return None
    storage = {
        key.removeprefix("option.storage."): value
        for key, value in options.items()
        if key.startswith("option.storage.")
    }
    uri = "/" + uri.removeprefix("file:").lstrip("/") if uri.startswith("file:") else uri
    padded = frozenset(column.lower() for column, kind in said.items() if kind.lower().startswith("char("))
    return TableRef(uri, storage, quoted, padded)


def quoted_name(name: Name) -> str:
    """Quote a name in backticks for SQL."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in name)
