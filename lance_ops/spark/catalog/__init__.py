"""Classes for the JVM of the driver: named tables of the format `lance`, pushdown, and statements of SQL.

Spark's own catalog keeps location and options of a table, but does not pass them to a data source written in
Python, and its interface for these sources knows neither the columns nor the conditions of a query. Some
small classes of the JVM do, on the driver only. Spark's own compiler builds them from their source (beside
this module) once for each version of Spark; the result is cached.
"""

import hashlib
import io
import re
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lance_ops.spark.cache import cache_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG_SETTING = "spark.sql.catalog.spark_catalog"
CATALOG_CLASS = "lanceops.LanceSessionCatalog"
FOLDER_CATALOG_CLASS = "lanceops.LanceCatalog"
EXTENSIONS_SETTING = "spark.sql.extensions"
EXTENSIONS_CLASS = "lanceops.LanceExtensions"
_PROVIDER_CLASS = "lanceops.LanceProvider"
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"


def install_catalog(spark: "SparkSession") -> bool:
    """Install the catalog in a session, after `load_classes`; returns whether that was possible.

    It is not on Spark Connect, whose server must be started with the jar, and if another catalog has replaced
    Spark's own: then paths have pushdown, but tables cannot be used by name.
    """
    if not hasattr(spark, "_jvm"):
        return bool(spark.conf.get(CATALOG_SETTING, None) == CATALOG_CLASS)
    chosen = spark.conf.get(CATALOG_SETTING, None) or "builtin"
    if chosen not in ("builtin", CATALOG_CLASS):
        return False
    if chosen == "builtin":
        spark.conf.set(CATALOG_SETTING, CATALOG_CLASS)
    spark.catalog.currentCatalog()
    return True


def load_classes(jvm: Any) -> None:
    """Put the classes on the class path of a JVM, for all its threads and sessions.

    Args:
        jvm: The view of py4j, of a gateway that need not have a session yet.

    Raises:
        StorageError: The cache cannot be written to.
    """
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    root = None
    while loader is not None:
        # Sessions have loaders of their own below the one of the application.
        if "MutableURLClassLoader" in str(loader.getClass().getName()):
            root = loader
        loader = loader.getParent()
    jar = _built_jar(jvm)
    url = jvm.java.io.File(str(jar)).toURI().toURL()
    if root is None:
        return
    if url.toString() not in [found.toString() for found in root.getURLs()]:
        root.addURL(url)


def catalog_jar(spark: "SparkSession") -> Path:
    """Return the jar of the classes for the Spark of a classic session; builds it if needed.

    For `spark.jars` of a Connect server, together with `spark.sql.catalog.spark_catalog` =
    `lanceops.LanceSessionCatalog`.

    Raises:
        StorageError: The cache cannot be written to.
    """
    return _built_jar(spark._jvm)  # noqa: SLF001 - the one way of pyspark into the JVM


def _built_jar(jvm: Any) -> Path:
    source = _one_unit(
        [
            place.read_text(encoding="utf-8")
            for place in sorted(files(__package__).iterdir(), key=lambda place: place.name)
            if place.name.endswith(".java")
        ]
    )
    version = str(jvm.org.apache.spark.package.SPARK_VERSION())
    digest = hashlib.sha256(f"{version}\0{source}".encode()).hexdigest()[:16]
    target = cache_root() / f"catalog-{digest}.jar"
    if not target.exists():
        workspace = target.with_suffix(f".{id(jvm):x}.new")
        workspace.write_bytes(_jar(_compile(jvm, source)))
        workspace.replace(target)
    return target


def _one_unit(sources: list[str]) -> str:
    """Join source files of one package: the compiler takes one."""
    imports = sorted({line for text in sources for line in re.findall(r"(?m)^import .*;$", text)})
    bodies = [re.sub(r"(?m)^(package|import) .*;\n", "", text) for text in sources]
    return "\n".join(["package lanceops;", *imports, *bodies])


def _compile(jvm: Any, source: str) -> dict[str, bytes]:
    """Compile the source; returns class files by name."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return {str(name): bytes(code) for name, code in dict(compiler.getBytecodes()).items()}


def _jar(classes: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as jar:
        for name, code in sorted(classes.items()):
            jar.writestr(f"{name.replace('.', '/')}.class", code)
        jar.writestr(_SERVICE, f"{_PROVIDER_CLASS}\n")
    return buffer.getvalue()
