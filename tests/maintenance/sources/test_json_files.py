"""JSON in all its shapes against the json module, and what is refused with its line."""

import bz2
import gzip
import json
import random

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.maintenance.sources import text_blocks
from lance_ops.maintenance.sources.open import open_paths
from lance_ops.maintenance.sources.read_options import ReadOptions

TEXTS = ['a"b', "x,y", "[", "{", "}]\\", "ü\n", "", "plain"]
SHAPES = {
    "lines": lambda rows: "\n".join(map(json.dumps, rows)) + "\n",
    "array": json.dumps,
    "indented array": lambda rows: json.dumps(rows, indent=2, ensure_ascii=False),
    "documents": lambda rows: "\n".join(json.dumps(row, indent=1) for row in rows),
}


def written(tmp_path, content, name="in.jsonl"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, **options):
    source = open_paths([path], ReadOptions.of(**options))
    schema = source.read_schemas()[0][1]
    return pa.Table.from_batches(list(source.batches()), schema)


@pytest.mark.parametrize("shape", SHAPES)
def test_objects_of_every_shape_are_those_of_the_json_module_at_any_block(tmp_path, monkeypatch, shape):
    monkeypatch.setattr(text_blocks, "FIRST_BYTES", 64)
    monkeypatch.setitem(text_blocks.read_blocks.__kwdefaults__, "size", 64)
    rng = random.Random(7)
    for count in (1, 2, 9, 30):
        rows = [
            {"i": n, "s": rng.choice(TEXTS), "n": {"l": [rng.choice(TEXTS)] * (n % 3), "o": {"q": n / 4}}}
            for n in range(count)
        ]
        assert read(written(tmp_path, SHAPES[shape](rows), "in.json")).to_pylist() == rows


def test_types_are_those_of_all_lines(tmp_path):
    content = (
        '{"a": 1, "at": "2024-05-01T01:02:03+02:00", "d": "2024-05-01", "big": 1}\n'
        '{"a": 2.5, "b": [{"x": null}], "big": 18446744073709551615}\n'
        '{"b": [{"x": "s", "y": true}], "t": "2024-05-01T01:02:03.123456", "d": "2024-05-02"}\n'
    )
    found = read(written(tmp_path, content))
    assert {item.name: str(item.type) for item in found.schema} == {
        "a": "double",
        "at": "timestamp[us, tz=UTC]",
        "d": "date32[day]",
        "big": "uint64",
        "b": "list<item: struct<x: string, y: bool>>",
        "t": "timestamp[us]",
    }
    assert found["at"][0].as_py().isoformat() == "2024-04-30T23:02:03+00:00"
    assert found["big"].to_pylist() == [1, 2**64 - 1, None]


def test_a_field_of_the_last_line_is_a_column_of_all(tmp_path):
    content = '{"a": 1}\n' * 300_000 + '{"b": "x"}\n'
    found = read(written(tmp_path, content))
    assert (found.num_rows, found["b"].null_count, found["b"][-1].as_py()) == (300_001, 300_000, "x")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"a": 1}\n{"a": 2', "may end early: line 2"),
        ('[{"a": 1},\n{"a": 2},\n', "ends early: line 2"),
        ('[{"a": 1},\n{"a": {"b"', "ends early: line 2"),
        ('{"a": 1}\n\n{"a": 2\n{"a": 3}\n', "line 3 is not JSON"),
        ('{"a": 1}\n{"a": "x"}\n', "column 'a' is string in line 2"),
        ('{"a": {"b": 1}}\n{"a": {"b": "x"}}\n', "column 'a.b' is string in line 2"),
        ('{"a": 1}\n7\n', "line 2 has a number instead of an object"),
        ("\n7\n", "line 2 begins with '7'"),
        ('{"a": 1.5}\n{"a": 9007199254740993}\n', "line 2: .* cannot represent 9007199254740993"),
        ('{"a": {"b": [1.5]}}\n{"a": {"b": [18446744073709551617]}}\n', "line 2: column 'a.b'"),
        (b'{"a": "x"}\n{"a": "M\xfcller"}\n', "line 2, byte 19 of the file is 0xfc"),
        ("[]", "no objects"),
    ],
)  # fmt: skip
def test_files_that_are_no_objects_or_would_lose_values_are_refused_with_the_line(tmp_path, content, said):
    path = written(tmp_path, content)
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        lo.append(tmp_path / "t.lance", path)
    assert caught.value.path == str(path)
    assert not (tmp_path / "t.lance").exists()


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.int32(), "7", 7),
        (pa.float16(), "1.5", 1.5),
        (pa.decimal128(20, 2), "1.25", None),
        (pa.string(), '"2024-05-01"', "2024-05-01"),
        (pa.large_string(), '"x"', "x"),
        (pa.dictionary(pa.int32(), pa.string()), '"x"', "x"),
        (pa.date32(), '"2024-05-01"', None),
        (pa.timestamp("ms", "UTC"), '"2024-05-01T00:00:00Z"', None),
        (pa.time64("us"), '"01:02:03"', None),
        (pa.list_(pa.float32(), 2), "[1, 2.5]", [1.0, 2.5]),
        (pa.struct([("x", pa.int8()), ("y", pa.string())]), '{"x": 3}', {"x": 3, "y": None}),
    ],
    ids=str,
)
def test_values_are_read_as_the_types_of_the_dataset(tmp_path, kind, text, value):
    uri = tmp_path / "t.lance"
    lo.write_dataset(pa.schema([("v", kind), ("other", pa.int64())]).empty_table(), uri)
    lo.append(uri, written(tmp_path, f'{{"v": {text}}}\n{{"v": null, "other": 1}}\n'))
    found = lo.dataset(uri).to_table()
    assert found["v"].type == kind
    assert found["v"][1].as_py() is None
    assert found["v"][0].as_py() is not None if value is None else found["v"][0].as_py() == value


def test_what_json_does_not_express_is_a_mismatch_and_a_value_that_does_not_fit_names_its_line(tmp_path):
    uri = tmp_path / "t.lance"
    lo.write_dataset(pa.schema([("id", pa.int8())]).empty_table(), uri)
    with pytest.raises(SchemaMismatchError, match="id: string in the data, int8 in the dataset"):
        lo.append(uri, written(tmp_path, '{"id": "1"}\n'))
    with pytest.raises(SchemaMismatchError, match="new: column not found"):
        lo.append(uri, written(tmp_path, '{"id": 1, "new": 1}\n'))
    with pytest.raises(InvalidArgumentError, match=r"line 2: .*300"):
        lo.append(uri, written(tmp_path, '{"id": 1}\n{"id": 300}\n'))
    assert lo.dataset(uri).version == 1


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lambda data: pa.compress(data, "zstd", asbytes=True)]
)
def test_compressed_files_are_read_and_those_that_end_early_refused(tmp_path, pack):
    ending = {gzip.compress: "gz", bz2.compress: "bz2"}.get(pack, "zst")
    data = pack(b'{"a": 1}\n' * 1000)
    assert read(written(tmp_path, data, f"in.jsonl.{ending}")).num_rows == 1000
    with pytest.raises(InvalidArgumentError, match="ends early"):
        lo.append(tmp_path / "t.lance", written(tmp_path, data[:-4], f"cut.jsonl.{ending}"))
    with pytest.raises(InvalidArgumentError, match="not compressed as its name says"):
        lo.append(tmp_path / "t.lance", written(tmp_path, b"plain text", f"plain.jsonl.{ending}"))


def test_files_with_different_fields_are_one_table_and_contradictions_name_both_files(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    written(folder, '{"a": 1}\n', "1.jsonl")
    written(folder, '{"a": 1.5, "b": "x"}\n', "2.json")
    written(folder, "", "3.jsonl")
    lo.append(tmp_path / "t.lance", folder)
    assert lo.dataset(tmp_path / "t.lance").to_table().to_pylist() == [
        {"a": 1.0, "b": None},
        {"a": 1.5, "b": "x"},
    ]
    written(folder, '{"a": "text"}\n', "4.jsonl")
    with pytest.raises(SchemaMismatchError, match=r"a: double in .*2.json, string in .*4.jsonl"):
        lo.append(tmp_path / "u.lance", folder)
