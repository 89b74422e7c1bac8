"""Names of tables: where the dataset lies that a statement speaks of."""

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


@dataclass(frozen=True, slots=True)
class TableRef:
    """A dataset.

    Attributes:
        uri: Where it lies.
        storage_options: For its store.
        quoted: Its name in Spark's catalog, as SQL has it; None when it is found otherwise.
        padded: Its columns of CHAR(n), in small letters.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    quoted: str | None = None
    padded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Tables:
    """Where tables are looked for: among `named`, in Spark's catalog, below `root`.

    Attributes:
        named: URIs by the names that statements use, with their dots.
        root: Folder of a namespace: table `t` is `root/t.lance`.
        spark: A session, whose catalog knows tables of the format.
        storage_options: For all of them.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    root: str | None = None
    spark: "SparkSession | None" = None
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: Name) -> TableRef:
        """The dataset that a name means.

        Raises:
            InvalidArgumentError: Nobody knows it. A folder has no databases: it knows names of one part.
            UnsupportedError: It is a view, or a table of another format; or Spark does not tell the storage
                options that the catalog has for it.
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
        if self.root is not None and len(name) == 1:
            return TableRef(f"{self.root.rstrip('/')}/{name[-1]}.lance", self.storage_options)
        if name[-1].endswith(_SUFFIX) and name[:-1] in ((), (_FORMAT,)):
            # A path without a folder: words of SQL have no dots.
            return TableRef(name[-1], self.storage_options)
        raise InvalidArgumentError(
            f"where is the table {dotted}?",
            field="statement",
            hint="name it by its path in backticks, or give tables={name: uri}, spark=... or root=folder,"
            " which knows names of one part alone",
        )


def _refuse_redacted(name: str, storage: Mapping[str, str]) -> None:
    """A store would take Spark's asterisks for a key, and complain of something else."""
    hidden = sorted(key for key, value in storage.items() if _REDACTED in value)
    if hidden:
        raise UnsupportedError(
            f"Spark hides values of storage options of the table {name}: {', '.join(hidden)}",
            field="storage_options",
            hint="give them in storage_options={...}, which LanceTable.for_path takes, too",
        )


def _in_catalog(spark: "SparkSession", name: Name) -> TableRef | None:
    """A table of Spark's catalog, by what `DESCRIBE` says of it; None when it does not know the name.

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
            f"the table {dotted} is none of the format lance, but of {said['Provider']}",
            path=said.get("Location"),
            field="statement",
            hint="spark.sql(...) runs statements on tables of other formats",
        )
    if "VIEW" in said.get("Type", "VIEW" if "Provider" not in said else ""):
        raise UnsupportedError(f"{dotted} is a view, and no table", field="statement")
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
    """A name as SQL has it, in backticks."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in name)
