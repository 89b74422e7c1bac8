from itertools import chain

import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.feather as feather
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from lance_ops.errors import InvalidArgumentError, NotFoundError, SchemaMismatchError
from lance_ops.maintenance.sources import input_files
from lance_ops.maintenance.sources.file_source import FileSource
from lance_ops.maintenance.sources.open import open_source
from lance_ops.maintenance.sources.source import unify_schemas

TABLE = pa.table({"x": pa.array(range(10), pa.int64()), "s": [f"row {n}" for n in range(10)]})


def rows(data) -> list[dict]:
    return list(chain.from_iterable(batch.to_pylist() for batch in open_source(data).batches()))


class Exporter:
    """Anything that speaks the Arrow stream interface, as Polars and DuckDB do."""

    def __arrow_c_stream__(self, requested_schema=None):
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TABLE,
        lambda: TABLE.to_batches()[0],
        lambda: TABLE.to_reader(3),
        lambda: TABLE.to_batches(4),
        lambda: iter(TABLE.to_batches(4)),
        lambda: [TABLE.slice(0, 3), TABLE.slice(3)],
        lambda: pads.dataset(TABLE),
        lambda: TABLE.to_pandas(),
        lambda: Exporter(),
    ],
    ids=["table", "batch", "reader", "batches", "generator", "tables", "dataset", "pandas", "stream"],
)
def test_data_of_every_kind_give_the_same_rows(make):
    assert rows(make()) == TABLE.to_pylist()
    assert unify_schemas(open_source(make()).read_schemas()).names == ["x", "s"]


def test_a_reader_is_read_as_it_goes():
    pulled = []

    def batches():
        for batch in TABLE.to_batches(2):
            pulled.append(batch)
            yield batch

    stream = open_source(pa.RecordBatchReader.from_batches(TABLE.schema, batches())).batches()
    next(stream)
    assert len(pulled) == 1


@pytest.mark.parametrize(
    ("name", "write"),
    [("t.parquet", pq.write_table), ("t.csv", pacsv.write_csv), ("t.feather", feather.write_feather)],
)
def test_files_are_read_by_path_list_glob_and_directory(tmp_path, name, write):
    folder = tmp_path / "in"
    folder.mkdir()
    write(TABLE.slice(0, 4), str(folder / f"a.{name}"))
    write(TABLE.slice(4), str(folder / f"b.{name}"))
    (folder / "_SUCCESS").write_text("")
    paths = [str(folder / f"a.{name}"), folder / f"b.{name}"]
    for data in (paths, str(folder / f"*.{name}"), folder, str(folder), iter(paths)):
        assert rows(data) == TABLE.to_pylist()
    assert rows(paths[1]) == TABLE.slice(4).to_pylist()


def test_csv_columns_are_parsed_as_the_types_asked_for(tmp_path):
    (tmp_path / "t.csv").write_text("x,s\n007,1\n008,2\n")
    source = open_source(tmp_path / "t.csv")
    assert isinstance(source, FileSource)
    typed = source.typed_by(pa.schema([("x", pa.string()), ("s", pa.float32()), ("other", pa.int8())]))
    assert typed.read_schemas()[0][1] == pa.schema([("x", pa.string()), ("s", pa.float32())])
    assert [batch.to_pylist() for batch in typed.batches()] == [
        [{"x": "007", "s": 1.0}, {"x": "008", "s": 2.0}]
    ]


def test_a_csv_cell_that_does_not_parse_names_the_file(tmp_path):
    (tmp_path / "t.csv").write_text("x\n1\nnonsense\n")
    source = open_source(tmp_path / "t.csv").typed_by(pa.schema([("x", pa.int64())]))
    with pytest.raises(InvalidArgumentError, match="nonsense") as caught:
        list(source.batches())
    assert caught.value.path.endswith("t.csv")


def test_a_damaged_parquet_file_names_the_file(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InvalidArgumentError, match="cannot read the input") as caught:
        open_source(tmp_path / "t.parquet").read_schemas()
    assert caught.value.path.endswith("t.parquet")


def test_files_are_split_into_runs_of_enough_bytes_in_order(tmp_path):
    for name in "abcde":
        pq.write_table(TABLE, tmp_path / f"{name}.parquet")
    source = open_source(tmp_path)
    size = source.sizes[0]
    parts = source.split(2 * size)
    assert [len(part.paths) for part in parts] == [2, 2, 1]
    assert [path for part in parts for path in part.paths] == list(source.paths)
    assert len(source.split(10**9)) == 1


def test_files_that_contradict_each_other_are_refused(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["one"]}), tmp_path / "b.parquet")
    with pytest.raises(SchemaMismatchError, match="contradict"):
        unify_schemas(open_source(tmp_path).read_schemas())


def test_metadata_of_parquet_do_not_enter_the_dataset(tmp_path):
    rows = pa.table({"x": [1]}).replace_schema_metadata({"org.apache.spark.version": "4", "own": "kept"})
    pq.write_table(rows, tmp_path / "a.parquet")
    schema = unify_schemas(open_source(tmp_path / "a.parquet").read_schemas())
    assert schema.metadata == {b"own": b"kept"}
    assert not schema.field("x").metadata


@pytest.mark.parametrize("data", [7, [], [1, 2], None], ids=repr)
def test_what_is_no_data_is_refused(data):
    with pytest.raises(InvalidArgumentError, match="cannot write"):
        open_source(data)


def test_missing_and_unknown_files_are_named(tmp_path):
    with pytest.raises(NotFoundError, match="absent"):
        open_source(tmp_path / "absent.parquet")
    with pytest.raises(NotFoundError, match="matches"):
        open_source(str(tmp_path / "*.parquet"))
    with pytest.raises(NotFoundError, match="known format"):
        open_source(tmp_path)
    (tmp_path / "t.xlsx").write_text("")
    with pytest.raises(InvalidArgumentError, match="format"):
        open_source(tmp_path / "t.xlsx")
    pq.write_table(TABLE, tmp_path / "a.parquet")
    pacsv.write_csv(TABLE, tmp_path / "a.csv")
    with pytest.raises(InvalidArgumentError, match="several formats: csv, parquet"):
        open_source(tmp_path)


def test_a_spark_dataframe_is_not_pulled_through_this_process():
    frame = type(
        "DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe", "__arrow_c_stream__": None}
    )()
    with pytest.raises(InvalidArgumentError, match="append_dataframe"):
        open_source(frame)


def test_a_stream_of_values_without_columns_is_refused():
    for data in (pl.Series("a", [1]), pa.chunked_array([[1, 2]])):
        with pytest.raises(InvalidArgumentError, match="no named columns"):
            open_source(data)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("in/*.parquet", ["in/a.parquet"]),
        ("in/**/*.parquet", ["in/a.parquet", "in/day=1/b.parquet", "in/day=2/c.parquet"]),
        ("in/day=*/[bx].parquet", ["in/day=1/b.parquet"]),
    ],
)
def test_globs_match_below_a_folder_of_an_object_store(tmp_path, monkeypatch, pattern, expected):
    for name in ("a", "day=1/b", "day=2/c"):
        path = tmp_path / "in" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(TABLE, path)
    store = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    monkeypatch.setattr(
        input_files,
        "filesystem_of",
        lambda path: (store, path.partition("?")[0].removeprefix("s3://bucket/")),
    )
    found = input_files.expand(f"s3://bucket/{pattern}?region=x")
    assert [path for path, _ in found] == [f"s3://bucket/{name}?region=x" for name in expected]
