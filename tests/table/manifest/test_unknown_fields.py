"""What newer writers add to any message of a manifest survives what we commit."""

import struct
from collections import Counter
from pathlib import Path

import lance
import pytest
from google.protobuf.message import Message

import lance_ops as lo
from lance_ops.pb import table_pb2
from tests.support.interop import rows
from tests.support.upgrades import OPERATIONS
from tests.support.wire import length_prefixed, manifest_position, manifests, unknown_fields

pytestmark = pytest.mark.peer

MARK = b"\xf8\x7c\x2a"
"""Field 1999, which no schema has."""


@pytest.fixture
def uri(tmp_path):
    """Two fragments, one with deletions, and two indices; every message of every version is marked."""
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=20, data_storage_version="2.0")
    lance.dataset(uri).create_scalar_index("x", "BTREE")
    lance.dataset(uri).create_scalar_index("s", "BITMAP")
    lance.dataset(uri).delete("x = 3")
    for path in manifests(Path(uri)):
        mark(path)
    return uri


def mark(path):
    data = path.read_bytes()
    message = table_pb2.Manifest.FromString(length_prefixed(data, manifest_position(data)))
    sections = b""
    if message.HasField("index_section"):
        indices = table_pb2.IndexSection.FromString(length_prefixed(data, message.index_section))
        mark_all(indices)
        body = indices.SerializeToString()
        sections, message.index_section = struct.pack("<I", len(body)) + body, 0
    message.ClearField("transaction_section")
    message.ClearField("inline_transaction_section")
    mark_all(message)
    body = message.SerializeToString()
    end = struct.pack("<qHH4s", len(sections), 0, 2, b"LANC")
    path.write_bytes(sections + struct.pack("<I", len(body)) + body + end)


def mark_all(message: Message) -> None:
    """Add the mark to a message and all that are in it."""
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for item in value if descriptor.is_repeated else [value]:
            mark_all(item)
    message.MergeFromString(MARK)


def marks(uri):
    """How often each kind of message is marked in the newest version."""
    found = manifests(Path(uri))
    path = max(found, key=lambda path: found[path].version)
    message, data = found[path], path.read_bytes()
    marked = Counter(unknown_fields(message))
    if message.HasField("index_section"):
        section = table_pb2.IndexSection.FromString(length_prefixed(data, message.index_section))
        marked.update(unknown_fields(section))
    return marked


INDEX = {f"IndexSection.indices{part}.1999" for part in ("", ".uuid", ".files", ".index_details")}
FRAGMENT = {f"Manifest.fragments{part}.1999" for part in ("", ".files", ".deletion_file")}

NEW = {
    "delete": {"Manifest.fragments.deletion_file.1999"},
    "overwrite": INDEX | FRAGMENT | {"Manifest.fields.1999"},
    "restore": INDEX | {"IndexSection.1999", "Manifest.fragments.deletion_file.1999"},
    "compact": FRAGMENT | {"IndexSection.indices.files.1999"},
}
"""Messages of which an operation leaves none: those that it writes anew, or that a restored version lacks."""


@pytest.mark.parametrize("operation", sorted({*OPERATIONS} - {"cleanup", "tag", "append 2.1", "migrate"}))
def test_they_survive(uri, operation):
    before = set(marks(uri))
    kinds = {"Manifest.1999", "Manifest.data_format.1999", "Manifest.fields.1999", "IndexSection.1999"}
    assert kinds | INDEX | FRAGMENT <= before
    if operation in ("index", "compact"):
        lo.drop_index(uri, "x_idx" if operation == "index" else "s_idx")
    OPERATIONS[operation].ours(uri)
    # The writer and the time are those of the commit.
    own = {"Manifest.writer_version.1999", "Manifest.timestamp.1999"}
    assert before - set(marks(uri)) - own == NEW.get(operation, set())
    assert lo.fsck(uri, deep=True).ok
