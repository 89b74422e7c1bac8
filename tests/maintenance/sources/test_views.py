"""Views end where data come in: every way in takes them, and answers as for the same values without views."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.sources.open import open_source
from lance_ops.maintenance.sources.views import has_views, type_without_views, without_views

TEXT, BYTES, INTS = pa.string_view(), pa.binary_view(), pa.list_view(pa.int32())
LONG = "too long to lie within the view itself"
KINDS = {
    "string": (TEXT, pa.string(), ["a", None, LONG]),
    "binary": (BYTES, pa.binary(), [b"a", None, LONG.encode()]),
    "list": (INTS, pa.list_(pa.int32()), [[1], None, [2, 3]]),
    "large list": (pa.large_list_view(TEXT), pa.large_list(pa.string()), [["a", None], None, []]),
    "struct": (
        pa.struct([pa.field("x", TEXT), pa.field("y", INTS)]),
        pa.struct([pa.field("x", pa.string()), pa.field("y", pa.list_(pa.int32()))]),
        [{"x": "a", "y": [1]}, None, {"x": None, "y": None}],
    ),
    "list of strings": (pa.list_(TEXT), pa.list_(pa.string()), [["a"], None, ["b", LONG]]),
    "fixed-size list": (pa.list_(TEXT, 2), pa.list_(pa.string(), 2), [["a", "b"], None, ["c", None]]),
    "map": (
        pa.map_(TEXT, INTS),
        pa.map_(pa.string(), pa.list_(pa.int32())),
        [[("a", [1])], None, [("b", None), ("c", [2, 3])]],
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_values_stay_what_they_are_also_of_slices(name):
    view, plain, values = KINDS[name]
    assert type_without_views(view) == plain
    assert has_views(view)
    assert not has_views(plain)
    given = pa.array(values, view) if name != "map" else _map(values)
    for piece, wanted in ((given, values), (given.slice(1), values[1:]), (given.slice(2, 1), values[2:])):
        found = without_views(piece)
        found.validate(full=True)
        assert found.type == plain
        assert found.to_pylist() == wanted


def _map(values):
    flat = [pair for row in values for pair in row or []]
    keys = pa.array([key for key, _ in flat], TEXT)
    items = pa.array([item for _, item in flat], INTS)
    return pa.MapArray.from_arrays(
        [0, 1, 1, 3], keys, items, type=pa.map_(TEXT, INTS), mask=pa.array([row is None for row in values])
    )


@given(st.lists(st.none() | st.lists(st.none() | st.text(max_size=20), max_size=4), max_size=12), st.data())
def test_lists_whose_views_lie_anywhere_keep_their_values(values, data):
    at = data.draw(st.integers(0, len(values)))
    found = without_views(pa.array(values, pa.list_view(TEXT)).slice(at))
    found.validate(full=True)
    assert found.to_pylist() == values[at:]


def test_list_views_that_overlap_and_stand_out_of_order_keep_their_values():
    given = pa.ListViewArray.from_arrays([3, 0, 1, 0], [2, 2, 1, 5], pa.array([1, 2, 3, 4, 5], pa.int32()))
    assert without_views(given.slice(1)).to_pylist() == [[1, 2], [2], [1, 2, 3, 4, 5]]


def test_what_has_no_views_is_the_same_object_afterwards():
    values = pa.array([["a"], None])
    assert without_views(values) is values


# No storage version has fixed-size lists of strings.
@pytest.mark.parametrize("name", [name for name in KINDS if name != "fixed-size list"])
def test_every_way_in_takes_views(tmp_path, name):
    view, plain, values = KINDS[name]
    column = pa.array(values, view) if name != "map" else _map(values)
    base = pa.table({"id": [1, 2, 3], "v": pa.array(values[::-1], plain)})
    views = pa.table({"id": [3, 4, 5], "v": column})

    new = tmp_path / "new"
    lo.write_dataset(views, new)
    assert lo.dataset(new).to_table().column("v").to_pylist() == values
    assert lo.dataset(new).schema.field("v").type == plain

    uri = tmp_path / "t"
    lo.write_dataset(base, uri)
    lo.append(uri, views.slice(2))
    lo.merge_insert(uri, views, on=["id"], when_matched="update_all", when_not_matched="insert_all")
    wanted = {1: values[2], 2: values[1], 3: values[0], 4: values[1], 5: values[2]}
    rows = lo.dataset(uri).to_table().to_pylist()
    assert {row["id"]: row["v"] for row in rows} == wanted
    assert len(rows) == 5

    lo.merge(uri, views.rename_columns(["id", "joined"]), "id")
    given = dict(zip([3, 4, 5], values, strict=True))
    found = lo.dataset(uri).to_table().to_pylist()
    assert {row["id"]: row["joined"] for row in found} == {
        number: given.get(number) for number in range(1, 6)
    }

    lo.add_columns(uri, pa.table({"added": pa.concat_arrays([column, column.slice(0, 2)])}).to_reader())
    assert lo.dataset(uri).to_table().column("added").to_pylist() == [*values, *values[:2]]
    assert lo.fsck(uri).ok


@pytest.mark.parametrize(("kind", "keys"), [(TEXT, ["a", "b", LONG]), (BYTES, [b"a", b"b", b"c"])], ids=str)
def test_keys_may_be_views(tmp_path, kind, keys):
    uri = tmp_path / "t"
    lo.write_dataset(pa.table({"k": keys[:2], "x": [1, 2]}), uri)
    source = pa.table({"k": pa.array(keys[1:], kind), "y": [20, 30]})
    lo.merge(uri, source, "k")
    assert [row["y"] for row in lo.dataset(uri).to_table().to_pylist()] == [None, 20]
    more = pa.table({"k": pa.array(keys[1:], kind), "x": [7, 8], "y": [9, 9]})
    lo.merge_insert(uri, more, on=["k"], when_matched="update_all", when_not_matched="insert_all")
    rows = {row["k"]: row["x"] for row in lo.dataset(uri).to_table().to_pylist()}
    assert rows == {keys[0]: 1, keys[1]: 7, keys[2]: 8}


def test_a_function_for_new_columns_may_return_views(tmp_path):
    uri = tmp_path / "t"
    lo.write_dataset(pa.table({"x": [1, 2]}), uri)

    def named(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = pa.array([[f"n{x}"] for x in batch.column("x").to_pylist()], pa.list_(TEXT))
        return pa.record_batch({"s": values})

    lo.add_columns(uri, named, output_schema=pa.schema({"s": pa.list_(pa.string())}))
    assert lo.dataset(uri).to_table().column("s").to_pylist() == [["n1"], ["n2"]]


def test_views_that_parquet_files_ask_for_are_read(tmp_path):
    table = pa.table({"s": pa.array(["a", None], TEXT)})
    pq.write_table(table, tmp_path / "in.parquet")
    lo.write_dataset(tmp_path / "in.parquet", tmp_path / "t")
    assert lo.dataset(tmp_path / "t").to_table().to_pylist() == table.to_pylist()


def test_batches_of_a_stream_lose_their_views_and_errors_of_the_stream_stay_typed():
    def batches():
        yield pa.record_batch({"v": pa.array([[1]], INTS)})
        raise pa.ArrowInvalid("the end")

    read = open_source(pa.RecordBatchReader.from_batches(pa.schema({"v": INTS}), batches())).batches()
    assert next(read).schema.field("v").type == pa.list_(pa.int32())
    with pytest.raises(InvalidArgumentError, match="the end"):
        next(read)
