from datetime import datetime
from itertools import pairwise

import pyarrow as pa
import pytest

from examples.demo import flights
from lance_ops.errors import FileMissingError


def test_all_flights_of_the_year_are_there():
    table = flights.read_flights()
    assert table.num_rows == 336_776
    assert table.schema.field("time_hour").type == pa.timestamp("us", "UTC")
    assert table["tailnum"].null_count == 2_512
    assert table.num_rows - table["dep_time"].null_count == 328_521


def test_months_do_not_overlap_and_miss_nothing():
    starts = [datetime(2013, month, 1) for month in range(1, 13)] + [datetime(2014, 1, 1)]  # noqa: DTZ001
    months = [flights.read_flights(a, b) for a, b in pairwise(starts)]
    assert sum(table.num_rows for table in months) == 336_776
    assert [set(table["month"].to_pylist()) for table in months] == [{month} for month in range(1, 13)]


def test_missing_data_say_what_to_install(monkeypatch):
    monkeypatch.setattr(flights, "_PACKAGE", "no_such_package")
    with pytest.raises(FileMissingError, match=r"lance-ops\[demo\]"):
        flights.read_flights()
