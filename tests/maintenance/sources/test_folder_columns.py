"""Columns in the names of folders, against what pyarrow, Polars and DuckDB read."""

import datetime as dt
import os
from urllib.parse import unquote

import lance
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.maintenance.sources.folder_columns import folder_values, infer_types
from lance_ops.maintenance.sources.open import open_source

NOT_UTF8 = b"k=\xff"
WRITERS = {"parquet": pq.write_table, "csv": pacsv.write_csv, "feather": feather.write_feather}


def lake(root, files, kind="parquet"):
    """Write a table for each relative folder."""
    for folder, columns in files.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        WRITERS[kind](pa.table(columns), str(root / folder / f"part.{kind}"))
    return root


def rows(uri):
    """Rows as both libraries read them."""
    found = lo.dataset(uri).to_table().to_pylist()
    assert found == lance.dataset(str(uri)).to_table().to_pylist()
    return found


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("source", ["", "day=*/*.*", "day=2024-05-0*", "**/*.*", "day=2024-05-01/part.*"])
def test_the_column_of_a_folder_is_a_column_of_the_dataset(tmp_path, kind, source):
    root = lake(tmp_path / "lake", {"day=2024-05-01": {"a": [1, 2]}, "day=2024-05-02": {"a": [3]}}, kind)
    lo.append(tmp_path / "t.lance", f"{root}/{source}".rstrip("/"))
    days = [dt.date(2024, 5, 1)] * 2 + [dt.date(2024, 5, 2)]
    expected = [{"a": a, "day": day} for a, day in zip([1, 2, 3], days, strict=True)]
    assert rows(tmp_path / "t.lance") == (expected[:2] if "01" in source else expected)
    lo.append(tmp_path / "t.lance", root / "day=2024-05-02" / f"part.{kind}")
    assert lo.dataset(tmp_path / "t.lance").count_rows("day = DATE '2024-05-02'") == (
        1 if "01" in source else 2
    )


def test_a_relative_path_that_begins_with_the_folder_of_a_column_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(lake(tmp_path, {"day=2024-05-01": {"a": [1]}, "fixed/day=2024-05-01": {"a": [5]}}))
    lo.append("t.lance", "day=2024-05-01/*.parquet")
    lo.replace_where("t.lance", "fixed", "day = '2024-05-01'")
    assert rows("t.lance") == [{"a": 5, "day": dt.date(2024, 5, 1)}]
    assert lo.replace_where("t.lance", "fixed", "day = '2024-05-01'", dry_run=True)


@pytest.mark.parametrize(
    ("names", "kind", "values"),
    [
        (["1", "02"], pa.int64(), [1, 2]),
        (["-7", "9223372036854775807"], pa.int64(), [-7, 2**63 - 1]),
        (["1", "9223372036854775808"], pa.string(), ["1", "9223372036854775808"]),
        (["2024-02-29", "__HIVE_DEFAULT_PARTITION__"], pa.date32(), [dt.date(2024, 2, 29), None]),
        (["2024-02-29", "2023-02-29"], pa.string(), ["2024-02-29", "2023-02-29"]),
        (["2024-05-01 10%3A00%3A00"], pa.timestamp("us"), [dt.datetime.fromisoformat("2024-05-01 10:00:00")]),
        (["GB", "__HIVE_DEFAULT_PARTITION__"], pa.string(), ["GB", None]),
        (["a%2Fb", "%C3%BC %25"], pa.string(), ["a/b", "ü %"]),
        (["1.5", "true"], pa.string(), ["1.5", "true"]),
        ([""], pa.string(), [""]),
        (["x=y"], pa.string(), ["x=y"]),
    ],
)  # fmt: skip
def test_the_type_of_a_folder_column_is_that_of_all_its_values(tmp_path, names, kind, values):
    lake(tmp_path / "lake", {f"{at}/k={name}": {"a": [at]} for at, name in enumerate(names)})
    lo.append(tmp_path / "t.lance", tmp_path / "lake")
    assert lo.dataset(tmp_path / "t.lance").schema.field("k").type == kind
    assert [row["k"] for row in rows(tmp_path / "t.lance")] == values


_LETTERS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=15)


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=6)
    | st.lists(st.none() | _LETTERS, min_size=1, max_size=6)
)
def test_folders_that_pyarrow_writes_say_the_same_values(tmp_path_factory, values):
    root = tmp_path_factory.mktemp("lake")
    table = pa.table({"k": values, "at": range(len(values))})
    if pa.types.is_null(table["k"].type) or "." in values or ".." in values:
        return
    pads.write_dataset(
        table, root, format="parquet", partitioning=["k"], partitioning_flavor="hive", max_partitions=500
    )
    source = open_source(root)
    found = pa.Table.from_batches(source.batches()).sort_by("at")["k"]
    assert [None if value is None else str(value) for value in found.to_pylist()] == [
        None if value is None else str(int(value)) if found.type == pa.int64() else str(value)
        for value in values
    ]


def test_values_are_read_as_the_type_of_the_dataset(tmp_path):
    root = lake(tmp_path / "lake", {"k=007/w=1.50/d=2024-05-01": {"a": [1]}})
    types = {"k": pa.string(), "w": pa.decimal128(5, 2), "d": pa.dictionary(pa.int32(), pa.string())}
    schema = pa.schema([("a", pa.int64()), *types.items()])
    lo.write_dataset(schema.empty_table(), tmp_path / "t.lance")
    lo.append(tmp_path / "t.lance", root)
    assert [{key: str(value) for key, value in row.items()} for row in rows(tmp_path / "t.lance")] == [
        {"a": "1", "k": "007", "w": "1.50", "d": "2024-05-01"}
    ]


@pytest.mark.parametrize("kind", [pa.int8(), pa.date32(), pa.list_(pa.string()), pa.bool_()])
def test_a_folder_that_does_not_fit_the_column_of_the_dataset_is_refused(tmp_path, kind):
    root = lake(tmp_path / "lake", {"k=300": {"a": [1]}})
    lo.write_dataset(pa.schema([("a", pa.int64()), ("k", kind)]).empty_table(), tmp_path / "t.lance")
    with pytest.raises(InvalidArgumentError, match="k=300 does not fit the column 'k'") as caught:
        lo.append(tmp_path / "t.lance", root)
    assert caught.value.path.endswith("part.parquet")
    assert caught.value.field == "k"


@pytest.mark.parametrize("kind", WRITERS)
def test_a_column_in_folder_and_file_agrees_or_is_refused(tmp_path, kind):
    good = lake(tmp_path / "good", {"k=1": {"k": [1, 1], "a": [1, 2]}}, kind)
    lo.append(tmp_path / "t.lance", good)
    assert rows(tmp_path / "t.lance") == [{"k": 1, "a": 1}, {"k": 1, "a": 2}]
    for name, values in [("other", [1, 2]), ("null", [None, 1])]:
        bad = lake(tmp_path / name, {"k=1": {"k": pa.array(values, pa.int64()), "a": [1, 2]}}, kind)
        with pytest.raises(InvalidArgumentError, match=r"in the file, but '1' in the name of its folder"):
            lo.write_dataset(bad, tmp_path / f"{name}.lance")


def test_null_folders_and_dictionaries_are_compared_by_value(tmp_path):
    coded = pa.array(["x", "x"]).dictionary_encode()
    lake(
        tmp_path / "lake",
        {"k=x": {"k": coded}, "k=__HIVE_DEFAULT_PARTITION__": {"k": coded.slice(2)}},
    )
    source = open_source(tmp_path / "lake")
    assert [row["k"] for batch in source.batches() for row in batch.to_pylist()] == ["x", "x"]
    lake(tmp_path / "null", {"k=__HIVE_DEFAULT_PARTITION__": {"k": ["x"]}})
    with pytest.raises(InvalidArgumentError, match="None in the name"):
        list(open_source(tmp_path / "null").batches())


@pytest.mark.parametrize(("mode", "text"), [("append", "DATE"), ("merge", "DATE"), ("fragments", "DATE")])
def test_a_dataset_without_the_column_of_a_folder_is_told_what_to_do(tmp_path, mode, text):
    uri, root = tmp_path / "t.lance", lake(tmp_path / "lake", {"day=2024-05-01": {"a": [1]}})
    lo.write_dataset(pa.table({"a": [0]}), uri)
    write = {
        "append": lambda: lo.append(uri, root),
        "merge": lambda: lo.merge_insert(uri, root, on="a", when_not_matched="insert_all"),
        "fragments": lambda: lo.write_fragments(root, uri, mode="append"),
    }[mode]
    with pytest.raises(SchemaMismatchError, match="no column 'day'") as caught:
        write()
    advice = f'{{"day": "CAST(NULL AS {text})"}}'
    assert advice in caught.value.hint
    lo.add_columns(uri, {"day": f"CAST(NULL AS {text})"})
    write()
    assert lo.dataset(uri).count_rows() == (1 if mode == "fragments" else 2)


@pytest.mark.parametrize("folder", ["k=2", "my%20k=2", "a%3Db=2"])
def test_a_missing_column_is_named_whatever_else_the_paths_contain(tmp_path, folder):
    uri, root = tmp_path / "t.lance", lake(tmp_path / "rank=1", {folder: {"a": [1]}})
    name = unquote(folder.partition("=")[0])
    lo.write_dataset(pa.table({"a": [0], "rank": [1]}), uri)
    with pytest.raises(SchemaMismatchError, match=f"no column '{name}'"):
        lo.append(uri, root)


def test_folders_that_contradict_each_other_and_files_without_the_folder_are_refused(tmp_path):
    lake(tmp_path / "twice", {"k=1/k=2": {"a": [1]}})
    with pytest.raises(InvalidArgumentError, match=r"different values of column .*: '1' and '2'"):
        lo.append(tmp_path / "t.lance", tmp_path / "twice")
    lake(tmp_path / "mixed", {"k=1": {"a": [1]}, ".": {"a": [2]}})
    with pytest.raises(SchemaMismatchError, match="k"):
        lo.append(tmp_path / "t.lance", tmp_path / "mixed")
    lo.append(tmp_path / "t.lance", tmp_path / "mixed", fill_missing=True)
    assert sorted(map(str, (row["k"] for row in rows(tmp_path / "t.lance")))) == ["1", "None"]
    lake(tmp_path / "nulls", {"k=__HIVE_DEFAULT_PARTITION__": {"a": [1]}})
    with pytest.raises(SchemaMismatchError, match="the type of a column of the new dataset is unknown"):
        lo.append(tmp_path / "n.lance", tmp_path / "nulls")


def test_unfinished_and_metadata_folders_of_a_lake_are_left_out(tmp_path):
    files = ["_day=2024-05-01", "_temporary/0/_day=2024-05-01", "_delta_log", ".spark/x"]
    lake(tmp_path / "lake", {folder: {"a": [at]} for at, folder in enumerate(files)})
    lo.append(tmp_path / "t.lance", tmp_path / "lake")
    assert rows(tmp_path / "t.lance") == [{"a": 0, "_day": dt.date(2024, 5, 1)}]


@pytest.mark.parametrize("source", ["", "/*/*.parquet", f"/{os.fsdecode(NOT_UTF8)}/part.parquet"])
def test_a_folder_that_is_not_utf8_is_refused(tmp_path, source):
    lake(tmp_path, {"lake/k=1": {"a": [1]}})
    os.rename(tmp_path / "lake" / "k=1", os.fsencode(tmp_path / "lake") + b"/" + NOT_UTF8)
    with pytest.raises(InvalidArgumentError, match="not UTF-8") as caught:
        lo.append(tmp_path / "t.lance", f"{tmp_path}/lake{source}")
    str(caught.value).encode()


def test_only_folders_count_and_addresses_keep_their_query_apart():
    assert folder_values("s3://bucket/a=1/b=2/c=3.parquet?endpoint=x/y=1/z") == {"a": "1", "b": "2"}
    assert folder_values("/plain/x.parquet") == {}
    assert folder_values("k=1/../k=2/./x.parquet") == {"k": "2"}
    assert infer_types(["/k=1/x", "/k=b/x"]) == {"k": pa.string()}
    with pytest.raises(InvalidArgumentError, match="UTF-8"):
        folder_values("k=%ff/x.parquet")
