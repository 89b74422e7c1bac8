"""Damage to files of indices: to the container, to metadata and buffers, and to what columns hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_ops.errors import LanceOpsError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.pb import index_pb2
from lance_ops.storage import Store
from tests.fuzz import container_2
from tests.fuzz.messages import damage_bytes, damage_message
from tests.fuzz.numbers import odd_number

_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e30, -1e30, 3.4e38, 1e-45, float("inf"), float("-inf"), float("nan"))
_MESSAGES: dict[str, Any] = {"lance:ivf": index_pb2.IVF}
_REFUSED = (LanceOpsError, pa.ArrowException, ValueError, TypeError, OverflowError)


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An undamaged file of an index, as it is and as what it means.

    Attributes:
        data: Its bytes.
        version: Storage version.
        schema: Of the columns.
        metadata: Of the schema.
        buffers: Global buffers after the descriptor.
        table: The columns.
    """

    data: bytes
    version: str
    schema: Schema
    metadata: Mapping[str, bytes]
    buffers: tuple[bytes, ...]
    table: pa.Table

    @classmethod
    def read(cls, store: Store, path: str) -> "IndexFile":
        """Take it apart."""
        reader = FileReader.open(store, path)
        buffers = (
            reader.global_buffer(number).to_pybytes() for number in range(1, reader.num_global_buffers)
        )
        return cls(
            store.read(path).to_pybytes(),
            reader.version,
            Schema(reader.schema.fields),
            dict(reader.schema.metadata),
            tuple(buffers),
            reader.read_table(),
        )


def truncate(data: bytes, rng: Random) -> bytes:
    """The first bytes of a file, perhaps none."""
    return data[: rng.choice((0, rng.randrange(len(data)), max(len(data) - rng.randrange(1, 80), 0)))]


def damage(file: IndexFile, others: Sequence[bytes], scratch: Store, rng: Random) -> bytes:
    """A damaged copy, that most often is a file which can be opened.

    Args:
        file: What is damaged.
        others: Files whose pages may get into this one.
        scratch: Takes what is written.
        rng: Decides everything.
    """
    choice = rng.random()
    if choice < 0.3:
        return container_2.damage(file.data, others, rng)
    metadata, buffers, table = dict(file.metadata), list(file.buffers), file.table
    for _ in range(rng.choice((1, 1, 2, 4))):
        choice = rng.random()
        if choice < 0.2 and metadata:
            _damage_metadata(metadata, rng)
        elif choice < 0.45 and buffers:
            _damage_buffer(metadata, buffers, rng)
        else:
            table = _damage_table(table, rng)
    try:
        with FileWriter(scratch, "f.lance", file.schema, version=file.version) as writer:
            for buffer in buffers:
                writer.add_global_buffer(buffer)
            writer.add_schema_metadata(metadata)
            writer.write(table)
    except _REFUSED:
        # No writer makes a file of that.
        return container_2.damage(file.data, others, rng)
    return scratch.read("f.lance").to_pybytes()


def _damage_metadata(metadata: dict[str, bytes], rng: Random) -> None:
    key = rng.choice(sorted(metadata))
    value = metadata[key]
    choice = rng.randrange(6)
    if choice == 0:
        del metadata[key]
    elif choice == 1:
        metadata[key] = metadata[rng.choice(sorted(metadata))]
    elif choice == 2:
        metadata[key] = damage_bytes(value, rng)
    else:
        metadata[key] = _other_number(value, rng)


def _other_number(value: bytes, rng: Random) -> bytes:
    """The text with another number in place of one of its own."""
    starts = [at for at in range(len(value)) if value[at : at + 1].isdigit()]
    if not starts:
        return rng.choice(
            (b"", b"{}", b"[]", b"null", b"0", b"-1", b"\xff", b"[[[[", b'{"a": 1e999}', value * 2)
        )
    start = stop = rng.choice(starts)
    while stop < len(value) and value[stop : stop + 1].isdigit():
        stop += 1
    number = odd_number(rng, int(value[start:stop]), 64)
    text = rng.choice((str(number), str(number), f"-{number}", f"{number}.5", "null", '"x"', "[]"))
    return value[:start] + text.encode() + value[stop:]


def _damage_buffer(metadata: Mapping[str, bytes], buffers: list[bytes], rng: Random) -> None:
    number = rng.randrange(len(buffers))
    known = [
        _MESSAGES[key]
        for key, place in metadata.items()
        if key in _MESSAGES and place == b"%d" % (number + 1)
    ]
    kind = known[0] if known else index_pb2.Tensor
    if rng.random() < (0.8 if known else 0.3):
        try:
            message = kind.FromString(buffers[number])
        except DecodeError:
            pass
        else:
            damage_message(message, rng)
            buffers[number] = message.SerializeToString()
            return
    if rng.random() < 0.1 and len(buffers) > 1:
        buffers[number] = rng.choice(buffers)
    else:
        buffers[number] = damage_bytes(buffers[number], rng)


def _damage_table(table: pa.Table, rng: Random) -> pa.Table:
    rows = list(range(table.num_rows))
    choice = rng.randrange(12)
    if choice == 0 or not rows:
        return table.take(pa.array(rng.sample(rows, len(rows)), pa.int64()))
    if choice == 1:
        return table.slice(rng.randrange(len(rows) + 1), rng.randrange(len(rows) + 1))
    if choice == 2:
        return table.take(pa.array([*rows, *rng.choices(rows, k=rng.choice((1, 3, 40)))], pa.int64()))
    number = rng.randrange(table.num_columns)
    field = table.schema.field(number)
    values = table.column(number).to_pylist()
    if choice == 3:
        first, second = rng.choice(rows), rng.choice(rows)
        values[first], values[second] = values[second], values[first]
    else:
        for row in rng.choices(rows, k=rng.choice((1, 1, 1, 3, 10))):
            values[row] = _other_value(values[row], field.type, rng)
    try:
        return table.set_column(number, field, pa.array(values, field.type))
    except _REFUSED:
        return table


def _other_value(value: Any, data_type: pa.DataType, rng: Random) -> Any:
    if value is None or rng.random() < 0.03:
        return None
    match value:
        case bool():
            return not value
        case int():
            bits = data_type.bit_width
            number = odd_number(rng, value & ((1 << bits) - 1), bits)
            signed = not pa.types.is_unsigned_integer(data_type)
            return number - (1 << bits) if signed and number >> (bits - 1) else number
        case float():
            return rng.choice((*_FLOATS, -value, value * 2, value + 1))
        case bytes():
            return damage_bytes(value, rng)
        case str():
            return rng.choice(("", value[:-1], value + "x", value * 40, "\x00", "\U0010ffff", value[::-1]))
        case list():
            return _other_list(value, data_type.value_type, rng)
        case dict():
            name = rng.choice(sorted(value))
            return {**value, name: _other_value(value[name], data_type.field(name).type, rng)}
    return value


def _other_list(values: list[Any], item: pa.DataType, rng: Random) -> list[Any]:
    choice = rng.randrange(8)
    if choice == 0:
        return values[: rng.randrange(len(values) + 1)]
    if choice == 1:
        return values + values[-rng.choice((1, 5)) :]
    if choice == 2:
        return rng.sample(values, len(values))
    changed = list(values)
    for _ in range(rng.choice((1, 1, 4)) if changed else 0):
        place = rng.randrange(len(changed))
        changed[place] = _other_value(changed[place], item, rng)
    return changed
