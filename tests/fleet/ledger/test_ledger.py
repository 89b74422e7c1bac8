"""The ledger: one row for each look and operation, whoever dies, and a bounded size."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.fleet.ledger.ledger import FleetLedger, removal_of
from lance_ops.fleet.ledger.rows import (
    Look,
    OperationRow,
    RunRow,
    from_json,
    from_table,
    to_json,
    to_short_json,
    to_table,
)
from lance_ops.storage import open_store

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def look(name: str, at: datetime = NOW, **values) -> Look:
    base = {
        "key": f"{at}/{name}",
        "survey": str(at),
        "store": "s",
        "uri": f"/x/{name}",
        "class_name": "default",
    }
    return Look(at=at, dataset=name, **base, **values)


def operation(name: str = "a", run: str = "r", **values) -> OperationRow:
    base = {"store": "s", "uri": f"/x/{name}", "operation": "compact", "outcome": "done"}
    return OperationRow(
        **{**base, "key": f"{run}/{name}/compact", "run": run, "at": NOW, "dataset": name, **values}
    )


@pytest.fixture
def ledger(tmp_path):
    return FleetLedger(open_store(str(tmp_path / "ledger"), {"fsync": "false"}))


@given(
    st.builds(
        OperationRow,
        key=st.text(),
        run=st.text(),
        at=st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),  # noqa: DTZ001
        dataset=st.text(),
        store=st.text(),
        uri=st.text(),
        operation=st.text(),
        outcome=st.text(),
        version=st.none() | st.integers(0, 2**60),
        seconds_planned=st.none() | st.floats(0, 1e9),
    )
)
def test_rows_survive_tables_and_json(row):
    assert from_table(OperationRow, to_table(OperationRow, [row])) == [row]
    assert from_json(OperationRow, to_json(row)) == row
    assert from_json(OperationRow, to_short_json(row)) == row


def test_columns_of_a_newer_release_and_missing_ones_do_no_harm():
    table = to_table(Look, [look("a", due=("compact",))])
    assert from_table(Look, table.append_column("later", [[1]]).drop_columns(["why"])) == [
        look("a", due=("compact",))
    ]


def test_an_empty_ledger_knows_nothing(ledger):
    assert (ledger.latest(), ledger.looks(), ledger.operations(), ledger.runs()) == ({}, [], [], [])


def test_looks_are_there_once_and_the_newest_counts(ledger):
    old = [look("a", rows=1), look("b", rows=2)]
    new = [look("a", NOW + timedelta(hours=1), rows=3)]
    for _ in range(2):
        ledger.add_looks(old, key="1")
        ledger.add_looks(new, key="2")
    assert len(ledger.looks()) == 3
    assert {name: item.rows for name, item in ledger.latest().items()} == {"a": 3, "b": 2}
    assert [item.rows for item in ledger.looks(dataset="a")] == [1, 3]
    assert [item.rows for item in ledger.looks(since=NOW + timedelta(minutes=1))] == [3]


def test_a_name_with_quotes_is_a_name(ledger):
    ledger.add_looks([look("it's")], key="1")
    assert [item.dataset for item in ledger.looks(dataset="it's")] == ["it's"]


def test_an_operation_told_twice_is_there_once(ledger):
    for _ in range(2):
        ledger.add_operations([operation("a"), operation("b")])
    assert [row.dataset for row in ledger.operations()] == ["a", "b"]


def test_a_run_says_more_of_itself(ledger):
    ledger.add_run(RunRow(key="r", at=NOW))
    ledger.add_run(RunRow(key="r", at=NOW, done=3))
    assert [row.done for row in ledger.runs()] == [3]


def begun(ledger, row):
    ledger.journal.begin(row.run, row.dataset, [replace(row, outcome="broken off")])


def test_what_a_dead_writer_left_is_taken_over_once(ledger):
    row = operation()
    begun(ledger, row)
    ledger.journal.end(row.run, row.dataset, [row])
    assert ledger.settle(lambda _: False) == 0
    # The writer died between its commit and the removal of the files, and the next one begins again.
    begun(ledger, row)
    ledger.journal.end(row.run, row.dataset, [row])
    ledger.settle(lambda _: False)
    assert ledger.operations() == [row]
    assert not list(ledger.journal.entries())


def test_what_was_broken_off_is_told_and_what_is_under_way_is_not(ledger):
    begun(ledger, operation("dead"))
    begun(ledger, operation("alive"))
    assert ledger.settle(lambda row: row.dataset == "alive") == 1
    assert [(row.dataset, row.outcome) for row in ledger.operations()] == [("dead", "broken off")]
    assert [entry.rows[0].dataset for entry in ledger.journal.entries()] == ["alive"]


def test_a_journal_file_that_is_damaged_stops_nobody(ledger):
    ledger.store.put("journal/r/x.ended", b"{")
    ledger.settle(lambda _: False)
    assert ledger.operations() == []


def test_it_stays_small_and_forgets_what_is_old(tmp_path):
    ledger = FleetLedger(open_store(str(tmp_path / "l"), {"fsync": "false"}), keep=timedelta(days=2))
    for hour in range(70):
        at = NOW - timedelta(hours=70 - hour)
        ledger.add_looks([look("a", at)], key=str(hour))
        ledger.maintain(NOW)
    opened = ledger._open(Look)
    assert len(opened.fragments) <= 30
    assert all(item.at >= NOW - timedelta(days=3) for item in ledger.looks())
    assert len(ledger.latest()) == 1


@pytest.mark.parametrize(
    ("uri", "command"),
    [
        ("/lake/a b/looks.lance", "`rm -r '/lake/a b/looks.lance'`"),
        ("s3://bucket/l/looks.lance", "`aws s3 rm --recursive s3://bucket/l/looks.lance`"),
        ("s3a://bucket/l/looks.lance", "`aws s3 rm --recursive s3://bucket/l/looks.lance`"),
        ("gs://bucket/l/looks.lance", "`gcloud storage rm --recursive gs://bucket/l/looks.lance`"),
        ("gcs://bucket/l/looks.lance", "`gcloud storage rm --recursive gs://bucket/l/looks.lance`"),
        ("az://box/l/looks.lance", "`az storage blob delete-batch --source box --pattern 'l/looks.lance/*'`"),
        (
            "abfss://box@account.dfs.core.windows.net/l/looks.lance",
            "`az storage blob delete-batch --source box --pattern 'l/looks.lance/*'`",
        ),
        ("sftp://host/l/looks.lance", "remove sftp://host/l/looks.lance with all its contents"),
    ],
)
def test_the_advice_about_a_damaged_ledger_names_the_tool_of_its_store(uri, command):
    assert removal_of(uri) == command
