"""Bytes of manifest files."""

import contextlib
import random
import struct
import uuid
from dataclasses import replace

import lance
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptManifestError, UnsupportedError, VersionNotFoundError
from lance_ops.pb import table_pb2
from lance_ops.storage import open_store
from lance_ops.table.manifest.file.read import decode_manifest, read_manifest
from lance_ops.table.manifest.file.summary import decode_summary, read_summary
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.fragment import ExternalFile, Fragment
from lance_ops.table.manifest.index_metadata import IndexFile
from lance_ops.table.manifest.listing import (
    ManifestLocation,
    NamingScheme,
    latest,
    list_versions,
    manifest_path,
)
from lance_ops.table.manifest.model import BasePath, WriterVersion
from tests.support.table_values import fragment, index, manifest

FULL = manifest(
    fragment(0),
    fragment(3, 20, deleted=4, row_ids=b"ids", created_at_versions=ExternalFile("x/y", 3, 9)),
    indices=(index("a_idx", {0, 3}), index("odd", None, type_url=None)),
    reader_flags=3,
    writer_flags=11,
    max_fragment_id=7,
    transaction_file="3-9a8c.txn",
    transaction=b"the transaction",
    writer_version=WriterVersion("lance_ops", "1.2.3", "rc.1", "build.5"),
    next_row_id=99,
    config={"b": "2", "a": "1"},
    table_metadata={"about": "tests"},
    base_paths=(BasePath(0, "/elsewhere", True, "tag"), BasePath(1, "s3://b/p", False)),
    branch="team/exp",
    tag="old",
    blob_dataset_version=5,
    version=4,
)


def with_message(change, sections=b""):
    """A manifest file whose message was changed by `change`."""
    message = table_pb2.Manifest.FromString(body_of(encode_manifest(manifest(fragment(0), version=1))))
    change(message)
    body = message.SerializeToString()
    footer = struct.pack("<qhh4s", len(sections), 0, 2, b"LANC")
    return sections + struct.pack("<I", len(body)) + body + footer


def body_of(data: bytes) -> bytes:
    (start,) = struct.unpack("<q", data[-16:-8])
    (length,) = struct.unpack("<I", data[start : start + 4])
    return data[start + 4 : start + 4 + length]


def test_everything_survives_the_trip():
    data = encode_manifest(FULL)
    assert decode_manifest(data, path="m") == FULL
    assert encode_manifest(decode_manifest(data, path="m")) == data
    plain = manifest(fragment(0))
    assert decode_manifest(encode_manifest(plain), path="m") == plain
    empty = manifest()
    assert decode_manifest(encode_manifest(empty), path="m") == empty


def test_the_same_manifest_gives_the_same_bytes_whatever_the_order_of_its_maps():
    assert encode_manifest(FULL.replace(config={"a": "1", "b": "2"})) == encode_manifest(FULL)


def test_sections_come_first_and_the_footer_closes():
    data = encode_manifest(FULL)
    position, major, minor, magic = struct.unpack("<qhh4s", data[-16:])
    assert (major, minor, magic) == (0, 2, b"LANC")
    message = table_pb2.Manifest.FromString(body_of(data))
    assert message.index_section == 0
    assert 0 < message.transaction_section < position
    assert message.inline_transaction_section == message.transaction_section
    assert not encode_manifest(manifest()).startswith(b"\x00\x00\x00\x00")


def test_a_summary_shows_the_same_without_looking_into_fragments():
    summary = decode_summary(encode_manifest(FULL), path="m")
    assert (summary.version, summary.timestamp, summary.branch) == (4, FULL.timestamp, "team/exp")
    assert (summary.transaction_file, summary.transaction) == ("3-9a8c.txn", b"the transaction")
    assert (summary.reader_flags, summary.writer_flags) == (3, 11)
    assert summary.fragments == tuple(item.to_bytes() for item in FULL.fragments)
    damaged = with_message(lambda message: message.fragments.add(deletion_file={"file_type": 9}))
    assert len(decode_summary(damaged, path="m").fragments) == 2


def test_what_we_do_not_know_survives():
    raw = bytes([0xFA, 0x3F, 3]) + b"new"  # field 1023, wire type 2

    def change(message):
        message.MergeFromString(raw)
        message.max_allocated_field_id = 12
        message.fragments[0].MergeFromString(raw)
        overlay = message.fragments[0].overlays.add(committed_version=3, shared_offset_bitmap=b"x")
        overlay.data_file.path = "o.lance"
        overlay.MergeFromString(raw)
        message.fragments[0].clustering_id = 4
        message.fragments[0].files[0].MergeFromString(raw)
        message.base_paths.add(id=3, path="/x").MergeFromString(raw)

    first = decode_manifest(with_message(change), path="m")
    assert first.fragments[0].has_overlays
    fresh = first.replace(fragments=tuple(item.replace(physical_rows=11) for item in first.fragments))
    message = table_pb2.Manifest.FromString(body_of(encode_manifest(fresh)))
    assert message.max_allocated_field_id == 12
    assert message.fragments[0].physical_rows == 11
    overlay = message.fragments[0].overlays[0]
    assert (overlay.committed_version, overlay.data_file.path) == (3, "o.lance")
    assert raw in overlay.SerializeToString()
    assert message.fragments[0].clustering_id == 4
    for part in (message, message.fragments[0], message.fragments[0].files[0], message.base_paths[0]):
        assert raw in part.SerializeToString()


def test_index_entries_keep_what_they_cannot_model():
    entry = table_pb2.IndexMetadata(uuid={"uuid": uuid.uuid4().bytes}, name="x", covering_fields=[3])
    section = table_pb2.IndexSection(indices=[entry]).SerializeToString()
    sections = struct.pack("<I", len(section)) + section
    found = decode_manifest(with_message(lambda m: setattr(m, "index_section", 0), sections), path="m")
    again = found.replace(indices=(*found.indices, index("y", {1})))
    assert again.indices[0].to_proto() == entry
    files = found.indices[0].files
    assert files == ()
    assert IndexFile("a", 1) not in files


def test_aux_data_describe_one_version_alone():
    found = decode_manifest(with_message(lambda m: setattr(m, "version_aux_data", 40)), path="m")
    assert table_pb2.Manifest.FromString(body_of(encode_manifest(found))).version_aux_data == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda m: m.fragments.add(id=0), "fragments"),
        (lambda m: m.fragments.add(id=2**32), "fragments"),
        (lambda m: (m.fragments.add(id=5), setattr(m, "max_fragment_id", 4)), "max_fragment_id"),
        (lambda m: m.ClearField("timestamp"), "timestamp"),
        (lambda m: setattr(m.timestamp, "seconds", 2**62), "timestamp"),
        (lambda m: setattr(m.fragments[0].deletion_file, "file_type", 7), "deletion_file"),
        (lambda m: setattr(m.fragments[0].deletion_file, "num_deleted_rows", 11), "fragments"),
        (lambda m: setattr(m, "index_section", 2**40), "index_section"),
        (lambda m: setattr(m, "transaction_section", 2**63), "transaction_section"),
        (lambda m: (m.base_paths.add(id=1, path="/a"), m.base_paths.add(id=1, path="/b")), "base_paths"),
        (lambda m: m.fields.add(id=0, name="again"), "fields"),
        (lambda m: m.fields.add(id=9, parent_id=8, name="orphan"), "fields"),
    ],
)
def test_contradictions_are_refused_by_name(change, field):
    with pytest.raises(CorruptManifestError, match=field) as caught:
        decode_manifest(with_message(change), path="some/path")
    assert caught.value.path == "some/path"


def test_fragments_that_are_kept_elsewhere_are_refused():
    with pytest.raises(UnsupportedError, match="tree"):
        decode_manifest(with_message(lambda m: m.fragment_tree.SetInParent()), path="m")


def test_an_absent_highest_fragment_id_is_made_up_for():
    def change(message):
        message.ClearField("max_fragment_id")
        message.fragments.add(id=6)

    assert decode_manifest(with_message(change), path="m").max_fragment_id == 6


def test_every_truncation_is_refused():
    data = encode_manifest(FULL)
    for length in range(len(data)):
        with pytest.raises(CorruptManifestError):
            decode_manifest(data[:length], path="m")
        with pytest.raises(CorruptManifestError):
            decode_summary(data[:length], path="m")


def test_mutated_bytes_give_a_typed_error_or_a_manifest():
    data = encode_manifest(FULL)
    rng = random.Random(7)
    for _ in range(4000):
        mutated = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            mutated[rng.randrange(len(mutated))] = rng.randrange(256)
        with contextlib.suppress(CorruptManifestError, UnsupportedError):
            encode_manifest(decode_manifest(bytes(mutated), path="m"))


def test_a_bitmap_of_billions_of_fragments_is_refused_before_it_fills_the_memory():
    # 65,536 containers, each one run of 65,536 values, in half a megabyte.
    keys = range(1 << 16)
    cookie = struct.pack("<I", 12347 | (len(keys) - 1) << 16) + b"\xff" * ((len(keys) + 7) // 8)
    header = b"".join(struct.pack("<HH", key, 0xFFFF) for key in keys)
    offset = len(cookie) + len(header) + 4 * len(keys)
    offsets = b"".join(struct.pack("<I", offset + 6 * key) for key in keys)
    runs = struct.pack("<HHH", 1, 0, 0xFFFF) * len(keys)
    entry = table_pb2.IndexMetadata(
        uuid={"uuid": b"0" * 16}, fragment_bitmap=cookie + header + offsets + runs
    )
    section = table_pb2.IndexSection(indices=[entry]).SerializeToString()
    sections = struct.pack("<I", len(section)) + section
    with pytest.raises(CorruptManifestError, match="4294967296 ids"):
        decode_manifest(with_message(lambda m: setattr(m, "index_section", 0), sections), path="m")


def test_the_name_and_the_content_must_agree(tmp_path):
    store = open_store(tmp_path)
    path = manifest_path(5, NamingScheme.V2)
    store.put(path, encode_manifest(manifest(version=4)))
    for read in (read_manifest, read_summary):
        with pytest.raises(CorruptManifestError, match=r"version 5 .* version 4"):
            read(store, ManifestLocation(5, path))
        with pytest.raises(VersionNotFoundError):
            read(store, ManifestLocation(6, manifest_path(6, NamingScheme.V2)))


def test_fragments_that_did_not_change_are_not_encoded_again(monkeypatch):
    found = decode_manifest(encode_manifest(FULL), path="m")
    changed = replace(found.fragments[0], physical_rows=99, _wire=None)
    encoded = []
    encode = Fragment._encode
    monkeypatch.setattr(Fragment, "_encode", lambda self: encoded.append(self) or encode(self))
    data = encode_manifest(found.replace(fragments=(changed, *found.fragments[1:])))
    assert encoded == [changed]
    assert decode_manifest(data, path="m").fragments == (changed, *found.fragments[1:])


@pytest.mark.peer
def test_manifests_of_the_peer_survive_and_it_reads_ours(tmp_path):
    uri = str(tmp_path / "t.lance")
    table = pa.table({"i": range(10), "s": [{"a": None}] * 10}, metadata={"k": "v"})
    dataset = lance.write_dataset(table, uri, data_storage_version="2.0", enable_stable_row_ids=True)
    dataset.delete("i = 3")
    dataset.create_scalar_index("i", "BTREE")
    dataset.update_config({"a": "b"})
    branch = dataset.create_branch("side", dataset.version)
    for root in (uri, branch.uri):
        store = open_store(root)
        for location in list_versions(store):
            found = read_manifest(store, location)
            assert decode_manifest(encode_manifest(found), path="m") == found
            store.put(location.path, encode_manifest(found))
    found = read_manifest(open_store(uri), latest(open_store(uri)))
    # Without the file, the transaction can only come from our section.
    open_store(uri).delete(f"_transactions/{found.transaction_file}")
    again = lance.dataset(uri)
    assert again.count_rows() == 9
    assert again.read_transaction(again.version).uuid in found.transaction_file
    assert again.config() == {"a": "b"}
    assert len(again.describe_indices()) == 1
    assert lance.dataset(branch.uri).count_rows() == 9
    again.validate()
