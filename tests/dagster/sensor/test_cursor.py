import json

from hypothesis import given
from hypothesis import strategies as st

from lance_ops.dagster.sensor.cursor import DatasetCursor, SensorCursor, parse_cursor

texts = st.none() | st.text(max_size=20)
entries = st.builds(DatasetCursor, st.none() | st.integers(0, 2**63), texts, texts)
cursors = st.builds(
    SensorCursor,
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=10), entries, max_size=4),
    st.integers(0, 10),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(cursors)
def test_a_cursor_survives_the_trip(cursor):
    assert parse_cursor(cursor.serialize()) == cursor


@given(st.text())
def test_any_text_can_be_parsed(text):
    parse_cursor(text)


@given(json_values, json_values, json_values, st.sampled_from([1, 2]))
def test_any_content_can_be_parsed(datasets, offset, entry, schema):
    for content in (datasets, {"t": entry}, {"t": {"version": entry, "data": offset}}):
        text = json.dumps({"schema": schema, "memory": entry, "offset": offset, "datasets": content})
        cursor = parse_cursor(text)
        assert isinstance(cursor.memory, str)
        assert cursor.offset >= 0
        assert all(item.version is None or item.version >= 0 for item in cursor.datasets.values())


def test_entries_that_make_no_sense_do_not_spoil_the_others():
    text = '{"schema": 1, "datasets": {"a": {"version": 3}, "b": [1], "c": {"version": true}}, "later": 1}'
    assert parse_cursor(text) == SensorCursor("", {"a": DatasetCursor(3), "c": DatasetCursor()})


def test_a_cursor_stays_short_and_readable():
    cursor = SensorCursor("5e1f", {"flights": DatasetCursor(12, "0" * 32)})
    assert json.loads(cursor.serialize()) == {
        "schema": 2,
        "memory": "5e1f",
        "offset": 0,
        "datasets": {"flights": {"version": 12, "data": "0" * 32}},
    }


def test_when_all_was_checked_is_remembered():
    entries = {"a": DatasetCursor(3, "x", None, 1_700_000_000, "5e1f"), "b": DatasetCursor(1)}
    cursor = SensorCursor("5e1f", entries)
    assert parse_cursor(cursor.serialize()) == cursor
    assert parse_cursor('{"schema": 2, "datasets": {"a": {"checked": "x"}}}').datasets["a"].checked is None
