import inspect
import pickle
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, LanceOpsError, UnknownArgumentError


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_the_package_loads_nothing_else():
    loaded = run("import sys, lance_ops; print('\\n'.join(m for m in sys.modules))").split()
    assert not {"pyarrow", "numpy", "google.protobuf", "pydantic", "pyspark", "dagster"} & set(loaded)


def test_no_public_name_brings_in_spark_or_dagster():
    code = "import sys, lance_ops as lo; [getattr(lo, n) for n in lo.__all__]; print('\\n'.join(sys.modules))"
    loaded = set(run(code).split())
    assert "pyarrow" in loaded
    assert not {"pydantic", "pyspark", "dagster", "lance"} & loaded


@pytest.mark.parametrize("name", lo.__all__)
def test_every_public_name_is_there_and_documented(name):
    value = getattr(lo, name)
    assert name in dir(lo)
    assert value.__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = lo.no_such_thing


WRONG = [object(), b"x", 1.5, timedelta(days=-1), ["x"], "?"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    uri = str(tmp_path_factory.mktemp("doors") / "t.lance")
    lo.append(uri, pa.table({"id": [1, 2], "k": ["a", "b"]}))
    lo.create_tag(uri, "one", 1)
    return uri


DOORS = {
    "uri": lambda u, value: lo.fsck(value),
    "storage_options": lambda u, value: lo.dataset(u, storage_options=value),
    "version": lambda u, value: lo.dataset(u, value),
    "append uri": lambda u, value: lo.append(value if value != "?" else "", rows(1)),
    "data": lo.append,
    "max_rows_per_file": lambda u, value: lo.append(u, rows(1), max_rows_per_file=value),
    "max_bytes_per_file": lambda u, value: lo.append(u, rows(1), max_bytes_per_file=value),
    "data_storage_version": lambda u, value: lo.append(u, rows(1), data_storage_version=value),
    "mode": lambda u, value: lo.write_dataset(rows(1), u, mode=value),
    "progress": lambda u, value: lo.append(u, rows(1), progress=value),
    "job_key": lambda u, value: lo.append(u, rows(1), job_key=value if value != "?" else ""),
    "job_key of delete": lambda u, value: lo.delete(u, "id < 0", job_key=value if value != "?" else ""),
    "job_key of compact": lambda u, value: lo.compact(u, job_key=value if value != "?" else ""),
    "job_key of restore": lambda u, value: lo.restore(u, 1, job_key=value if value != "?" else ""),
    "predicate": lambda u, value: lo.delete(u, value, dry_run=True),
    "predicate of replace": lambda u, value: lo.replace_where(u, rows(1), value, dry_run=True),
    "max_fraction": lambda u, value: lo.delete(u, "id < 0", max_fraction=7 if value == 1.5 else value),
    "target_rows": lambda u, value: lo.compact(u, target_rows_per_fragment=value, dry_run=True),
    "compaction options": lambda u, value: lo.compact(u, options=value, dry_run=True),
    "column": lambda u, value: lo.create_index(u, value, dry_run=True),
    "kind": lambda u, value: lo.create_index(u, "id", value, dry_run=True),
    "index": lo.drop_index,
    "names": lambda u, value: lo.optimize_indices(u, value, dry_run=True),
    "older_than": lambda u, value: lo.cleanup(u, older_than=value, dry_run=True),
    "retain_versions": lambda u, value: lo.cleanup(u, retain_versions=value, dry_run=True),
    "clones": lambda u, value: lo.cleanup(u, clones=value, dry_run=True),
    "tag": lo.create_tag,
    "version of a tag": lambda u, value: lo.move_tag(u, "one", value),
    "restored": lo.restore,
    "config": lo.update_config,
    "threads": lambda u, value: lo.LocalRunner(value),
    "columns": lambda u, value: lo.dataset(u).to_table(columns=value),
    "filter": lambda u, value: lo.dataset(u).to_table(filter=value),
    "limit": lambda u, value: lo.dataset(u).to_table(limit=value),
    "offset": lambda u, value: lo.dataset(u).to_table(offset=value),
    "batch_size": lambda u, value: lo.dataset(u).to_batches(batch_size=value),
    "head": lambda u, value: lo.dataset(u).head(value),
    "asof": lambda u, value: lo.dataset(u, asof=value),
}


def rows(count):
    return pa.table({"id": pa.array(range(count), pa.int64()), "k": ["z"] * count})


@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("door", DOORS)
def test_arguments_of_the_wrong_type_end_in_an_error_of_ours(table, door, value):
    before = lo.dataset(table).version
    with pytest.raises(LanceOpsError):
        DOORS[door](table, value)
    assert lo.dataset(table).version == before


def test_both_doors_to_a_dataset_use_its_indices(tmp_path):
    uri = str(tmp_path / "t.lance")
    made = lo.append(uri, rows(100))
    lo.create_index(uri, "id")
    opened = [
        lo.dataset(uri),
        lo.Dataset.open(uri),
        lo.Dataset.open(lo.Dataset.open(uri, made.version).store),
        lo.dataset(uri, made.version).latest(),
        pickle.loads(pickle.dumps(lo.dataset(uri))),
        lo.update_config(uri, {"a": "b"}).dataset,
    ]
    for dataset in opened:
        assert dataset.to_table(filter="id = 7")["id"].to_pylist() == [7]
        assert [part.candidates for part in dataset.scanner(filter="id = 7").plan.fragments] != [None]
        assert [part.candidates for part in dataset.scanner(filter="id = 7", pruners=()).plan.fragments] == [
            None
        ]


def test_an_option_that_does_not_exist_is_named(table):
    dataset = lo.dataset(table)
    for read in (dataset.scanner, dataset.to_table, dataset.to_batches, dataset.to_pandas):
        with pytest.raises(TypeError, match="batchsize"):
            read(batchsize=3)


def test_numbers_of_numpy_are_numbers(table):
    found = lo.dataset(table, 1).to_table(limit=np.int64(1), offset=np.uint8(1))
    assert found["id"].to_pylist() == [2]
    lo.cleanup(table, retain_versions=np.int32(3), dry_run=True)
    lo.delete(table, "id < 0", max_fraction=np.float32(0.5))


FUNCTIONS = [name for name in lo.__all__ if inspect.isfunction(getattr(lo, name))]
# As in pylance: `dataset(uri)` opens, and the two that write take the data first.
WITHOUT_STORAGE = (
    "batch_udf",
    "cache_stats",
    "fragment_from_json",
    "fragment_to_json",
    "read_query",
    "set_cache_budget",
)
OTHER_FIRST = {
    "batch_udf": "output_schema",
    "cache_stats": None,
    "dataset": "uri",
    "fragment_from_json": "values",
    "fragment_to_json": "fragment",
    "read_files": "paths",
    "read_query": "sql",
    "set_cache_budget": "size_bytes",
    "sql": "statement",
    "write_dataset": "data",
    "write_fragments": "data",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_takes_the_dataset_first_and_spells_out_its_options(name):
    parameters = inspect.signature(getattr(lo, name)).parameters
    assert next(iter(parameters), None) == OTHER_FIRST.get(name, "uri_or_dataset")
    assert [item.name for item in parameters.values() if item.kind == item.VAR_KEYWORD] == []
    assert all(item.annotation is not item.empty for item in parameters.values())


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {*WITHOUT_STORAGE}))
def test_an_unknown_argument_is_an_error_that_names_the_closest_one(name):
    with pytest.raises(UnknownArgumentError, match=f"{name} has no argument 'storage_option'") as caught:
        getattr(lo, name)("x", storage_option={})
    assert "did you mean 'storage_options'?" in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_options_of_a_scan_are_spelled_out():
    for name in ("scanner", "to_table", "to_batches", "to_pandas", "head", "explain"):
        parameters = inspect.signature(getattr(lo.Dataset, name)).parameters
        assert parameters["nearest"].default is None, name


READ = {
    "measure_health": lambda given, **options: lo.measure_health(given, **options).rows,
    "describe_indices": lambda given, **options: lo.describe_indices(given, **options)[0].name,
    "index_statistics": lambda given, **options: lo.index_statistics(given, "id_idx", **options)["name"],
    "measure_wear": lambda given, **options: lo.measure_wear(given, **options)[0].name,
    "fsck": lambda given, **options: lo.fsck(given, **options).version,
    "list_jobs": lo.list_jobs,
    "forecast_health": lambda given, **options: len(
        lo.forecast_health(given, lo.MaintenancePolicy(), lo.measure_health(given), **options)
    ),
}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    uri = str(tmp_path_factory.mktemp("indexed") / "t.lance")
    lo.append(uri, rows(10))
    lo.create_index(uri, "id")
    return uri


@pytest.mark.parametrize("name", READ)
def test_a_dataset_is_given_by_uri_path_or_dataset(indexed, name):
    found = [READ[name](given, storage_options={}) for given in (indexed, Path(indexed), lo.dataset(indexed))]
    assert found[0] == found[1] == found[2]


def test_names_of_earlier_callers_and_of_pylance_are_the_same_arguments(tmp_path):
    uri = str(tmp_path / "t.lance")
    assert lo.write_dataset(data_obj=rows(3), uri=uri).rows_added == 3
    assert lo.append(uri=uri, data=rows(2), transaction_properties={"a": "b"}).rows_added == 2
    assert lo.dataset(uri).read_transaction().properties["a"] == "b"
    assert lo.delete(target=uri, predicate="id = 2").rows_deleted == 1
    assert lo.update(uri, updates={"k": "'y'"}, where="id = 1", conflict_retries=2).rows_updated == 2
    assert lo.create_index(uri, column="id", index_type="BTREE").changed
    assert [item.name for item in lo.describe_indices(dataset=lo.dataset(uri))] == ["id_idx"]
    assert lo.create_tag(uri, tag="one", reference=1).version == 1
    clone = lo.shallow_clone(uri, target_path=str(tmp_path / "c.lance"), reference="one")
    assert clone.take(indices=[0, 2], columns=["id"])["id"].to_pylist() == [0, 2]


def test_an_argument_under_two_names_is_refused(table):
    with pytest.raises(InvalidArgumentError, match="got 'max_replans' twice, once as 'conflict_retries'"):
        lo.delete(table, "id < 0", max_replans=1, conflict_retries=2)
