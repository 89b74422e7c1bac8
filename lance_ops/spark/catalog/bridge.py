"""Answers the classes in Java: statements of `spark.sql`, and tables of catalogs over a folder.

They run in the JVM that this process drives, and call it back, as pyspark does for `foreachBatch`. The parser
in Java hands the text of a statement on; there is one parser and one implementation, `lance_ops.sql`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lance_ops.errors import InvalidArgumentError, LanceOpsError, UnsupportedError
from lance_ops.spark.catalog import folders
from lance_ops.spark.sql.parse import named_table, parse_statement
from lance_ops.spark.sql.results import schema_of
from lance_ops.spark.sql.run import sql
from lance_ops.spark.sql.statements import Clone, Name, SetProperties
from lance_ops.spark.sql.tables import Tables, quoted_name
from lance_ops.spark.sql.versions import clone_path
from lance_ops.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Bridge:
    """The object that Java calls; see `Bridge.java`."""

    def apply(self, request: Sequence[str], session: Any) -> Any:
        """Answer one request.

        Args:
            request: The word of the request, and its arguments.
            session: The session of the caller in Java.

        Returns:
            What the word says; for an error "error", its type and its text.
        """
        from pyspark.sql import SparkSession

        word, *arguments = request
        before = SparkSession._activeSession  # noqa: SLF001 - pyspark sets it for each new DataFrame
        try:
            return _ANSWERS[word](_session(session), *arguments)
        except LanceOpsError as error:
            return f"error {type(error).__name__} {error}"
        finally:
            SparkSession._activeSession = before  # noqa: SLF001 - as above

    class Java:
        """The interface, for py4j."""

        implements = ("java.util.function.BiFunction",)


def install_bridge(spark: "SparkSession") -> None:
    """Let the JVM of a classic session call this process."""
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = spark.sparkContext._gateway  # noqa: SLF001 - as pyspark does for foreachBatch
    ensure_callback_server_started(gateway)
    gateway.jvm.lanceops.Bridge.set(Bridge())


def claim(spark: "SparkSession", text: str) -> str | None:
    """Return the columns of the result of a statement as JSON; None if it is for Spark.

    It is if it is none of ours, or if its table is none: Spark, or the extension of another format, then says
    what it thinks of it.
    """
    name = named_table(text)
    if name is None or not _is_ours(spark, name):
        return None
    parsed = parse_statement(text)
    if parsed is None or isinstance(parsed, SetProperties):
        # Properties of a table are notes of the catalog.
        return None
    return str(spark_schema(schema_of(parsed)).json())


def run(spark: "SparkSession", text: str) -> Any:
    """Run a statement; returns the DataFrame of its result in Java."""
    done: DataFrame = sql(text, spark)
    parsed = parse_statement(text)
    if isinstance(parsed, Clone) and clone_path(parsed) is None:
        place = str(done.first()["location"]).replace("'", "\\'")
        spark.sql(f"CREATE TABLE {quoted_name(parsed.target)} USING lance LOCATION '{place}'")
    return done._jdf  # noqa: SLF001 - Java takes its own object


def _is_ours(spark: "SparkSession", name: Name) -> bool:
    try:
        Tables(spark=spark).find(name)
    except (UnsupportedError, InvalidArgumentError):
        return False
    return True


def _session(session: Any) -> "SparkSession":
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    first = SparkSession._instantiatedSession  # noqa: SLF001 - as above
    if first is not None and first._jsparkSession.equals(session):  # noqa: SLF001 - as above
        return first
    context = SparkContext._active_spark_context  # noqa: SLF001 - as above
    return SparkSession(context, session)


_ANSWERS: Mapping[str, Callable[..., Any]] = {"claim": claim, "run": run, **folders.ANSWERS}
