"""A downstream Spark job with Dagster's own PySpark resource: it starts when the data of its source change.

`LAKE` in the environment is the folder of both datasets.
"""

import os
from pathlib import Path

import dagster as dg
import pyarrow as pa
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import DataFrame

from lance_ops.dagster import (
    IngestRequest,
    LanceDatasetRef,
    LanceDownstream,
    LanceIngest,
    LanceIOManager,
    LanceStoreResource,
    build_lance_definitions,
)
from lance_ops.spark import prepare_environment, register, spark_conf

MASTER = "local[2]"
DAYS = dg.DailyPartitionsDefinition(start_date="2024-05-01", end_date="2024-06-01")


def orders_of_day(request: IngestRequest) -> pa.Table:
    """Three orders of a day; a source of your own reads them somewhere."""
    assert request.time_window is not None
    day = request.time_window.start.date()
    return pa.table({"day": pa.array([day] * 3, pa.date32()), "amount": [10, 20, 12]})


def build_definitions(lake: Path) -> dg.Definitions:
    """Two datasets, an ingest into the first, and a Spark job that computes the second.

    Args:
        lake: Where they lie; nothing needs to be there yet.
    """
    orders = LanceDatasetRef("orders", str(lake / "orders.lance"))
    revenue = LanceDatasetRef("revenue_per_day", str(lake / "revenue_per_day.lance"))

    @dg.asset(key=revenue.key, deps=[orders.key], kinds={"pyspark"})
    def revenue_per_day(
        context: dg.AssetExecutionContext, pyspark: LazyPySparkResource, lance_store: LanceStoreResource
    ) -> DataFrame:
        # Spark reads these variables when its JVM starts, so before the session is first asked for.
        prepare_environment(MASTER)
        spark = pyspark.spark_session
        register(spark)
        version = lance_store.open(orders).version
        frame = spark.read.format("lance").option("version", version).load(orders.uri)
        # The manifest sensor starts the job again until a run has read the newest data.
        context.add_output_metadata({"lance/input_versions": {orders.name: version}})
        return frame.groupBy("day").sum("amount").withColumnRenamed("sum(amount)", "revenue")

    job = dg.define_asset_job("revenue_job", selection=[revenue_per_day])
    return dg.Definitions.merge(
        build_lance_definitions(
            [orders, revenue],
            ingests=[LanceIngest(orders, orders_of_day, partitions=DAYS, partition_column="day")],
            assets=[revenue_per_day],
            downstream=[LanceDownstream(job, [orders.name])],
            running=True,
        ),
        dg.Definitions(
            jobs=[job],
            resources={
                "pyspark": LazyPySparkResource(spark_config=spark_conf(MASTER)),
                # Writes what the asset returns as the dataset of its key.
                "io_manager": LanceIOManager(root=str(lake), store=LanceStoreResource()),
            },
            executor=dg.in_process_executor,
        ),
    )


@dg.definitions
def defs() -> dg.Definitions:
    """The code location."""
    return build_definitions(Path(os.environ.get("LAKE", "lake")).absolute())
