"""Everything that the peer writes has a name in our schemas: nothing is left over as an unknown field."""

import datetime as dt
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from lance_ops.pb import file_pb2, index_pb2, mem_wal_pb2, rowids_pb2, table_pb2, transaction_pb2
from tests.support.wire import (
    column_metadata,
    global_buffers,
    length_prefixed,
    manifest_position,
    manifests,
    unknown_fields,
    unpack,
)

pytestmark = pytest.mark.peer

ROWS = 600
RNG = np.random.default_rng(20)


def rows(version: str, first: int = 0) -> pa.Table:
    """Rows of every kind of column that the version can hold, nulls included."""
    ids = range(first, first + ROWS)
    columns: dict[str, pa.Array] = {
        "id": pa.array(ids, pa.int64()),
        "label": pa.array([None if i % 9 == 0 else f"label {i % 5}" for i in ids]),
        "text": pa.array([f"row number {i} of the table" for i in ids], pa.large_string()),
        "flag": pa.array([None if i % 4 == 0 else i % 3 == 0 for i in ids]),
        "ratio": pa.array(RNG.random(ROWS)),
        "when": pa.array(list(ids), pa.timestamp("us", "UTC")),
        "constant": pa.array([7] * ROWS, pa.int32()),
        "nothing": pa.array([None] * ROWS, pa.int16()),
        "tags": pa.array([[] if i % 7 == 0 else [i, None][: i % 3] for i in ids], pa.list_(pa.int32())),
        "point": pa.StructArray.from_arrays(
            [pa.array(RNG.random(ROWS)), pa.array([f"p{i}" for i in ids])], names=["x", "name"]
        ),
        "kind": pa.array([f"k{i % 3}" for i in ids]).dictionary_encode(),
        "blob": pa.array([RNG.bytes(700) for _ in ids]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(ROWS * 8), pa.float32()), 8),
        "money": pa.array(list(ids), pa.decimal128(20, 2)),
    }
    if version != "2.0":
        columns["pair"] = pa.array([None if i % 5 == 0 else {"a": i, "b": [i]} for i in ids])
    if version == "2.2":
        columns["map"] = pa.array([[("k", i)] for i in ids], pa.map_(pa.string(), pa.int32()))
    return pa.table(columns)


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a history of every operation that the peer offers from Python."""
    version = request.param
    root = tmp_path_factory.mktemp("peer") / f"table-{version}"
    stable = version != "2.1"
    ds = lance.write_dataset(
        rows(version),
        root,
        max_rows_per_file=ROWS // 2,
        data_storage_version=version,
        enable_stable_row_ids=stable,
        commit_message="first",
    )
    ds.insert(rows(version, ROWS))
    ds.delete("id % 11 = 3")
    ds.update({"ratio": "ratio + 1"}, where="id % 13 = 1")
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(version, 900))
    for kind, column in [
        ("BTREE", "id"),
        ("BITMAP", "label"),
        ("LABEL_LIST", "tags"),
        ("NGRAM", "text"),
        ("ZONEMAP", "ratio"),
        ("BLOOMFILTER", "id"),
        ("INVERTED", "text"),
    ]:
        ds.create_scalar_index(column, kind, name=f"{column}_{kind.lower()}")
    for kind in ["IVF_PQ", "IVF_HNSW_SQ"]:
        ds.create_index("vector", kind, name=kind.lower(), num_partitions=2, num_sub_vectors=4)
    ds.add_columns({"double": "id * 2"})
    ds.alter_columns({"path": "double", "name": "twice"})
    ds.drop_columns(["nothing"])
    ds.update_config({"lance.auto_cleanup.interval": "1000", "owner.note": "x"})
    ds.update_metadata({"table": "note"})
    ds.update_schema_metadata({"schema": "note"})
    ds.update_field_metadata({"id": {"field": "note"}})
    ds.tags.create("kept", ds.version)
    ds.create_branch("side")
    ds.optimize.compact_files(defer_index_remap=not stable)
    ds.optimize.optimize_indices()
    ds.restore()
    ds.delete("id < 40")
    ds.drop_index("label_bitmap")
    ds.shallow_clone(root.with_name(f"clone-{version}"), "kept")
    return root


def history(root: Path) -> list[Path]:
    """The folders with manifests: the table, its branches and its clone."""
    return [root, *root.glob("tree/*"), root.with_name(root.name.replace("table", "clone"))]


def test_manifests_hold_nothing_unknown(dataset: Path) -> None:
    left = {
        f"{path.name}: {where}"
        for folder in history(dataset)
        for path, manifest in manifests(folder).items()
        for where in unknown_fields(manifest)
    }
    assert not left
    assert len(manifests(dataset)) > 15


def test_manifests_come_out_as_they_went_in(dataset: Path) -> None:
    for path in manifests(dataset):
        data = path.read_bytes()
        written = length_prefixed(data, manifest_position(data))
        message = table_pb2.Manifest.FromString(written)
        again = message.SerializeToString()
        # Only the order of map entries is free.
        assert len(again) == len(written)
        assert table_pb2.Manifest.FromString(again) == message


def test_row_sequences_hold_nothing_unknown(dataset: Path) -> None:
    kinds = set()
    for manifest in manifests(dataset).values():
        for fragment in manifest.fragments:
            ids = rowids_pb2.RowIdSequence.FromString(fragment.inline_row_ids)
            kinds |= {segment.WhichOneof("segment") for segment in ids.segments}
            assert not list(unknown_fields(ids))
            for data in (fragment.inline_created_at_versions, fragment.inline_last_updated_at_versions):
                assert not list(unknown_fields(rowids_pb2.RowDatasetVersionSequence.FromString(data)))
            if manifest.reader_feature_flags & 2:
                assert sum(count_ids(segment) for segment in ids.segments) == fragment.physical_rows
    assert bool(kinds) == ("2.1" not in dataset.name)


def count_ids(segment: rowids_pb2.U64Segment) -> int:
    """How many ids a segment stands for."""
    kind = segment.WhichOneof("segment")
    if kind == "range":
        return segment.range.end - segment.range.start
    if kind == "range_with_holes":
        holes = segment.range_with_holes
        return holes.end - holes.start - count_values(holes.holes)
    if kind == "range_with_bitmap":
        return sum(byte.bit_count() for byte in segment.range_with_bitmap.bitmap)
    assert kind in ("array", "sorted_array")
    return count_values(segment.array if kind == "array" else segment.sorted_array)


def count_values(array: rowids_pb2.EncodedU64Array) -> int:
    """How many values an encoded array holds."""
    return (
        len(array.u16_array.offsets) // 2
        + len(array.u32_array.offsets) // 4
        + len(array.u64_array.values) // 8
    )


def test_transactions_hold_nothing_unknown_and_lie_in_the_manifest_too(dataset: Path) -> None:
    operations = set()
    for folder in history(dataset):
        for path, manifest in manifests(folder).items():
            assert manifest.HasField("inline_transaction_section")
            inline = length_prefixed(path.read_bytes(), manifest.inline_transaction_section)
            transaction = transaction_pb2.Transaction.FromString(inline)
            operations.add(transaction.WhichOneof("operation"))
            assert not list(unknown_fields(transaction))
            assert folder != dataset or transaction.read_version < manifest.version
            if manifest.transaction_file:
                file = folder / "_transactions" / manifest.transaction_file
                assert transaction_pb2.Transaction.FromString(file.read_bytes()) == transaction
    assert operations >= {
        "append",
        "clone",
        "create_index",
        "delete",
        "merge",
        "overwrite",
        "project",
        "reserve_fragments",
        "restore",
        "rewrite",
        "update",
        "update_config",
    }


def test_index_entries_and_their_details_hold_nothing_unknown(dataset: Path) -> None:
    urls = set()
    for path, manifest in manifests(dataset).items():
        if not manifest.HasField("index_section"):
            continue
        section = table_pb2.IndexSection.FromString(
            length_prefixed(path.read_bytes(), manifest.index_section)
        )
        assert not list(unknown_fields(section))
        urls |= {index.index_details.type_url for index in section.indices}
    assert urls >= {
        "/lance.table.BTreeIndexDetails",
        "/lance.table.BitmapIndexDetails",
        "/lance.table.LabelListIndexDetails",
        "/lance.table.NGramIndexDetails",
        "/lance.table.ZoneMapIndexDetails",
        "/lance.table.InvertedIndexDetails",
        "/lance.index.pb.BloomFilterIndexDetails",
        "/lance.index.pb.VectorIndexDetails",
    }
    assert ("/lance.table.FragmentReuseIndexDetails" in urls) == ("2.1" in dataset.name)


def test_data_and_index_files_hold_nothing_unknown(dataset: Path) -> None:
    seen = set()
    files = [
        *(dataset / "data").glob("*.lance"),
        *(dataset / "_indices").glob("*/*.lance"),
        *(dataset / "_indices").glob("*/*.idx"),
    ]
    for path in files:
        data = path.read_bytes()
        buffers = global_buffers(data)
        descriptor = file_pb2.FileDescriptor.FromString(buffers[0])
        assert not list(unknown_fields(descriptor))
        for column in column_metadata(data):
            assert not list(unknown_fields(column))
            for encoding in [column.encoding, *(page.encoding for page in column.pages)]:
                assert encoding.WhichOneof("location") == "direct"
                packed = AnyMessage.FromString(encoding.direct.encoding)
                assert not list(unknown_fields(packed)), path
                seen.add(packed.type_url)
        if "lance:ivf" in descriptor.schema.metadata:
            ivf = index_pb2.IVF.FromString(buffers[int(descriptor.schema.metadata["lance:ivf"])])
            assert not list(unknown_fields(ivf))
            assert len(ivf.lengths) == len(ivf.offsets)
    assert "/lance.encodings.ColumnEncoding" in seen
    assert ("/lance.encodings.ArrayEncoding" in seen) == (dataset.name == "table-2.0")
    assert "/lance.encodings21.PageLayout" in seen or dataset.name == "table-2.0"


def hinted(name: str, array: pa.Array, **hints: str) -> tuple[pa.Field, pa.Array]:
    """A column with hints for the encoder."""
    metadata = {key.replace("_", "-").replace("encoding-", "encoding:"): hints[key] for key in hints}
    return pa.field(name, array.type, nullable=False, metadata=metadata), array


def message_kinds(message: Message) -> Iterator[str]:
    """The names of all messages inside a message."""
    yield message.DESCRIPTOR.name
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in [value] if isinstance(value, Message) else value:
                yield from message_kinds(item)


PAGE_KINDS = {
    "2.0": """
        Binary Blob Compression Dictionary FixedSizeList Flat Fsst List Nullable PackedStruct SimpleStruct
    """,
    "2.1": """
        BlobLayout ByteStreamSplit ConstantLayout FixedSizeList Flat Fsst FullZipLayout General
        InlineBitpacking MiniBlockLayout OutOfLineBitpacking PackedStruct Rle Variable
    """,
    "2.2": """
        ByteStreamSplit ConstantLayout FixedSizeList Flat Fsst FullZipLayout General InlineBitpacking
        MiniBlockLayout OutOfLineBitpacking PackedStruct Rle Variable VariablePackedStruct
    """,
}


@pytest.mark.parametrize("version", PAGE_KINDS)
def test_page_descriptions_of_every_kind_hold_nothing_unknown(version: str, tmp_path: Path) -> None:
    n = 5_000
    ids = np.arange(n)
    pairs = [pa.array(ids), pa.array(ids.astype("f4"))]
    mixed = [pa.array(ids), pa.array([f"name {i}" for i in ids])]
    columns = [
        hinted("plain", pa.array(RNG.integers(0, 2**62, n))),
        hinted("small", pa.array(ids % 100)),
        hinted("runs", pa.array(ids // 500)),
        hinted("few", pa.array([f"value {i % 4}" for i in ids])),
        hinted("many", pa.array([f"the quick brown fox number {i} jumps" for i in ids])),
        hinted(
            "symbols",
            pa.array([f"the lazy dog number {i} sleeps" for i in ids]),
            lance_encoding_compression="fsst",
        ),
        hinted("squeezed", pa.array([f"{i}" * 20 for i in ids]), lance_encoding_compression="zstd"),
        hinted(
            "split",
            pa.array(RNG.random(n).astype("f4")),
            lance_encoding_bss="on",
            lance_encoding_compression="lz4",
        ),
        hinted("packed", pa.StructArray.from_arrays(pairs, names=["a", "b"]), packed="true"),
        hinted("lists", pa.array([[i] * (i % 3) for i in ids])),
        hinted("struct", pa.StructArray.from_arrays(mixed, names=["c", "d"])),
        hinted("vectors", pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(n * 4)), 4)),
        hinted("large", pa.array([RNG.bytes(600) for _ in ids])),
    ]
    if version == "2.2":
        columns.append(hinted("loose", pa.StructArray.from_arrays(mixed, names=["e", "f"]), packed="true"))
    else:
        columns.append(
            hinted("blob", pa.array([b"x" * 50] * n, pa.large_binary()), lance_encoding_blob="true")
        )
    schema = pa.schema(
        [*(field for field, _ in columns), pa.field("gaps", pa.int32()), pa.field("void", pa.int8())]
    )
    gaps = pa.array([None if i % 3 == 0 else i for i in ids], pa.int32())
    data = [*(array for _, array in columns), gaps, pa.nulls(n, pa.int8())]
    lance.write_dataset(pa.table(data, schema=schema), tmp_path / "t", data_storage_version=version)
    (path,) = (tmp_path / "t" / "data").glob("*.lance")
    seen: set[str] = set()
    for column in column_metadata(path.read_bytes()):
        for encoding in [column.encoding, *(page.encoding for page in column.pages)]:
            packed = AnyMessage.FromString(encoding.direct.encoding)
            assert not list(unknown_fields(packed))
            seen.update(message_kinds(unpack(packed)))
    assert set(PAGE_KINDS[version].split()) - seen == set()


def test_files_of_version_0_1_hold_nothing_unknown(tmp_path: Path) -> None:
    table = pa.table(
        {"id": range(100), "name": pa.array([f"n{i % 3}" for i in range(100)]).dictionary_encode()}
    )
    lance.write_dataset(table, tmp_path / "old", data_storage_version="legacy")
    (path,) = (tmp_path / "old" / "data").glob("*.lance")
    data = path.read_bytes()
    metadata = file_pb2.Metadata.FromString(length_prefixed(data, manifest_position(data)))
    assert not list(unknown_fields(metadata))
    assert metadata.batch_offsets == [0, 100]
    assert metadata.statistics.page_table_position
    (manifest,) = manifests(tmp_path / "old").values()
    assert manifest.fields[1].dictionary.length == 3
    assert manifest.data_format.version in ("0.1", "legacy")
    embedded = table_pb2.Manifest.FromString(length_prefixed(data, metadata.manifest_position))
    assert not list(unknown_fields(embedded))
    assert [field.name for field in embedded.fields] == ["id", "name"]


def test_a_log_structured_table_holds_nothing_unknown(tmp_path: Path) -> None:
    field = pa.field(
        "id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}
    )
    schema = pa.schema([field, pa.field("v", pa.int64())])
    ds = lance.write_dataset(pa.table({"id": range(10), "v": range(10)}, schema=schema), tmp_path / "wal")
    ds.initialize_mem_wal(bucket_column="id", num_buckets=4)
    path, manifest = max(manifests(tmp_path / "wal").items(), key=lambda item: item[1].version)
    assert manifest.fields[0].unenforced_primary_key
    section = table_pb2.IndexSection.FromString(length_prefixed(path.read_bytes(), manifest.index_section))
    (index,) = section.indices
    assert not list(unknown_fields(section))
    details = mem_wal_pb2.MemWalIndexDetails.FromString(index.index_details.value)
    assert details.maintain_all_indexes
    assert details.region_specs[0].fields[0].parameters["num_buckets"] == "4"


def test_times_and_writers_read_as_the_peer_says(dataset: Path) -> None:
    said = {version["version"]: version["timestamp"] for version in lance.dataset(dataset).versions()}
    for manifest in manifests(dataset).values():
        when = manifest.timestamp.ToDatetime(tzinfo=dt.UTC)
        assert abs(when - said[manifest.version].astimezone(dt.UTC)) < dt.timedelta(seconds=1)
        assert manifest.writer_version.library == "lance"
        assert manifest.writer_version.version == lance.__version__.split("+")[0]
        assert manifest.data_format.version == dataset.name.removeprefix("table-")


def test_the_footer_of_a_manifest_follows_its_message(dataset: Path) -> None:
    for path, manifest in manifests(dataset).items():
        data = path.read_bytes()
        position = manifest_position(data)
        (length,) = struct.unpack_from("<I", data, position)
        assert position + 4 + length + 16 == len(data)
        assert struct.unpack("<HH", data[-8:-4]) == (0, 2)
        assert int(path.stem) == 2**64 - 1 - manifest.version
    hint = json.loads((dataset / "_versions" / "latest_version_hint.json").read_text())
    assert hint["version"] == max(manifest.version for manifest in manifests(dataset).values())
