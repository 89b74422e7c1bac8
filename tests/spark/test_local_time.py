"""Options that filter by timestamps: UTC and the time zone of the session do not get mixed up."""

import pyarrow as pa
import pytest

from lance_ops.errors import UnsupportedError
from lance_ops.filter import parse_filter
from lance_ops.spark.local_time import refuse_local_filter

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "s": pa.string(),
        "ts": pa.timestamp("us", "UTC"),
        "tn": pa.timestamp("us"),
        "dt": pa.date32(),
    }
)
LOCAL = [
    "ts >= '2024-01-01 03:00:00'",
    "ts IN ('2024-01-01')",
    "ts BETWEEN TIMESTAMP '2024-01-01 00:00:00Z' AND TIMESTAMP '2024-01-02 00:00:00'",
    "ts = CAST('2024-01-01 03:00:00' AS TIMESTAMP)",
    "ts >= DATE '2024-01-01'",
    "CAST(ts AS DATE) = DATE '2024-01-01'",
    "extract(hour from ts) = 3",
    "date_trunc('day', ts) = TIMESTAMP '2024-01-01 00:00:00Z'",
    "ts = tn",
    "ts > dt",
    "id = 1 OR NOT ts > '2024-01-01'",
]
EVERYWHERE = [
    "ts >= TIMESTAMP '2024-01-01 03:00:00Z'",
    "ts >= '2024-01-01 03:00:00+05:30'",
    "ts IN ('2024-01-01T03:00:00Z', '2024-01-02T03:00:00Z') AND id > 5",
    "ts IS NOT NULL",
    "ts = ts",
    "dt > DATE '2024-01-01'",
    "tn > '2024-01-01'",
    "s = '2024-01-01'",
]


@pytest.mark.parametrize("zone", [None, "Asia/Kolkata", "+05:30"])
@pytest.mark.parametrize("condition", LOCAL)
def test_filters_that_depend_on_the_zone_are_refused(condition, zone):
    expression = parse_filter(condition, SCHEMA)
    with pytest.raises(UnsupportedError, match=r"in UTC.*field: filter"):
        refuse_local_filter(condition, expression, zone, field="filter")
    refuse_local_filter(condition, expression, "UTC", field="filter")


@pytest.mark.parametrize("zone", [None, "Asia/Kolkata", "Etc/UTC"])
@pytest.mark.parametrize("condition", EVERYWHERE)
def test_filters_that_mean_the_same_in_every_zone_are_taken(condition, zone):
    refuse_local_filter(condition, parse_filter(condition, SCHEMA), zone, field="filter")
