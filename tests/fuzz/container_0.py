"""Damage to legacy files: metadata, schema, page table, statistics, offsets."""

import struct
from random import Random

from google.protobuf.message import DecodeError

from lance_ops.pb import file_pb2, table_pb2
from tests.fuzz.messages import damage_bytes, damage_message
from tests.fuzz.numbers import odd_number

_FOOTER = struct.Struct("<qHH4s")


def damage(data: bytes, rng: Random) -> bytes:
    """A damaged copy of a 0.1 file."""
    body, metadata, minor = _take_apart(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        choice = rng.randrange(10)
        if choice < 3:
            damage_message(metadata, rng)
        elif choice == 3 and metadata.manifest_position:
            _damage_manifest(body, metadata, rng)
        elif choice < 6:
            tables = [metadata.page_table_position, metadata.statistics.page_table_position]
            _damage_words(body, rng.choice(tables), 8, rng)
        else:
            _damage_words(body, rng.randrange(max(len(body), 1)), rng.choice((1, 2, 4, 8)), rng)
    position = len(body)
    encoded = metadata.SerializeToString()
    if rng.random() < 0.05:
        encoded = damage_bytes(encoded, rng)
    built = bytearray(
        body + struct.pack("<I", len(encoded)) + encoded + _FOOTER.pack(position, 0, minor, b"LANC")
    )
    if rng.random() < 0.1:
        at = rng.choice((len(built) - 16, position, rng.randrange(len(built))))
        width = min(8, len(built) - at)
        built[at : at + width] = odd_number(rng, position, 8 * width).to_bytes(width, "little")
    return bytes(built)


def _take_apart(data: bytes) -> tuple[bytearray, file_pb2.Metadata, int]:
    position, _, minor, _ = _FOOTER.unpack(data[-_FOOTER.size :])
    (length,) = struct.unpack_from("<I", data, position)
    metadata = file_pb2.Metadata.FromString(data[position + 4 : position + 4 + length])
    return bytearray(data[:position]), metadata, minor


def _damage_manifest(body: bytearray, metadata: file_pb2.Metadata, rng: Random) -> None:
    position = metadata.manifest_position
    if position + 4 > len(body):
        return
    (length,) = struct.unpack_from("<I", body, position)
    try:
        manifest = table_pb2.Manifest.FromString(bytes(body[position + 4 : position + 4 + length]))
    except DecodeError:
        # An earlier change moved it to where there is none.
        return
    damage_message(rng.choice(list(manifest.fields)) if manifest.fields else manifest, rng)
    encoded = manifest.SerializeToString()
    metadata.manifest_position = len(body)
    body += struct.pack("<I", len(encoded)) + encoded


def _damage_words(body: bytearray, start: int, width: int, rng: Random) -> None:
    at = start // 8 * 8 + width * rng.randrange(rng.choice((1, 4, 40)))
    if start == 0 or at + width > len(body):
        return
    old = int.from_bytes(body[at : at + width], "little")
    body[at : at + width] = odd_number(rng, old, 8 * width).to_bytes(width, "little")
