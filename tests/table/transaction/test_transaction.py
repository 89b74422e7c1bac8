import contextlib
import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import CorruptManifestError, FileMissingError, PathEscapeError
from lance_ops.file.schema.model import Schema
from lance_ops.pb import transaction_pb2
from lance_ops.storage import open_store
from lance_ops.table.commit.conflict_matrix import Outcome, judge
from lance_ops.table.manifest.index_metadata import IndexFile
from lance_ops.table.manifest.model import BasePath
from lance_ops.table.transaction.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    ForeignOperation,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Update,
    UpdateConfig,
)
from lance_ops.table.transaction.operations.foreign import DRAFT_KINDS
from lance_ops.table.transaction.transaction import (
    JOB_KEY,
    Transaction,
    decode_transaction,
    encode_transaction,
    job_uuid_prefix,
    new_transaction,
    read_transaction,
)
from tests.support.table_values import SCHEMA, data_file, fragment, index, manifest
from tests.support.wire import varint

WITH_METADATA = Schema(SCHEMA.fields, {"key": b"value"})

OPERATIONS: list[Operation] = [
    Append((fragment(0), fragment(0, 5, name="g"))),
    Delete((fragment(3, deleted=2),), (4, 5), "a > 3"),
    Overwrite((fragment(0),), WITH_METADATA, {"lance.x": "1"}, (BasePath(1, "/data", True, "name"),)),
    Overwrite((), SCHEMA),
    CreateIndex((index("a_idx", {1, 2}),), (index("a_idx", None),)),
    Rewrite(
        (RewriteGroup((fragment(1), fragment(2)), (fragment(7),)),),
        (
            RewrittenIndex(
                uuid.uuid4(),
                uuid.uuid4(),
                "/lance.table.BTreeIndexDetails",
                b"",
                1,
                (IndexFile("page.lance", 7),),
            ),
            RewrittenIndex(uuid.uuid4(), uuid.uuid4()),
        ),
    ),
    Merge((fragment(0),), WITH_METADATA, preserves_nullability=True),
    Restore(4),
    ReserveFragments(3),
    Update((1,), (fragment(2, deleted=1),), (fragment(0),), (0,)),
    Project(SCHEMA, preserves_nullability=True),
    UpdateConfig(
        MapUpdate({"a": "1", "b": None}),
        MapUpdate({"c": "2"}, replace=True),
        MapUpdate({}, replace=True),
        {1: MapUpdate({"d": "3"})},
    ),
    UpdateConfig(),
    DataReplacement(((3, data_file("new")),)),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.kind)
def test_every_operation_survives_the_wire(operation):
    before = Transaction(7, str(uuid.uuid4()), operation, {"who": "me"}, tag="v1")
    after = decode_transaction(encode_transaction(before), path="x.txn")
    assert after == before
    assert encode_transaction(after) == encode_transaction(before)


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("data_overlay", "DataOverlay"),
        ("update_mem_wal_state", "UpdateMemWalState"),
        ("clone", "Clone"),
        ("update_bases", "UpdateBases"),
    ],
)
def test_operations_of_others_are_named_and_kept(field, kind):
    message = transaction_pb2.Transaction(read_version=1, uuid="u")
    getattr(message, field).SetInParent()
    if field == "data_overlay":
        message.data_overlay.groups.add(fragment_id=9)
    data = message.SerializeToString(deterministic=True)
    read = decode_transaction(data, path="x.txn")
    assert read.operation.kind == kind
    assert isinstance(read.operation, ForeignOperation)
    assert read.operation.fragment_ids == ((9,) if field == "data_overlay" else ())
    assert encode_transaction(read) == data


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (116, DRAFT_KINDS[116], "CompositeOperation or AppendFragmentReuseTransitions"),
        (117, "Unknown", "unknown kind"),
    ],
)
def test_an_operation_without_a_message_is_named_kept_and_a_conflict(number, kind, words):
    data = transaction_pb2.Transaction(read_version=1, uuid="u").SerializeToString()
    data += varint(number << 3 | 2) + varint(3) + b"abc"
    read = decode_transaction(data, path="x.txn")
    assert read.operation == ForeignOperation(kind)
    assert words in read.describe()
    assert encode_transaction(read) == data
    assert judge(new_transaction(Append(()), 1), read).outcome is Outcome.RETRYABLE


def test_unknown_fields_inside_an_operation_survive():
    message = transaction_pb2.Transaction(read_version=1, uuid="u")
    message.append.fragments.add(id=0, physical_rows=3)
    message.append.MergeFromString(varint(77 << 3) + varint(5))
    read = decode_transaction(message.SerializeToString(), path="x.txn")
    again = transaction_pb2.Transaction.FromString(encode_transaction(read))
    assert again == message


def test_the_flat_rewrite_of_old_writers_is_one_group():
    message = transaction_pb2.Transaction(read_version=1, uuid="u")
    message.rewrite.old_fragments.add(id=1, physical_rows=5)
    message.rewrite.old_fragments.add(id=2, physical_rows=5)
    message.rewrite.new_fragments.add(id=0, physical_rows=10)
    operation = decode_transaction(message.SerializeToString(), path="x.txn").operation
    assert isinstance(operation, Rewrite)
    (group,) = operation.groups
    assert [old.id for old in group.old_fragments] == [1, 2]
    assert [new.physical_rows for new in group.new_fragments] == [10]


def test_the_old_form_of_a_config_update_is_read():
    message = transaction_pb2.Transaction(read_version=1, uuid="u")
    message.update_config.upsert_values["a"] = "1"
    message.update_config.delete_keys.append("b")
    message.update_config.schema_metadata["s"] = "2"
    message.update_config.field_metadata[3].metadata["f"] = "3"
    operation = decode_transaction(message.SerializeToString(), path="x.txn").operation
    assert operation == UpdateConfig(
        MapUpdate({"a": "1", "b": None}),
        None,
        MapUpdate({"s": "2"}, replace=True),
        {3: MapUpdate({"f": "3"}, replace=True)},
    )


def test_what_happened_to_a_blob_dataset_is_kept():
    message = transaction_pb2.Transaction(read_version=1, uuid="u")
    message.append.SetInParent()
    message.blob_append.fragments.add(id=1, physical_rows=3)
    read = decode_transaction(message.SerializeToString(), path="x.txn")
    assert read.blob_operation
    assert transaction_pb2.Transaction.FromString(encode_transaction(read)) == message


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05ab", bytes(100)])
def test_damaged_bytes_name_the_file(data):
    with pytest.raises(CorruptManifestError, match=r"_transactions/1-x\.txn"):
        decode_transaction(data, path="_transactions/1-x.txn")


@given(st.sampled_from(OPERATIONS), st.data())
def test_a_cut_or_flipped_transaction_gives_a_typed_error_or_a_transaction(operation, data):
    whole = bytearray(encode_transaction(new_transaction(operation, 3)))
    position = data.draw(st.integers(0, len(whole) - 1))
    whole[position] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(whole)))
    with contextlib.suppress(CorruptManifestError):
        decode_transaction(bytes(whole[:cut]), path="x.txn")


def test_the_manifest_comes_first_then_the_file():
    store = open_store("memory://read_transaction")
    inline = new_transaction(Restore(1), 1)
    in_file = new_transaction(Restore(2), 1)
    store.put(in_file.path, encode_transaction(in_file))
    both = manifest(transaction=encode_transaction(inline), transaction_file=in_file.file_name)
    assert read_transaction(store, both) == inline
    assert read_transaction(store, both.replace(transaction=None)) == in_file
    assert read_transaction(store, manifest()) is None
    with pytest.raises(FileMissingError):
        read_transaction(store, manifest(transaction_file="1-gone.txn"))
    with pytest.raises(PathEscapeError):
        read_transaction(store, manifest(transaction_file="../secret"))


def test_a_job_leaves_its_mark_in_the_uuid():
    first = new_transaction(Restore(1), 1, properties={JOB_KEY: "load 2013-01"})
    second = new_transaction(Restore(1), 1, properties={JOB_KEY: "load 2013-01"})
    other = new_transaction(Restore(1), 1, properties={JOB_KEY: "load 2013-02"})
    assert first.job_key == "load 2013-01"
    assert first.uuid != second.uuid
    prefix = job_uuid_prefix("load 2013-01")
    assert first.uuid.startswith(prefix)
    assert second.uuid.startswith(prefix)
    assert not other.uuid.startswith(prefix)
    assert str(uuid.UUID(first.uuid)) == first.uuid
    assert uuid.UUID(first.uuid).version == 8


def test_descriptions_fit_on_a_line():
    many = Rewrite(tuple(RewriteGroup((fragment(i),), (fragment(100 + i),)) for i in range(50)))
    text = new_transaction(many, 7).describe()
    assert text.startswith("Rewrite of fragments 0, 1, 2, 3, 4, 5, 6, 7 and 42 more into 100, ")
    assert text.endswith(", read version 7)")
    predicate = "a = 1\n OR " * 100
    text = new_transaction(Delete((fragment(1, deleted=1),), (), predicate), 7).describe()
    assert text.startswith("Delete in fragment 1 where a = 1 OR a = 1 OR")
    assert len(text) < 300
    assert "\n" not in text
    assert "drops a_idx" in new_transaction(CreateIndex((), (index("a_idx", None),)), 1).describe()


def test_schemas_of_nested_columns_survive():
    nested = Schema.from_arrow(pa.schema([pa.field("s", pa.struct([("x", pa.list_(pa.int32()))]))]))
    read = decode_transaction(encode_transaction(new_transaction(Project(nested), 1)), path="x").operation
    assert isinstance(read, Project)
    assert read.schema.to_arrow() == nested.to_arrow()
