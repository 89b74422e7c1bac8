"""The generated modules: their names, the protobuf they are for, and the numbers that files depend on."""

import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from lance_ops.pb import (
    encodings20_pb2,
    encodings21_pb2,
    encodings23_pb2,
    file2_pb2,
    file_pb2,
    index_pb2,
    mem_wal_pb2,
    table_pb2,
    transaction_pb2,
)

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "lance_ops" / "pb").glob("*_pb2.py"))


def test_every_proto_has_its_module_and_stub() -> None:
    protos = {path.stem for path in (ROOT / "protos").glob("*.proto")}
    assert protos == {path.stem.removesuffix("_pb2") for path in MODULES}
    assert all(path.with_suffix(".pyi").exists() for path in MODULES)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_no_newer_than_the_oldest_protobuf_allowed(path: Path) -> None:
    generated = re.search(r"^# Protobuf Python Version: (\d+)\.(\d+)", path.read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = next(
        re.match(r"protobuf>=(\d+)\.(\d+)", requirement)
        for requirement in project["dependencies"]
        if requirement.startswith("protobuf")
    )
    assert generated
    assert oldest
    assert tuple(map(int, generated.groups())) <= tuple(map(int, oldest.groups()))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_cannot_clash_with_one_of_another_library(path: Path) -> None:
    module = importlib.import_module(f"lance_ops.pb.{path.stem}")
    assert module.DESCRIPTOR.name == f"lance_ops/pb/{path.stem.removesuffix('_pb2')}.proto"


@pytest.mark.parametrize("implementation", ["upb", "python"])
def test_the_modules_work_in_both_implementations_of_the_installed_protobuf(implementation: str) -> None:
    script = ROOT / "tools" / "check_protobuf_runtimes.py"
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation,
    }
    result = subprocess.run(
        [sys.executable, "-W", "error", str(script), "--here"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert f"({implementation})" in result.stdout


@pytest.mark.parametrize(
    ("message", "url"),
    [
        (encodings20_pb2.ArrayEncoding, "/lance.encodings.ArrayEncoding"),
        (encodings20_pb2.ColumnEncoding, "/lance.encodings.ColumnEncoding"),
        (encodings21_pb2.PageLayout, "/lance.encodings21.PageLayout"),
        (table_pb2.BTreeIndexDetails, "/lance.table.BTreeIndexDetails"),
        (table_pb2.BitmapIndexDetails, "/lance.table.BitmapIndexDetails"),
        (table_pb2.LabelListIndexDetails, "/lance.table.LabelListIndexDetails"),
        (table_pb2.NGramIndexDetails, "/lance.table.NGramIndexDetails"),
        (table_pb2.ZoneMapIndexDetails, "/lance.table.ZoneMapIndexDetails"),
        (table_pb2.InvertedIndexDetails, "/lance.table.InvertedIndexDetails"),
        (table_pb2.VectorIndexDetails, "/lance.table.VectorIndexDetails"),
        (table_pb2.FragmentReuseIndexDetails, "/lance.table.FragmentReuseIndexDetails"),
        (mem_wal_pb2.MemWalIndexDetails, "/lance.table.MemWalIndexDetails"),
        (index_pb2.VectorIndexDetails, "/lance.index.pb.VectorIndexDetails"),
        (index_pb2.BloomFilterIndexDetails, "/lance.index.pb.BloomFilterIndexDetails"),
        (index_pb2.JsonIndexDetails, "/lance.index.pb.JsonIndexDetails"),
        (index_pb2.RTreeIndexDetails, "/lance.index.pb.RTreeIndexDetails"),
        (index_pb2.FMIndexDetails, "/lance.index.pb.FMIndexDetails"),
        (index_pb2.MinHashLshIndexDetails, "/lance.index.pb.MinHashLshIndexDetails"),
    ],
)
def test_an_any_carries_the_url_that_files_use(message: type[Message], url: str) -> None:
    packed = AnyMessage()
    packed.Pack(message(), type_url_prefix="")
    assert packed.type_url == url


def test_the_page_descriptions_carry_what_the_later_versions_added() -> None:
    layout = encodings21_pb2.PageLayout.DESCRIPTOR.fields_by_number
    assert {number: field.name for number, field in layout.items()} == {
        1: "mini_block_layout",
        2: "constant_layout",
        3: "full_zip_layout",
        4: "blob_layout",
    }
    planar = encodings23_pb2.PlanarLayout.DESCRIPTOR
    assert planar.full_name == "lance.encodings23.PlanarLayout"
    assert [field.name for field in planar.fields] == ["structure", "values"]
    assert encodings21_pb2.MiniBlockLayout.DESCRIPTOR.fields_by_number[10].name == "has_large_chunk"
    constant = encodings21_pb2.ConstantLayout.DESCRIPTOR.fields_by_number
    assert {number: field.name for number, field in constant.items()} == {
        5: "layers",
        6: "inline_value",
        7: "rep_compression",
        8: "def_compression",
        9: "num_rep_values",
        10: "num_def_values",
    }
    compression = encodings21_pb2.CompressiveEncoding.DESCRIPTOR.fields_by_number
    assert (compression[14].name, compression[15].name) == ("range", "delta")


def test_old_tables_keep_their_blob_numbers() -> None:
    assert table_pb2.Manifest.DESCRIPTOR.fields_by_name["blob_dataset_version"].number == 17
    assert file_pb2.Field.DESCRIPTOR.fields_by_name["storage_class"].number == 11
    transaction = transaction_pb2.Transaction.DESCRIPTOR.fields_by_number
    assert (transaction[200].name, transaction[202].name) == ("blob_append", "blob_overwrite")


def test_a_position_of_zero_is_not_an_absent_one() -> None:
    for name in ("index_section", "transaction_section", "inline_transaction_section"):
        manifest = table_pb2.Manifest()
        assert not manifest.HasField(name)
        setattr(manifest, name, 0)
        assert table_pb2.Manifest.FromString(manifest.SerializeToString()).HasField(name)


def test_an_operation_of_the_future_is_no_operation() -> None:
    future = transaction_pb2.Transaction(read_version=1).SerializeToString() + b"\xa2\x07\x00"
    assert transaction_pb2.Transaction.FromString(future).WhichOneof("operation") is None


def test_a_page_encoding_can_be_absent_direct_or_deferred() -> None:
    encoding = file2_pb2.Encoding.DESCRIPTOR.fields_by_number
    assert [encoding[number].name for number in (1, 2, 3)] == ["indirect", "direct", "none"]
