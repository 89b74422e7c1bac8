"""A field that only a newer writer knows comes out of a read-modify-write as it went in, at every depth."""

from collections.abc import Callable

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.pb import file2_pb2, file_pb2, index_pb2, table_pb2, transaction_pb2
from tests.support.wire import varint

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@st.composite
def future_fields(draw: st.DrawFn) -> bytes:
    """Some fields with numbers that no schema of ours uses."""
    fields = b""
    for _ in range(draw(st.integers(1, 4))):
        number = draw(st.integers(1_000, 18_000))
        kind = draw(st.sampled_from([VARINT, FIXED64, BYTES, FIXED32]))
        fields += varint(number << 3 | kind)
        if kind == VARINT:
            fields += varint(draw(st.integers(0, 2**64 - 1)))
        elif kind == BYTES:
            content = draw(st.binary(max_size=300))
            fields += varint(len(content)) + content
        else:
            size = 8 if kind == FIXED64 else 4
            fields += draw(st.binary(min_size=size, max_size=size))
    return fields


def change_manifest(message: Message) -> None:
    assert isinstance(message, table_pb2.Manifest)
    message.version += 1
    message.inline_transaction_section = 0
    message.config["lance.key"] = "new"
    message.ClearField("index_section")
    message.fragments.add(id=9, physical_rows=1)


def change_fragment(message: Message) -> None:
    assert isinstance(message, table_pb2.DataFragment)
    message.deletion_file.num_deleted_rows = 3
    message.ClearField("row_id_sequence")


def change_data_file(message: Message) -> None:
    assert isinstance(message, table_pb2.DataFile)
    message.fields[0] = -2
    message.file_size_bytes = 77


def change_index(message: Message) -> None:
    assert isinstance(message, table_pb2.IndexMetadata)
    message.fragment_bitmap = b"other"
    message.uuid.uuid = bytes(16)


def change_transaction(message: Message) -> None:
    assert isinstance(message, transaction_pb2.Transaction)
    message.read_version = 12
    message.append.fragments[0].id = 4


def change_field(message: Message) -> None:
    assert isinstance(message, file_pb2.Field)
    message.metadata["key"] = b"value"


def change_columns(message: Message) -> None:
    assert isinstance(message, file2_pb2.ColumnMetadata)
    message.pages[0].priority = 500


def change_ivf(message: Message) -> None:
    assert isinstance(message, index_pb2.IVF)
    message.lengths[:] = [1, 2]


FILE = table_pb2.DataFile(path="a.lance", fields=[0, 1], column_indices=[0, 1], file_major_version=2)
FRAGMENT = table_pb2.DataFragment(id=3, files=[FILE], physical_rows=10, inline_row_ids=b"\x0a\x04")
INDEX = table_pb2.IndexMetadata(name="i", fields=[0], fragment_bitmap=b"bitmap", index_version=0)
CASES: list[tuple[Message, Callable[[Message], None]]] = [
    (table_pb2.Manifest(version=7, fragments=[FRAGMENT], index_section=0), change_manifest),
    (FRAGMENT, change_fragment),
    (FILE, change_data_file),
    (INDEX, change_index),
    (
        transaction_pb2.Transaction(
            uuid="u", append=transaction_pb2.Transaction.Append(fragments=[FRAGMENT])
        ),
        change_transaction,
    ),
    (file_pb2.Field(id=1, name="a", logical_type="int64"), change_field),
    (file2_pb2.ColumnMetadata(pages=[file2_pb2.ColumnMetadata.Page(length=5)]), change_columns),
    (index_pb2.IVF(offsets=[0], lengths=[5]), change_ivf),
]


@pytest.mark.parametrize(("known", "change"), CASES, ids=[type(known).__name__ for known, _ in CASES])
@given(future=future_fields())
def test_future_fields_survive_a_change_byte_for_byte(
    known: Message, change: Callable[[Message], None], future: bytes
) -> None:
    message = type(known).FromString(known.SerializeToString() + future)
    change(message)
    expected = type(known).FromString(known.SerializeToString())
    change(expected)
    assert message.SerializeToString() == expected.SerializeToString() + future


@given(in_file=future_fields(), in_fragment=future_fields(), in_manifest=future_fields())
def test_future_fields_survive_at_every_depth_of_a_manifest(
    in_file: bytes, in_fragment: bytes, in_manifest: bytes
) -> None:
    file = table_pb2.DataFile.FromString(FILE.SerializeToString() + in_file)
    fragment = table_pb2.DataFragment(id=3, files=[file], physical_rows=10)
    fragment.MergeFromString(in_fragment)
    manifest = table_pb2.Manifest(version=7, fragments=[fragment])
    manifest.MergeFromString(in_manifest)

    read = table_pb2.Manifest.FromString(manifest.SerializeToString())
    change_manifest(read)
    again = table_pb2.Manifest.FromString(read.SerializeToString())

    assert again.fragments[0].files[0].SerializeToString() == FILE.SerializeToString() + in_file
    assert again.fragments[0].SerializeToString() == fragment.SerializeToString()
    assert again.SerializeToString().endswith(in_manifest)


@given(future=future_fields())
def test_a_copied_fragment_keeps_its_future_fields(future: bytes) -> None:
    fragment = table_pb2.DataFragment.FromString(FRAGMENT.SerializeToString() + future)
    transaction = transaction_pb2.Transaction(uuid="u")
    transaction.rewrite.groups.add(old_fragments=[fragment])
    copied = transaction_pb2.Transaction.FromString(transaction.SerializeToString())
    assert copied.rewrite.groups[0].old_fragments[0].SerializeToString().endswith(future)


@given(value=st.binary(max_size=100))
def test_details_of_an_unknown_index_kind_stay_as_they_are(value: bytes) -> None:
    index = table_pb2.IndexMetadata()
    index.index_details.type_url = "/some.plugin.IndexDetails"
    index.index_details.value = value
    again = table_pb2.IndexMetadata.FromString(index.SerializeToString())
    assert (again.index_details.type_url, again.index_details.value) == ("/some.plugin.IndexDetails", value)
