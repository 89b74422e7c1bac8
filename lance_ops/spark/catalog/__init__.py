"""Session catalog: named tables of the format `lance`, as in `CREATE TABLE ... USING lance`.

Spark's own catalog keeps location and options of a table, but does not pass them to a data source written in
Python. A small class of the JVM does, on the driver only. Spark's own compiler builds it from its source
(beside this module) once for each version of Spark; the result is cached.
"""

import hashlib
import io
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from lance_ops.spark.cache import cache_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG_SETTING = "spark.sql.catalog.spark_catalog"
CATALOG_CLASS = "lanceops.LanceSessionCatalog"
_SOURCE = "LanceSessionCatalog.java"


def install_catalog(spark: "SparkSession") -> bool:
    """Install the catalog in a session; returns whether that was possible.

    It is not on Spark Connect, whose server must be started with the jar, and if another catalog has replaced
    Spark's own.
    """
    chosen = spark.conf.get(CATALOG_SETTING, None) or "builtin"
    if chosen == CATALOG_CLASS:
        return True
    if chosen != "builtin" or not hasattr(spark, "_jvm"):
        return False
    jar = catalog_jar(spark)
    spark.sql(f"ADD JAR '{jar.as_uri()}'")
    spark.conf.set(CATALOG_SETTING, CATALOG_CLASS)
    # The jar is visible in the class loader of this thread only: another one could not load the catalog
    # later.
    spark.catalog.currentCatalog()
    return True


def catalog_jar(spark: "SparkSession") -> Path:
    """Return the jar of the catalog for the Spark of a classic session; builds it if needed.

    For `spark.jars` of a Connect server, together with `spark.sql.catalog.spark_catalog` =
    `lanceops.LanceSessionCatalog`.

    Raises:
        StorageError: The cache cannot be written to.
    """
    source = files(__package__).joinpath(_SOURCE).read_text(encoding="utf-8")
    digest = hashlib.sha256(f"{spark.version}\0{source}".encode()).hexdigest()[:16]
    target = cache_root() / f"catalog-{digest}.jar"
    if not target.exists():
        workspace = target.with_suffix(f".{id(spark):x}.new")
        workspace.write_bytes(_jar(_compile(spark, source)))
        workspace.replace(target)
    return target


def _compile(spark: "SparkSession", source: str) -> dict[str, bytes]:
    """Compile the source; returns class files by name."""
    jvm = spark._jvm  # noqa: SLF001 - the one way of pyspark into the JVM
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return {str(name): bytes(code) for name, code in dict(compiler.getBytecodes()).items()}


def _jar(classes: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as jar:
        for name, code in sorted(classes.items()):
            jar.writestr(f"{name.replace('.', '/')}.class", code)
    return buffer.getvalue()
