"""Field numbers, one by one, against those of the peer.

The peer's decoder names the field that it cannot decode. So a value of a wrong wire type, put into an
otherwise good manifest or transaction under some number, makes it tell what that number means, or nothing
when it does not know it. That shows a number we got wrong, and one that a newer peer has given a meaning.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from lance_ops.pb import table_pb2, transaction_pb2
from tests.support.wire import length_prefixed, manifest_position, varint

pytestmark = pytest.mark.peer

LENGTH_DELIMITED, FIXED32 = 2, 5
WIRE_TYPES = {
    FieldDescriptor.TYPE_DOUBLE: "SixtyFourBit",
    FieldDescriptor.TYPE_STRING: "LengthDelimited",
    FieldDescriptor.TYPE_BYTES: "LengthDelimited",
    FieldDescriptor.TYPE_MESSAGE: "LengthDelimited",
}

# What the peer calls otherwise by now. The number is what counts; we keep the older name.
ALIASES = {
    "Manifest.transaction_section": "Manifest.transaction_section_deprecated",
    "Manifest.inline_transaction_section": "Manifest.transaction_section",
    "Field.type": "Field.r#type",
    "UUID.uuid": "Uuid.uuid",
    "Update.merged_generations": "Update.compacted_sstables",
    "UpdateMemWalState.merged_generations": "UpdateMemWalState.compacted_sstables",
    "MergedGeneration.region_id": "CompactedSsTable.shard_id",
    "MergedGeneration.generation": "CompactedSsTable.generation",
}
# What the peer has given up or does not look at; tables of older writers have it.
ONLY_OURS = {
    "Manifest.blob_dataset_version",
    "Field.storage_class",
    "DataFragment.external_row_ids",
    "DataFragment.external_last_updated_at_versions",
    "DataFragment.external_created_at_versions",
    "Transaction.blob_append",
    "Transaction.blob_overwrite",
}
# Messages whose fields we leave undeclared on purpose.
OPAQUE = {"FragmentTreeMetadata"}
# Numbers to try beyond the highest one we know.
BEYOND = 8


def wrong_value(number: int) -> bytes:
    """A value of a wire type that no field of the format has."""
    return varint(number << 3 | FIXED32) + bytes(4)


def inside(number: int, content: bytes) -> bytes:
    """`content` as the message under a number."""
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(content)) + content


def is_map(field: FieldDescriptor) -> bool:
    """Whether the field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def messages_below(root: Descriptor) -> Iterator[tuple[Descriptor, tuple[int, ...]]]:
    """Every message of the format that can occur in `root`, with the numbers that lead to it."""
    queue: list[tuple[Descriptor, tuple[int, ...]]] = [(root, ())]
    seen = {root.full_name}
    while queue:
        message, way = queue.pop(0)
        yield message, way
        for field in message.fields:
            target = field.message_type
            if target is None or is_map(field) or not target.full_name.startswith("lance."):
                continue
            if f"{message.name}.{field.name}" in ONLY_OURS or target.full_name in seen:
                continue
            seen.add(target.full_name)
            queue.append((target, (*way, field.number)))


def peer_name(field: FieldDescriptor) -> str | None:
    """What the peer should call the field; None when it should not know it."""
    ours = f"{field.containing_type.name}.{field.name}"
    if ours in ONLY_OURS:
        return None
    oneof = field.containing_oneof
    # The peer names the group instead of its member. An optional field stands in a group of its own.
    if oneof is not None and oneof.name != f"_{field.name}":
        return f"{field.containing_type.name}.{oneof.name}"
    return ALIASES.get(ours, ours)


def wire_type(field: FieldDescriptor) -> str:
    """What the peer should say it expects; of a map, that is its key."""
    judged = field.message_type.fields_by_name["key"] if is_map(field) else field
    return WIRE_TYPES.get(judged.type, "Varint")


def compare(root: Descriptor, ask: Callable[[bytes], str]) -> list[str]:
    """Every difference between the numbers of `root` and all below it, and those of the peer."""
    differences = []
    for message, way in messages_below(root):
        if message.name in OPAQUE:
            continue
        known = message.fields_by_number
        small = max((number for number in known if number < 200), default=0) + BEYOND
        for number in [*range(1, small + 1), *(number for number in known if number > small)]:
            field = known.get(number)
            data = wrong_value(number)
            if field is not None and is_map(field):
                data = inside(number, wrong_value(1))
            for step in reversed(way):
                data = inside(step, data)
            answer = ask(data)
            told = re.search(
                r"Protobuf message: ([^:]+)(?:: .*)?: invalid wire type: ThirtyTwoBit \(expected (\w+)\)",
                answer,
            )
            said = told.groups() if told else None
            if said is None and "failed to decode Protobuf" in answer:
                # A map of the peer that we do not know.
                said = (answer, "LengthDelimited")
            name = peer_name(field) if field is not None else None
            wanted = (name, wire_type(field)) if name and field is not None else None
            if said != wanted:
                differences.append(f"{message.name} {number}: ours {wanted}, the peer's {said}")
    return differences


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of one version."""
    lance.write_dataset(pa.table({"a": range(3)}), tmp_path / "t")
    return tmp_path / "t"


def test_the_numbers_of_a_manifest_are_those_of_the_peer(table: Path) -> None:
    (path,) = (table / "_versions").glob("*.manifest")
    data = path.read_bytes()
    position = manifest_position(data)
    message = length_prefixed(data, position)

    def ask(extra: bytes) -> str:
        body = message + extra
        path.write_bytes(data[:position] + len(body).to_bytes(4, "little") + body + data[-16:])
        try:
            lance.dataset(table)
        except (OSError, ValueError) as error:
            return str(error)
        return ""

    assert ask(b"") == ""
    assert compare(table_pb2.Manifest.DESCRIPTOR, ask) == []


def test_the_numbers_of_a_transaction_are_those_of_the_peer(table: Path) -> None:
    # Without the copy in the manifest, the peer has to read the file.
    (path,) = (table / "_versions").glob("*.manifest")
    data = path.read_bytes()
    position = manifest_position(data)
    manifest = table_pb2.Manifest.FromString(length_prefixed(data, position))
    manifest.ClearField("inline_transaction_section")
    body = manifest.SerializeToString()
    path.write_bytes(data[:position] + len(body).to_bytes(4, "little") + body + data[-16:])
    (file,) = (table / "_transactions").glob("*.txn")
    transaction = transaction_pb2.Transaction.FromString(file.read_bytes())
    transaction.ClearField("operation")
    head = transaction.SerializeToString()

    def ask(extra: bytes) -> str:
        file.write_bytes(head + extra)
        try:
            lance.dataset(table).read_transaction(1)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of the peer is no Exception
            return str(error)
        return ""

    assert ask(inside(106, b"\x08\x01")) == ""
    assert compare(transaction_pb2.Transaction.DESCRIPTOR, ask) == []
