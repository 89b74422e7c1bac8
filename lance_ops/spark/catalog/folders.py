"""Catalogs over a folder or bucket, as `LanceCatalog.java` asks for them.

Table `a.t` is the dataset `<root>/a/t.lance`. A namespace is a folder with any object in it; an empty one
has a marker, since object stores have no folders. Nothing else is kept, so that other programs may add and
remove datasets.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.ingest.operation import write_dataset
from lance_ops.maintenance.target import open_latest_if_any
from lance_ops.spark.options import STORAGE_PREFIX
from lance_ops.spark.types import arrow_schema, declared_schema, with_sizes
from lance_ops.spark.writing.save import creation_options
from lance_ops.storage import Store
from lance_ops.storage.resolve import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUFFIX = ".lance"
MARKER = ".lance_namespace"

_VERSIONS = "_versions"
_NAME = re.compile(r"[^/\\\x00-\x1f]+")


@dataclass(frozen=True, slots=True)
class Folder:
    """One namespace of a catalog.

    Attributes:
        store: Store of the root.
        path: Relative to it; empty for the root.
    """

    store: Store
    path: str

    @classmethod
    def of(cls, root: str, storage: str, namespace: str) -> "Folder":
        """Return a namespace.

        Args:
            root: URI of the catalog.
            storage: Options of the source by name, as JSON.
            namespace: Its names, as JSON.

        Raises:
            InvalidArgumentError: A name is not that of a folder.
        """
        names = [checked_name(name) for name in json.loads(namespace)]
        return cls(open_store(root, storage_options(storage)), "/".join(names))

    def tables(self) -> list[str]:
        """Return the names of the tables in it."""
        names = [name for name in self.store.list_dirs(self.path) if name.endswith(SUFFIX)]
        return [name.removesuffix(SUFFIX) for name in names if self.has(name.removesuffix(SUFFIX))]

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces directly in it."""
        return [
            name
            for name in self.store.list_dirs(self.path)
            if not name.endswith(SUFFIX) and not name.startswith(("_", "."))
        ]

    def has(self, table: str) -> bool:
        """Return whether there is a table of this name."""
        return _VERSIONS in self.store.list_dirs(self.table_path(table))

    def table_path(self, table: str) -> str:
        """Return the path of a table, relative to the root."""
        name = f"{checked_name(table)}{SUFFIX}"
        return f"{self.path}/{name}" if self.path else name

    @property
    def marker(self) -> str:
        """Path of the marker."""
        return f"{self.path}/{MARKER}"


def checked_name(name: str) -> str:
    """Return a name of a table or namespace.

    Raises:
        InvalidArgumentError: It would name another folder.
    """
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidArgumentError(
            f"the name {name!r} has characters that a folder cannot have",
            field="table",
            hint="use letters, digits and underscores",
        )
    return name


def storage_options(text: str) -> dict[str, str] | None:
    """Return options of a store from those of the source, as JSON."""
    found: Mapping[str, str] = json.loads(text)
    return {name.removeprefix(STORAGE_PREFIX): value for name, value in found.items()} or None


def _tables(_: "SparkSession", *place: str) -> str:
    return json.dumps(Folder.of(*place[:3]).tables())


def _namespaces(_: "SparkSession", *place: str) -> str:
    return json.dumps(Folder.of(*place[:3]).namespaces())


def _exists(_: "SparkSession", root: str, storage: str, namespace: str, table: str) -> str | None:
    return "true" if Folder.of(root, storage, namespace).has(table) else None


def _has_namespace(_: "SparkSession", *place: str) -> str | None:
    folder = Folder.of(*place[:3])
    return "true" if next(iter(folder.store.list(folder.path)), None) is not None else None


def _create_namespace(_: "SparkSession", *place: str) -> None:
    folder = Folder.of(*place[:3])
    folder.store.put(folder.marker, b"")


def _drop_namespace(_: "SparkSession", *place: str) -> None:
    folder = Folder.of(*place[:3])
    found = [item.path for item in folder.store.list(folder.path)]
    if any(path != folder.marker for path in found):
        raise InvalidArgumentError(
            f"the namespace {folder.path} has files that are no table",
            path=found[0],
            hint="remove them, then drop it again",
        )
    folder.store.delete(folder.marker)


def _create(_: "SparkSession", uri: str, storage: str, schema: str, given: str, mode: Any) -> None:
    prefix = "table.property."
    properties = {name.removeprefix(prefix).lower(): value for name, value in json.loads(given).items()}
    stored = arrow_schema(with_sizes(declared_schema(schema), properties), stored=True)
    options = creation_options(properties) if mode == "create" else {}
    write_dataset(
        stored.empty_table(),
        uri,
        mode=mode,
        allow_empty=True,
        storage_options=storage_options(storage),
        **options,
    )


def _drop(_: "SparkSession", root: str, storage: str, namespace: str, table: str) -> str | None:
    """Remove a dataset with all its files; those at other places (other bases, external blobs) stay.

    Its newest manifest goes last of its versions: an interrupted drop never shows an older one.
    """
    folder = Folder.of(root, storage, namespace)
    if not folder.has(table):
        return None
    store = folder.store.child(folder.table_path(table))
    dataset = open_latest_if_any(f"{root.rstrip('/')}/{folder.table_path(table)}", storage_options(storage))
    paths: Sequence[str] = [item.path for item in store.list("")]
    newest = None if dataset is None else dataset.location.path
    versions = [path for path in paths if path.startswith(f"{_VERSIONS}/") and path != newest]
    store.delete_many(versions)
    if newest is not None:
        store.delete(newest)
    store.delete_many(path for path in paths if not path.startswith(f"{_VERSIONS}/"))
    return "true"


ANSWERS: Mapping[str, Callable[..., Any]] = {
    "catalog_tables": _tables,
    "catalog_namespaces": _namespaces,
    "catalog_exists": _exists,
    "catalog_has_namespace": _has_namespace,
    "catalog_create_namespace": _create_namespace,
    "catalog_drop_namespace": _drop_namespace,
    "catalog_create": _create,
    "catalog_drop": _drop,
}
"""Requests of the class in Java: root, storage options and namespace as JSON, name of a table."""
