import pytest
from google.protobuf import any_pb2
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.container.read import (
    Column,
    Encoding,
    Footer,
    Page,
    decode_column,
    decode_footer,
    decode_table,
    decode_version,
    encode_column,
    encode_footer,
    encode_table,
)
from lance_ops.pb import file2_pb2

FOOTER = Footer(100, 200, 240, 1, 2, 0, 3)


def test_footers_are_read_back() -> None:
    data = encode_footer(FOOTER)
    assert (len(data), data[-4:]) == (40, b"LANC")
    assert decode_footer(data, 300, "f") == FOOTER
    assert decode_version(data, "f") == (0, 3)


@pytest.mark.parametrize(
    "footer",
    [
        Footer(100, 250, 240, 1, 2, 0, 3),
        Footer(100, 200, 250, 1, 2, 0, 3),
        Footer(100, 200, 240, 1, 2**32 - 1, 0, 3),
        Footer(100, 200, 240, 2**32 - 1, 2, 0, 3),
        Footer(261, 200, 240, 1, 2, 0, 3),
        Footer(100, 2**64 - 1, 240, 1, 2, 0, 3),
        Footer(100, 200, 240, 0, 2, 0, 3),
    ],
)
def test_footers_that_contradict_the_size_are_corrupt(footer: Footer) -> None:
    with pytest.raises(CorruptFileError, match="f"):
        decode_footer(encode_footer(footer), 300, "f")


def test_tables_are_checked_against_the_size() -> None:
    assert decode_table(encode_table([(0, 10), (90, 10)]), 100, "column", "f") == ((0, 10), (90, 10))
    with pytest.raises(CorruptFileError, match="column 1"):
        decode_table(encode_table([(0, 10), (91, 10)]), 100, "column", "f")


def test_columns_are_read_back() -> None:
    encoding = Encoding("/a.B", b"\x01\x02")
    column = Column(
        encoding,
        (Page(((0, 10), (64, 5)), 7, 0, encoding), Page((), 3, 7, Encoding("/c.D", b""))),
        ((128, 1),),
    )
    data = encode_column(column)
    assert decode_column(data, 1000, 0, "f") == column
    with pytest.raises(CorruptFileError, match="column 4"):
        decode_column(data, 100, 4, "f")
    with pytest.raises(CorruptFileError, match="column 4"):
        decode_column(b"\xff" + data, 1000, 4, "f")


_numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**63))
_encodings = st.builds(Encoding, st.text(max_size=150), st.binary(max_size=300))
_buffers = st.lists(st.tuples(_numbers, _numbers), max_size=3).map(tuple)
_pages = st.builds(Page, _buffers, _numbers, _numbers, _encodings)


@given(st.builds(Column, _encodings, st.lists(_pages, max_size=3).map(tuple), _buffers))
def test_columns_are_the_messages_of_the_format(column: Column) -> None:
    message = file2_pb2.ColumnMetadata()
    message.encoding.direct.encoding = packed(column.encoding)
    for page in column.pages:
        added = message.pages.add(length=page.length, priority=page.priority)
        added.encoding.direct.encoding = packed(page.encoding)
        added.buffer_offsets.extend(position for position, _ in page.buffers)
        added.buffer_sizes.extend(size for _, size in page.buffers)
    message.buffer_offsets.extend(position for position, _ in column.buffers)
    message.buffer_sizes.extend(size for _, size in column.buffers)
    assert encode_column(column) == message.SerializeToString(deterministic=True)


def packed(encoding: Encoding) -> bytes:
    return any_pb2.Any(type_url=encoding.type_url, value=encoding.value).SerializeToString()


def test_pages_with_fewer_sizes_than_offsets_are_corrupt() -> None:
    message = file2_pb2.ColumnMetadata()
    message.pages.add(buffer_offsets=[0, 64], buffer_sizes=[3], length=1)
    with pytest.raises(CorruptFileError, match="column 0, page 0"):
        decode_column(message.SerializeToString(), 100, 0, "f")


def test_encodings_stored_apart_are_unsupported() -> None:
    message = file2_pb2.ColumnMetadata()
    message.encoding.indirect.buffer_location = 3
    with pytest.raises(UnsupportedError, match="stored separately"):
        decode_column(message.SerializeToString(), 100, 0, "f")
