"""JSON documents: text to bytes and back, byte for byte what the peer stores."""

import contextlib
import json
import tempfile
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.encoding.values.jsonb import decode_jsonb, encode_jsonb, jsonb_to_text, text_to_jsonb
from lance_ops.errors import CorruptFileError, InvalidArgumentError, UnsupportedError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.logical_types import JSON_FILE_TYPE
from lance_ops.storage import open_store

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_NUMBERS = (
    st.integers(-(1 << 65), 1 << 66)
    | st.sampled_from([0, -1, 127, 128, -128, -129, 255, 256, 2**32, 2**63 - 1, -(2**63), 2**64 - 1, 2**64])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([-0.0, 1e-5, -1.5e-5, 1.25e-4, 1e15, 1e16, 1e300, 5e-324])
)
_VALUES = st.recursive(
    st.none() | st.booleans() | _TEXT | _NUMBERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


def _stored_documents(uri: Path) -> list[bytes]:
    """The bytes in the data file, as they are there."""
    (file,) = (uri / "data").glob("*.lance")
    reader = FileReader.open(open_store(str(file.parent)), file.name)
    schema = reader.schema
    plain = schema.fields[0].to_arrow().with_type(JSON_FILE_TYPE).remove_metadata()
    raw = type(schema).from_arrow(pa.schema([plain]))
    return reader.read_table(raw)["j"].to_pylist()


@pytest.mark.peer
@settings(max_examples=15, deadline=None)
@given(st.lists(_VALUES, min_size=20, max_size=60), st.booleans())
def test_bytes_and_text_are_those_of_the_peer(values: list, ascii_only: bool) -> None:
    texts = [json.dumps(value, ensure_ascii=ascii_only) for value in values]
    with tempfile.TemporaryDirectory() as folder:
        uri = Path(folder) / "t"
        lance.write_dataset(
            pa.table({"j": pa.array(texts, pa.json_())}), str(uri), data_storage_version="2.0"
        )
        shown = lance.dataset(str(uri)).to_table()["j"].to_pylist()
        stored = _stored_documents(uri)
    assert [text_to_jsonb(text.encode()) for text in texts] == stored
    assert [jsonb_to_text(document) for document in stored] == shown


@given(_VALUES)
def test_text_survives_the_trip(value: object) -> None:
    document = text_to_jsonb(json.dumps(value).encode())
    text = jsonb_to_text(document)

    assert text_to_jsonb(text.encode()) == document
    assert json.loads(text) == json.loads(text, parse_int=lambda digits: int(digits))


@pytest.mark.parametrize("text", ["NaN", "1e999", "-1e999", "[1e999]"])
def test_numbers_that_json_has_not_survive_the_trip(text: str) -> None:
    assert jsonb_to_text(text_to_jsonb(text.encode())) == text


@pytest.mark.parametrize("text", ["", "{", "[1,]", "{'a':1}", "1 2", '"\\ud800"', "nul", '{"a":1,"a":2}'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not JSON"):
        encode_jsonb(pa.array([text]))


def test_deep_documents_are_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        text_to_jsonb(b"[" * 100_000 + b"]" * 100_000)
    document = b"\x80\x00\x00\x00"
    for _ in range(300):
        document = b"\x80\x00\x00\x01" + (0x5000_0000 | len(document)).to_bytes(4, "big") + document
    with pytest.raises(CorruptFileError, match="deeper"):
        jsonb_to_text(document)


def test_nulls_stay_null() -> None:
    array = pa.array(['{"b": 1, "a": [true]}', None, "null"])
    assert decode_jsonb(encode_jsonb(array)).to_pylist() == ['{"a":[true],"b":1}', None, "null"]


@given(st.binary(max_size=40))
def test_any_bytes_are_text_or_an_error(data: bytes) -> None:
    with contextlib.suppress(CorruptFileError, UnsupportedError):
        jsonb_to_text(data)


@given(_VALUES, st.data())
def test_changed_bytes_are_text_or_an_error(value: object, data: st.DataObject) -> None:
    document = bytearray(text_to_jsonb(json.dumps(value).encode()))
    position = data.draw(st.integers(0, len(document) - 1))
    document[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptFileError, UnsupportedError):
        jsonb_to_text(bytes(document))


@pytest.mark.peer
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_json_columns_are_exchanged_with_the_peer(version: str, tmp_path: Path) -> None:
    documents = pa.array(['{"a":1,"b":[true,null,1.5]}', None, '"x"', "{}", "[]"], pa.json_())
    lists = pa.ListArray.from_arrays(pa.array([0, 2, None, 2, 2, 5], pa.int32()), documents)
    structs = pa.StructArray.from_arrays([documents], names=["q"])
    rows = pa.table({"flat": documents, "lists": lists, "structs": structs})
    uri = tmp_path / "t"
    lo.write_dataset(rows, uri, data_storage_version=version)
    lance.write_dataset(rows, str(uri), mode="append")
    lo.compact(uri)

    ours, theirs = lo.dataset(uri).to_table(), lance.dataset(str(uri)).to_table()

    assert ours.schema == theirs.schema
    assert ours.to_pylist() == theirs.to_pylist() == rows.to_pylist() * 2
    assert lo.dataset(uri).count_rows("flat is null") == 2


@pytest.mark.peer
def test_json_columns_of_0_1_are_read(tmp_path: Path) -> None:
    rows = pa.table({"j": pa.array(['{"a":1}', None, "[]"], pa.json_())})
    lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version="legacy")
    assert lo.dataset(tmp_path / "t").to_table()["j"].to_pylist() == ['{"a":1}', None, "[]"]
