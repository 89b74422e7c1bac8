"""Texts with an offset beside dates, timestamps and times: the rows that pylance selects."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import PredicateError
from lance_ops.filter import evaluate_values, parse_value
from lance_ops.filter.types.texts import read_date

lance = pytest.importorskip("lance")
pytestmark = pytest.mark.peer

HOURS = [dt.datetime(2024, 1, 1) + dt.timedelta(hours=hours) for hours in range(-48, 49)]  # noqa: DTZ001
COLUMNS = {
    "day": pa.array([hour.date() for hour in HOURS], pa.date32()),
    "day64": pa.array([hour.date() for hour in HOURS], pa.date64()),
    "wall": pa.array(HOURS, pa.timestamp("us")),
    "zoned": pa.array(HOURS, pa.timestamp("ms", "Europe/Berlin")),
    "clock": pa.array([hour.time() for hour in HOURS], pa.time64("us")),
}
TEXTS = (
    "2024-01-01T00:30:00+02:00",
    "2024-01-01 23:00:00-0500",
    "2024-01-01T00:00:00 +02:00",
    "2024-01-01T01:00:00 Europe/Berlin",
    "2024-01-01T12:00:00Z",
    "2024-01-01T12:00:00",
    "12:00:00",
    "12:00:00+02:00",
)
CONSTANTS = ("DATE '{}'", "TIMESTAMP '{}'", "CAST('{}' AS DATE)", "'{}'")
FORMS = ("{0} = {1}", "{0} IN ({1}, NULL)", "{0} NOT IN ({1})", "{0} BETWEEN {1} AND {1}", "{1} <= {0}")


def test_they_select_the_rows_that_pylance_selects(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": range(len(HOURS)), **COLUMNS}), uri)
    theirs, ours = lance.dataset(uri), lo.dataset(uri)
    compared = 0
    for name in COLUMNS:
        for number, text in enumerate(TEXTS):
            for place, constant in enumerate(CONSTANTS):
                # Each form with each type, each text and each constant, not all with all.
                sql = FORMS[(number + place) % len(FORMS)].format(name, constant.format(text))
                try:
                    wanted = theirs.to_table(columns=["id"], filter=sql)
                except (ValueError, OSError):
                    # What pylance refuses may be taken here, such as texts beside dates.
                    continue
                assert ours.to_table(["id"], filter=sql).equals(wanted), sql
                compared += 1
    assert compared > 60


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2024-01-01T00:30:00+02:00", "2023-12-31"),
        ("2024-01-01T23:00:00-05:00", "2024-01-02"),
        ("2024-01-01T00:30:00", "2024-01-01"),
        ("2024-01-01T00:30:00 Asia/Tokyo", "2023-12-31"),
        ("1970-01-01T00:00:00+00:01", "1969-12-31"),
        ("2024-01-01", "2024-01-01"),
    ],
)
def test_the_day_of_a_time_with_an_offset_is_that_in_utc(text: str, day: str) -> None:
    assert read_date(text) == (dt.date.fromisoformat(day) - dt.date(1970, 1, 1)).days
    rows = pa.table({"d": pa.array([dt.date.fromisoformat(day)]), "s": [text]})
    for sql in (f"d = '{text}'", f"d IN (DATE '{text}')", "d = CAST(s AS DATE)"):
        assert evaluate_values(parse_value(sql, rows.schema), rows)[0].as_py() is True, sql


@pytest.mark.parametrize("text", ["2024-01-01T00:30:00+2", "2024-01-01T25:00:00Z", "2024-01-01 nowhere"])
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(PredicateError):
        parse_value(f"d = DATE '{text}'", pa.schema([("d", pa.date32())]))
