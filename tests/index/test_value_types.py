"""Indices on members of structs, of every type that a kind takes, answer as a scan does."""

import datetime as dt
import warnings
from decimal import Decimal

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError

UTC = dt.UTC
DAYS = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]
TIMES = [dt.datetime.fromtimestamp(second, UTC) for second in (-1, 0, 1_709_168_523)]
CASES = {
    "wide integers": (pa.int64(), [-(2**63) + 1, 0, 2**53, 2**53 + 1, 2**63 - 1], str),
    "unsigned": (pa.uint64(), [0, 1, 2**53, 2**53 + 1, 2**63 - 1], str),
    "decimals": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("9.75")], str),
    "wide decimals": (pa.decimal256(40, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("9.75")], str),
    "bytes": (pa.binary(), [b"", b"\0", b"a", b"ab", b"\xff\xff"], lambda value: f"X'{value.hex()}'"),
    "bytes of one length": (pa.binary(2), [b"\0\0", b"ab", b"\xff\xff"], lambda value: f"X'{value.hex()}'"),
    "large texts": (pa.large_string(), ["", "a", "ab", "é", "\U0001f600"], lambda value: f"'{value}'"),
    "days": (pa.date32(), DAYS, lambda value: f"date '{value}'"),
    "days in milliseconds": (pa.date64(), DAYS, lambda value: f"date '{value}'"),
    "timestamps": (
        pa.timestamp("ns"),
        [time.replace(tzinfo=None) for time in TIMES],
        lambda value: f"timestamp '{value}'",
    ),
    "timestamps of a zone": (
        pa.timestamp("ms", "Europe/Berlin"),
        TIMES,
        lambda value: f"timestamp '{value.isoformat()}'",
    ),
    "booleans": (pa.bool_(), [True, False], lambda value: str(value).lower()),
}
CONDITIONS = (
    "{c} = {a}",
    "{c} != {a}",
    "{c} < {a}",
    "{c} >= {a}",
    "{c} IN ({a}, {b})",
    "{c} NOT IN ({a}, {b})",
    "{c} IN ({long})",
    "{c} BETWEEN {a} AND {b}",
    "{c} = {a} OR {c} IS NULL",
    "({c} = {a}) IS NOT TRUE",
    "{c} IS NOT NULL AND {c} != {b}",
)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_values_of_every_type_are_found_as_by_a_scan(tmp_path, case: str) -> None:
    data_type, values, literal = CASES[case]
    column_values = pa.array([*values, None] * 4, data_type)
    hidden = pa.array([row % 5 == 0 for row in range(len(column_values))])
    structs = pa.StructArray.from_arrays([column_values], ["v"], mask=hidden)
    uri = tmp_path / "t.lance"
    rows = pa.table({"id": range(len(column_values)), "s": structs})
    lo.write_dataset(rows, uri, max_rows_per_file=9, data_storage_version="2.1")
    written = [literal(value) for value in values]
    built = 0
    for kind in ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"):
        small = {"ZONEMAP": {"rows_per_zone": 2}, "BLOOMFILTER": {"number_of_items": 2}}.get(kind, {})
        try:
            lo.create_index(uri, "s.v", kind, name="only", replace=True, parameters=small)
        except InvalidArgumentError:
            assert kind == "BLOOMFILTER"
            continue
        built += 1
        dataset = lo.dataset(uri)
        for number, form in enumerate(CONDITIONS):
            one, other = written[number % len(written)], written[(number + 1) % len(written)]
            condition = form.format(c="s.v", a=one, b=other, long=", ".join(written * 40))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = dataset.to_table(["id"], filter=condition)
            scanned = dataset.to_table(["id"], filter=condition, pruners=())
            assert found.equals(scanned), (kind, condition)
    assert built >= 3
