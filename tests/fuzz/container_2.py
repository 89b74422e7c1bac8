"""Damage to 2.x files: what the parts mean decides what is broken; the rest is written anew around it."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from google.protobuf import any_pb2
from google.protobuf.message import DecodeError, Message

from lance_ops.file.container.read import (
    FOOTER_SIZE,
    Footer,
    decode_footer,
    decode_table,
    encode_footer,
    encode_table,
)
from lance_ops.pb import encodings20_pb2, encodings21_pb2, encodings23_pb2, file2_pb2, file_pb2
from tests.fuzz.messages import damage_bytes, damage_message
from tests.fuzz.numbers import odd_number

_ENCODINGS: dict[str, type[Message]] = {
    "/lance.encodings.ArrayEncoding": encodings20_pb2.ArrayEncoding,
    "/lance.encodings21.PageLayout": encodings21_pb2.PageLayout,
    "/lance.encodings23.PlanarLayout": encodings23_pb2.PlanarLayout,
    "/lance.encodings.ColumnEncoding": encodings20_pb2.ColumnEncoding,
}


@dataclass(slots=True)
class Parts:
    """A file in pieces that can be put together again.

    Attributes:
        data: All page buffers, where they are in the file.
        columns: The description of each column.
        global_buffers: The first is the descriptor.
        version: Of the footer.
    """

    data: bytearray
    columns: list[file2_pb2.ColumnMetadata]
    global_buffers: list[bytes]
    version: tuple[int, int]

    def build(self) -> bytes:
        """The file."""
        body = bytearray(self.data)
        entries: list[list[tuple[int, int]]] = [[], []]
        messages = [column.SerializeToString() for column in self.columns]
        start = 0
        for table, parts in zip(entries, (self.global_buffers, messages), strict=True):
            start = len(body)
            for part in parts:
                table.append((len(body), len(part)))
                body += part
        column_table = len(body)
        body += encode_table(entries[1])
        global_table = len(body)
        body += encode_table(entries[0])
        counts = (len(entries[0]), len(entries[1]))
        return bytes(body) + encode_footer(Footer(start, column_table, global_table, *counts, *self.version))


def parse(data: bytes) -> Parts:
    """Take an undamaged file apart."""
    footer = decode_footer(data[-FOOTER_SIZE:], len(data), "good")
    tables = [
        decode_table(data[start : start + 16 * count], len(data), "entry", "good")
        for start, count in (
            (footer.column_table, footer.num_columns),
            (footer.global_table, footer.num_global_buffers),
        )
    ]
    columns = [file2_pb2.ColumnMetadata.FromString(data[at : at + size]) for at, size in tables[0]]
    buffers = [data[at : at + size] for at, size in tables[1]]
    end = min(footer.column_metadata_start, *(at for at, _ in tables[1]))
    return Parts(bytearray(data[:end]), columns, buffers, (footer.major, footer.minor))


def damage(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """A damaged copy of a file.

    Args:
        data: An undamaged file.
        others: Undamaged files of the same version, whose pages may get into this one.
        rng: Decides everything.
    """
    parts = parse(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        rng.choices(_DAMAGES, _WEIGHTS)[0](parts, others, rng)
    built = parts.build()
    return damage_tail(built, rng) if rng.random() < 0.1 else built


def damage_tail(data: bytes, rng: Random) -> bytes:
    """Damage what the file ends with, without mending anything."""
    changed = bytearray(data)
    choice = rng.randrange(4)
    if choice == 0:
        # A field of the footer.
        offset, size = rng.choice(((0, 8), (8, 8), (16, 8), (24, 4), (28, 4), (32, 2), (34, 2)))
        at = len(changed) - FOOTER_SIZE + offset
        _replace(changed, at, size, rng)
    elif choice == 1:
        # An entry of the tables before the footer.
        at = len(changed) - FOOTER_SIZE - 8 * rng.randint(1, 6)
        if at > 0:
            _replace(changed, at, 8, rng)
    elif choice == 2:
        for _ in range(rng.choice((1, 3, 20))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    else:
        first, second = sorted(rng.randrange(len(changed)) for _ in range(2))
        changed[first:second] = b"" if rng.random() < 0.5 else changed[first:second] * 2
    return bytes(changed)


def _replace(data: bytearray, at: int, size: int, rng: Random) -> None:
    old = int.from_bytes(data[at : at + size], "little")
    data[at : at + size] = odd_number(rng, old, 8 * size).to_bytes(size, "little")


def _random_page(parts: Parts, rng: Random) -> file2_pb2.ColumnMetadata.Page | None:
    pages = [
        page
        for column in parts.columns
        for page in column.pages
        # Earlier damage may have removed a size.
        if len(page.buffer_offsets) == len(page.buffer_sizes)
    ]
    return rng.choice(pages) if pages else None


def _damage_column(parts: Parts, others: Sequence[bytes], rng: Random) -> None:
    if parts.columns:
        damage_message(rng.choice(parts.columns), rng)


def _damage_encoding(parts: Parts, others: Sequence[bytes], rng: Random) -> None:
    page = _random_page(parts, rng)
    if page is None:
        return
    try:
        wrapped = any_pb2.Any.FromString(page.encoding.direct.encoding)
        message = _ENCODINGS[wrapped.type_url].FromString(wrapped.value)
    except (DecodeError, KeyError):
        return
    for _ in range(rng.choice((1, 1, 2, 3))):
        damage_message(message, rng)
    wrapped.value = message.SerializeToString()
    if rng.random() < 0.05:
        wrapped.value = damage_bytes(wrapped.value, rng)
    page.encoding.direct.encoding = wrapped.SerializeToString()


def _damage_descriptor(parts: Parts, others: Sequence[bytes], rng: Random) -> None:
    if rng.random() < 0.1:
        parts.global_buffers[0] = damage_bytes(parts.global_buffers[0], rng)
        return
    try:
        message = file_pb2.FileDescriptor.FromString(parts.global_buffers[0])
    except DecodeError:
        return
    damage_message(message, rng)
    parts.global_buffers[0] = message.SerializeToString()


def _damage_word(parts: Parts, others: Sequence[bytes], rng: Random) -> None:
    page = _random_page(parts, rng)
    if page is None or not page.buffer_offsets:
        return
    number = rng.randrange(len(page.buffer_offsets))
    start, size = page.buffer_offsets[number], page.buffer_sizes[number]
    if not 0 < size <= len(parts.data) - start:
        return
    for _ in range(rng.choice((1, 1, 1, 2, 6))):
        width = rng.choice((1, 2, 2, 4, 4, 8))
        # The first words of a buffer and of its chunks say how to read the rest.
        reach = rng.choice((1, 2, 4, 16, size // width + 1))
        bases = [0, *_chunk_starts(page, parts, size)] if number == 1 else [0]
        at = rng.choice(bases) + width * rng.randrange(reach)
        if at + width <= size:
            _replace(parts.data, start + at, width, rng)


def _chunk_starts(page: file2_pb2.ColumnMetadata.Page, parts: Parts, size: int) -> list[int]:
    """Where the chunks of a mini-block page begin, by either width of the words before them."""
    words = bytes(parts.data[page.buffer_offsets[0] :][: page.buffer_sizes[0]])
    starts = []
    for code, width in (("H", 2), ("I", 4)):
        at = 0
        for (word,) in struct.iter_unpack(f"<{code}", words[: len(words) // width * width]):
            at += ((word >> 4) + 1) * 8
            if at >= size:
                break
            starts.append(at)
    return starts


def _damage_buffer(parts: Parts, others: Sequence[bytes], rng: Random) -> None:
    page = _random_page(parts, rng)
    if page is None or not page.buffer_offsets:
        return
    number = rng.randrange(len(page.buffer_offsets))
    start, size = page.buffer_offsets[number], page.buffer_sizes[number]
    choice = rng.randrange(6)
    if choice == 0:
        page.buffer_sizes[number] = rng.randrange(size + 1)
    elif choice == 1:
        # Longer than it was, at the end of the data.
        old = bytes(parts.data[start : start + size])
        page.buffer_offsets[number] = len(parts.data)
        addition = rng.choice((1, 7, 8, 64, 1000))
        page.buffer_sizes[number] = size + addition
        parts.data += old + (rng.randbytes(addition) if rng.random() < 0.5 else bytes(addition))
    elif choice == 2:
        other = rng.randrange(len(page.buffer_offsets))
        page.buffer_offsets[number] = page.buffer_offsets[other]
        page.buffer_sizes[number] = page.buffer_sizes[other]
    elif choice == 3:
        del page.buffer_offsets[number], page.buffer_sizes[number]
    elif choice == 4:
        filler = rng.choice((b"\0", b"\xff", b"\x01", b"\x80", b"\x00\x01"))
        first, second = sorted(rng.randrange(size + 1) for _ in range(2))
        if start + second <= len(parts.data):
            parts.data[start + first : start + second] = (filler * (second - first))[: second - first]
    else:
        odd = odd_number(rng, start, 64)
        page.buffer_offsets[number] = odd


def _splice_page(parts: Parts, others: Sequence[bytes], rng: Random) -> None:
    page = _random_page(parts, rng)
    donor = parse(rng.choice(others))
    other = _random_page(donor, rng)
    if page is None or other is None:
        return
    if rng.random() < 0.5:
        page.encoding.CopyFrom(other.encoding)
        return
    for offset, size in zip(other.buffer_offsets, other.buffer_sizes, strict=True):
        page.buffer_offsets.append(len(parts.data))
        page.buffer_sizes.append(size)
        parts.data += donor.data[offset : offset + size]
    kept = len(other.buffer_offsets)
    if rng.random() < 0.8:
        del page.buffer_offsets[: -kept or None], page.buffer_sizes[: -kept or None]
        page.encoding.CopyFrom(other.encoding)
    if rng.random() < 0.5:
        page.length = other.length


_Damage = Callable[[Parts, Sequence[bytes], Random], None]
_DAMAGES: tuple[_Damage, ...] = (
    _damage_encoding,
    _damage_word,
    _damage_column,
    _damage_buffer,
    _damage_descriptor,
    _splice_page,
)
_WEIGHTS = (30, 40, 10, 10, 4, 6)
