"""What the inference of types would lose of a CSV file."""

import gzip
import warnings

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError, SuspiciousInputWarning
from lance_ops.maintenance.sources.open import open_source

BLOCK = 1 << 20


def written(tmp_path, content, name="in.csv"):
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return tmp_path / name


def taken(tmp_path, content, name="in.csv"):
    lo.write_dataset(written(tmp_path, content, name), tmp_path / "t.lance", mode="overwrite")
    return lo.dataset(tmp_path / "t.lance").to_table()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", str(2**63 - 1)], pa.int64()),
        ([str(2**63 - 1), str(2**63), str(2**63 + 1)], pa.uint64()),
        (["0", " 18446744073709551615 ", ""], pa.uint64()),
        (["1.5", str(2**53), "1e300"], pa.float64()),
        (["1.5", "1" + "0" * 22], pa.float64()),
    ],
)
def test_whole_numbers_keep_their_values(tmp_path, values, kind):
    found = taken(tmp_path, "id,x\n" + "".join(f"{value},1\n" for value in values))["id"]
    assert found.type == kind
    number = float if kind == pa.float64() else int
    assert found.to_pylist() == [number(value) if value else None for value in values]


@pytest.mark.parametrize("name", ["in.csv", "in.tsv", "in.csv.gz"])
@pytest.mark.parametrize(
    "values",
    [
        ["1", str(2**64 + 1)],
        ["-1", str(2**63 + 1)],
        ["1.5", str(2**53 + 1)],
        ["1.5"] * (BLOCK // 4) + [str(2**63 + 1)],
    ],
    ids=["greater", "negative", "fraction", "later block"],
)
def test_whole_numbers_that_only_doubles_would_hold_are_refused(tmp_path, values, name):
    said = f"cannot represent {values[-1]} of row {len(values)}"
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        taken(tmp_path, "id\n" + "".join(f"{value}\n" for value in values), name)
    assert (caught.value.path, caught.value.field) == (str(tmp_path / name), "id")
    assert "column_types" in caught.value.hint
    assert not (tmp_path / "t.lance" / "_versions").exists()


def test_large_numbers_are_as_the_dataset_says(tmp_path):
    lo.write_dataset(pa.schema([("id", pa.decimal128(25))]).empty_table(), tmp_path / "t.lance")
    lo.append(tmp_path / "t.lance", written(tmp_path, f"id\n{2**64}\n"))
    assert lo.dataset(tmp_path / "t.lance").to_table()["id"].to_pylist() == [2**64]


@pytest.mark.parametrize(
    ("content", "line", "offset", "field"),
    [
        (b"id,name\n1,Ann\n2,M\xfcller\n", 3, 17, "name"),
        (b"id,n\xe4me\n1,x\n", 1, 4, None),
        (b"name\n" + b"abcdefg\n" * (BLOCK // 8) + b"x\xc3\n", BLOCK // 8 + 2, 5 + BLOCK + 1, None),
        (b"name\nx\xc3", 2, 6, "name"),
    ],
    ids=["column", "header", "later block", "end"],
)  # fmt: skip
def test_a_byte_that_is_not_utf8_is_refused_with_its_place(tmp_path, content, line, offset, field):
    with pytest.raises(InvalidArgumentError, match=f"line {line}, byte {offset} of the file") as caught:
        taken(tmp_path, content)
    assert (caught.value.path, caught.value.field) == (str(tmp_path / "in.csv"), field)
    assert "iconv" in caught.value.hint


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("content", ["a,b\n1,x\n", "a\n1\n"])
def test_files_of_wider_characters_are_refused_as_not_utf8(tmp_path, encoding, content):
    with pytest.raises(InvalidArgumentError, match="line 1, byte 0 of the file is 0xff"):
        taken(tmp_path, content.encode(encoding))


def test_a_byte_that_is_not_utf8_is_refused_for_a_text_column_and_taken_for_a_binary_one(tmp_path):
    content = b"name\nM\xfcller\n"
    lo.write_dataset(pa.table({"name": ["x"]}), tmp_path / "text.lance")
    with pytest.raises(InvalidArgumentError, match="line 2, byte 6 of the file is 0xfc"):
        lo.append(tmp_path / "text.lance", written(tmp_path, content))
    lo.write_dataset(pa.table({"name": [b"x"]}), tmp_path / "bytes.lance")
    lo.append(tmp_path / "bytes.lance", written(tmp_path, content))
    assert lo.dataset(tmp_path / "bytes.lance").to_table()["name"].to_pylist() == [b"x", b"M\xfcller"]


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        ("id;name\n1;a\n", "in.csv", "semicolons"),
        ("id\tname\n1\ta\n", "in.csv", "tabs"),
        ("id|name\n", "in.csv", "vertical bars"),
        ("id,name\n1,a\n", "in.tsv", "commas"),
        ("id,zip\n1,01234\n2,99999\n", "in.csv", "'01234' loses its leading zeros"),
        ("id,v\n1,007.5\n", "in.csv", "'007.5' loses its leading zeros"),
    ],
)
def test_a_suspicious_shape_is_warned_of(tmp_path, content, name, said):
    if content.endswith("name\n"):
        content += "1|a\n"
    with pytest.warns(SuspiciousInputWarning, match=said):
        taken(tmp_path, content, name)


@pytest.mark.parametrize(
    "content", ["id,name\n1,a;b\n", '"a"\n"x;y"\n', "a,b\n0,0.5\n-0.1,0\n", "d\n2024-05-01\n"]
)
def test_ordinary_files_are_not_warned_of(tmp_path, content):
    with warnings.catch_warnings():
        warnings.simplefilter("error", SuspiciousInputWarning)
        source = open_source(written(tmp_path, content))
        source.read_schemas()
        list(source.batches())


def test_decimal_commas_between_semicolons_get_the_hint(tmp_path):
    with pytest.raises(InvalidArgumentError) as caught:
        taken(tmp_path, "a;b\n1,5;2,5\n")
    assert "semicolons" in caught.value.hint


@pytest.mark.parametrize("content", ["a,b\n", "a,b\n1,\n2,\n"], ids=["header", "column without values"])
def test_a_first_file_without_values_is_refused_and_fits_a_dataset_with_types(tmp_path, content):
    first = written(tmp_path, content, "1.csv")
    for write in (lo.append, lambda uri, data: lo.write_dataset(data, uri, mode="overwrite")):
        with pytest.raises(SchemaMismatchError, match="b: it has no values") as caught:
            write(tmp_path / "t.lance", first)
        assert "empty_table" in caught.value.hint
    lo.write_dataset(pa.schema([("a", pa.int64()), ("b", pa.string())]).empty_table(), tmp_path / "t.lance")
    lo.append(tmp_path / "t.lance", first)
    lo.append(tmp_path / "t.lance", written(tmp_path, "a,b\n7,x\n", "2.csv"))
    assert lo.dataset(tmp_path / "t.lance").to_table().to_pylist()[-1] == {"a": 7, "b": "x"}


def test_a_file_without_values_beside_one_with_values_takes_its_types(tmp_path):
    files = [written(tmp_path, "a,b\n1,\n", "1.csv"), written(tmp_path, "a,b\n2,x\n", "2.csv")]
    lo.append(tmp_path / "t.lance", files)
    assert lo.dataset(tmp_path / "t.lance").to_table().to_pylist() == [
        {"a": 1, "b": None},
        {"a": 2, "b": "x"},
    ]


def test_a_null_column_of_an_earlier_release_names_the_mismatch_and_can_be_altered(tmp_path):
    lo.write_dataset(pa.table({"a": [1], "b": pa.nulls(1)}), tmp_path / "t.lance")
    second = written(tmp_path, "a,b\n2,x\n")
    with pytest.raises(SchemaMismatchError, match="b: "):
        lo.append(tmp_path / "t.lance", second)
    lo.alter_columns(tmp_path / "t.lance", {"path": "b", "data_type": pa.string()})
    lo.append(tmp_path / "t.lance", second)
    assert lo.dataset(tmp_path / "t.lance").to_table()["b"].to_pylist() == [None, "x"]
