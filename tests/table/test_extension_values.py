"""Extension types at any depth: results with and without rows, and appends, are those of the peer."""

import subprocess
import sys
import uuid

import lance
import lance.arrow
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.file.schema.conform import storage_type
from lance_ops.table.assemble import assemble, empty_table
from tests.support.interop import peer_table

HALF = lance.arrow.BFloat16Type()
TENSOR = pa.fixed_shape_tensor(pa.float32(), [2])
U = uuid.UUID(int=5).bytes
HALVES = [b"ab", b"cd"]

# Type and three values each; structs are not null, which storage version 2.0 cannot hold.
KINDS = {
    "tensor": (TENSOR, [[1, 2], None, [3, 4]]),
    "tensor of bfloat16": (pa.fixed_shape_tensor(HALF, [2]), [HALVES, None, HALVES]),
    "uuid": (pa.uuid(), [U, None, U]),
    "json": (pa.json_(), ['{"a":1}', None, "[]"]),
    "struct of uuid": (pa.struct([("u", pa.uuid())]), [{"u": U}, {"u": None}, {"u": U}]),
    "struct of json": (pa.struct([("j", pa.json_())]), [{"j": "1"}, {"j": None}, {"j": "{}"}]),
    "struct of tensor": (pa.struct([("t", TENSOR)]), [{"t": [1, 2]}, {"t": None}, {"t": [3, 4]}]),
    "struct of struct of json": (pa.struct([("s", pa.struct([("j", pa.json_())]))]), [{"s": {"j": "1"}}] * 3),
    "list of uuid": (pa.list_(pa.uuid()), [[U, None], None, []]),
    "list of json": (pa.list_(pa.json_()), [["1", None], None, []]),
    "list of tensor": (pa.list_(TENSOR), [[[1, 2], None], None, []]),
    "large list of uuid": (pa.large_list(pa.uuid()), [[U, None], None, []]),
    "list of struct of uuid": (pa.list_(pa.struct([("u", pa.uuid())])), [[{"u": U}, {"u": None}], None, []]),
    "map to uuid": (pa.map_(pa.string(), pa.uuid()), [[("k", U)], None, []]),
    "bfloat16": (HALF, [b"ab", None, b"cd"]),
    "list of bfloat16": (pa.list_(HALF), [[b"ab", None], None, []]),
    "struct of bfloat16": (pa.struct([("h", HALF)]), [{"h": b"ab"}, {"h": None}, {"h": b"cd"}]),
    "fixed-size list of bfloat16": (pa.list_(HALF, 2), [HALVES, None, HALVES]),
    "struct of fixed-size list of bfloat16": (
        pa.struct([("f", pa.list_(HALF, 2))]),
        [{"f": HALVES}, {"f": None}, {"f": HALVES}],
    ),
    "bool8": (pa.list_(pa.bool8()), [[1, None], None, []]),
    "opaque": (pa.opaque(pa.int32(), "type", "vendor"), [1, None, 2]),
}
CASES = [
    pytest.param(version, kind, id=f"{version} {kind}")
    for version in ("2.0", "2.1", "2.2")
    for kind in KINDS
    if kind != "map to uuid" or version == "2.2"
]


def make_table(kind: str) -> pa.Table:
    data_type, values = KINDS[kind]
    column = assemble(data_type, [pa.array(values, storage_type(data_type))], len(values))
    return pa.table({"id": range(len(values)), "x": column})


def check(ours: pa.Table, theirs: pa.Table) -> None:
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    ours.validate(full=True)
    assert ours.num_rows == theirs.num_rows
    for mine, yours in zip(ours.columns, theirs.columns, strict=True):
        plain = storage_type(mine.type)
        assert mine.cast(plain).to_pylist() == yours.cast(plain).to_pylist()


@pytest.mark.peer
@pytest.mark.parametrize(("version", "kind"), CASES)
def test_every_result_is_the_peers_with_rows_and_without(tmp_path, version, kind):
    uri, table = str(tmp_path / "rows.lance"), make_table(kind)
    lance.write_dataset(table, uri, data_storage_version=version)
    peer, dataset = lance.dataset(uri), lo.dataset(uri)
    check(dataset.to_table(), peer.to_table())
    check(dataset.to_table(filter="id = 1"), peer.to_table(filter="id = 1"))
    check(dataset.take([2, 0]), peer.take([2, 0]))
    nothing = peer.to_table(filter="id = 99")
    check(dataset.to_table(filter="id = 99"), nothing)
    check(dataset.to_batches(filter="id = 99").read_all(), nothing)
    check(dataset.to_table(limit=0), nothing)
    check(dataset.take([]), nothing)
    check(dataset.to_table(["x"], "id = 99"), peer.to_table(columns=["x"], filter="id = 99"))

    lo.delete(uri, "true")
    check(lo.dataset(uri).to_table(), peer_table(uri))
    lo.append(uri, nothing)
    check(lo.dataset(uri).to_table(), peer_table(uri))


@pytest.mark.peer
@pytest.mark.parametrize(("version", "kind"), CASES)
def test_what_either_side_reads_both_append(tmp_path, version, kind):
    uri, table = str(tmp_path / "rows.lance"), make_table(kind)
    lo.write_dataset(table, uri, data_storage_version=version)
    check(lo.dataset(uri).to_table(), peer_table(uri))
    lo.append(uri, peer_table(uri))
    lance.write_dataset(lo.dataset(uri).to_table(limit=3), uri, mode="append")
    if version != "2.0" or not pa.types.is_struct(table["x"].type):
        lo.append(uri, pa.table({"id": [4, 5]}), fill_missing=True)
    check(lo.dataset(uri).to_table(), peer_table(uri))
    lo.compact(uri)
    check(lo.dataset(uri).to_table(), peer_table(uri))


JSON_STRUCT = pa.struct([("j", pa.json_()), ("i", pa.int32())])


PACKED = {"lance-encoding:packed": "true"}
HIDING = [
    (("2.1", "2.2"), pa.field("x", JSON_STRUCT), [{"j": "1", "i": 1}, None]),
    (
        ("2.1", "2.2"),
        pa.field("x", pa.struct([("s", JSON_STRUCT)])),
        [{"s": {"j": "1", "i": 1}}, {"s": None}, None],
    ),
    (("2.1", "2.2"), pa.field("x", pa.list_(JSON_STRUCT)), [[{"j": "1", "i": 1}, None], None, []]),
    (("2.2",), pa.field("x", pa.list_(JSON_STRUCT, 2)), [[{"j": "1", "i": 1}, None], None, [None, None]]),
    (("2.2",), pa.field("x", JSON_STRUCT, metadata=PACKED), [{"j": "1", "i": 1}, None]),
]


@pytest.mark.peer
@pytest.mark.parametrize(
    ("version", "field", "values"),
    [(version, field, values) for versions, field, values in HIDING for version in versions],
)
@pytest.mark.parametrize("write", [lo.write_dataset, lance.write_dataset], ids=["ours", "theirs"])
def test_json_that_a_null_struct_hides_need_not_be_a_document(tmp_path, version, field, values, write):
    column = assemble(field.type, [pa.array(values, storage_type(field.type))], len(values))
    uri = str(tmp_path / "rows.lance")
    write(pa.table([column], schema=pa.schema([field])), uri, data_storage_version=version)
    check(lo.dataset(uri).to_table(), peer_table(uri))
    lo.append(uri, lo.dataset(uri).to_table())
    assert lo.dataset(uri).to_table()["x"].cast(storage_type(field.type)).to_pylist() == values * 2
    check(lo.dataset(uri).to_table(), peer_table(uri))


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_table_has_one_empty_array_a_column(kind):
    schema = make_table(kind).schema
    table = empty_table(schema)
    table.validate(full=True)
    assert table.schema.equals(schema, check_metadata=True)
    assert (table.num_rows, table.combine_chunks().num_rows) == (0, 0)


@pytest.mark.peer
def test_a_process_that_does_not_know_bfloat16_reads_its_bytes(tmp_path):
    for kind in ("tensor of bfloat16", "fixed-size list of bfloat16", "list of bfloat16"):
        lance.write_dataset(make_table(kind), str(tmp_path / kind))
        script = (
            "import sys, lance_ops as lo; table = lo.dataset(sys.argv[1]).to_table();"
            "table.validate(full=True); lo.append(sys.argv[1], table);"
            "print(table['x'].to_pylist(), lo.dataset(sys.argv[1]).count_rows())"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / kind)], capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{KINDS[kind][1]} 6\n"
        check(lo.dataset(tmp_path / kind).to_table(), peer_table(tmp_path / kind))
