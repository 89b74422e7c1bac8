"""What a plain scan imports: start-up of a session is the sum of what its processes import."""

import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.spark.datasource import LanceDataSource
from lance_ops.spark.types import arrow_schema, spark_schema

NOT_NEEDED_TO_WRITE = (
    "pandas",
    "lance_ops.filter.parse.resolve",
    "lance_ops.maintenance.engine",
    "lance_ops.maintenance.ingest.operation",
    "lance_ops.maintenance.ingest.replacement",
    "lance_ops.maintenance.compact",
    "lance_ops.table.commit.loop",
    "lance_ops.spark.writing.dataframe",
)
NOT_NEEDED = (
    "sqlglot",
    "lance_ops.filter.parse.resolve",
    "lance_ops.file.writer",
    "lance_ops.file.v0_1",
    "lance_ops.file.v2_0.read",
    "lance_ops.file.v2_0.write",
    "lance_ops.file.v2_1.write",
    "lance_ops.table.data_writer",
    "lance_ops.table.commit",
    "lance_ops.maintenance.ingest",
    "lance_ops.spark.writing.dataframe",
    "lance_ops.spark.streaming.sink",
    "lance_ops.spark.streaming.source",
    "lance_ops.spark.sql",
)


def imported_by(code: str, folder: Path) -> set[str]:
    """Modules that a process of its own has imported after some code."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint('\\n'.join(['modules:', *sys.modules]))"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said, _, modules = done.stdout.partition("modules:\n")
    assert "rows 2000\n" in said
    return set(modules.split())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    lo.append(
        str(tmp_path / "t.lance"),
        pa.table({"id": range(2000), "word": [f"w{n % 3}" for n in range(2000)], "v": [[0.5] * 4] * 2000}),
    )
    return str(tmp_path / "t.lance")


def test_planning_and_reading_need_neither_parser_nor_writers_nor_old_formats(uri, tmp_path):
    planning = f"""
from lance_ops.spark.datasource import LanceDataSource
source = LanceDataSource({{"path": {uri!r}}})
reader = source.reader(source.schema())
rows = sum(share.value.plan.fragments[0].fragment.num_rows for share in reader.partitions())
print("rows", rows)
"""
    source = LanceDataSource({"path": uri})
    reader = source.reader(source.schema())
    (tmp_path / "task").write_bytes(pickle.dumps((reader, reader.partitions())))
    working = """
import pickle
reader, partitions = pickle.load(open("task", "rb"))
print("rows", sum(batch.num_rows for share in partitions for batch in reader.read(share)))
"""
    for code in (planning, working):
        assert imported_by(code, tmp_path) & set(NOT_NEEDED) == set()


def test_executors_that_write_need_neither_plans_nor_commits(uri, tmp_path):
    rows = lo.dataset(uri).to_table().cast(arrow_schema(LanceDataSource({"path": uri}).schema()))
    writer = LanceDataSource({"path": uri}).writer(spark_schema(rows.schema), overwrite=False)
    (tmp_path / "task").write_bytes(pickle.dumps(writer))
    with pa.ipc.new_file(str(tmp_path / "rows"), rows.schema) as file:
        file.write_table(rows)
    working = """
import pickle
import pyarrow as pa
import lance_ops.spark.writing.save as save
save.partition_id = lambda: 0
writer = pickle.load(open("task", "rb"))
file = pa.ipc.open_file("rows")
done = writer.write(file.get_batch(number) for number in range(file.num_record_batches))
print("rows", pickle.loads(done.outcome).value.num_rows)
"""
    assert imported_by(working, tmp_path) & set(NOT_NEEDED_TO_WRITE) == set()


@pytest.mark.parametrize("name", sorted({*NOT_NEEDED, *NOT_NEEDED_TO_WRITE}))
def test_what_executors_do_not_need_exists(name):
    """So that a module that was renamed is noticed here."""
    assert importlib.util.find_spec(name) is not None
