"""Damage to protobuf messages, field by field, so that what comes out still parses most of the time."""

from collections.abc import Iterator
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Kind
from google.protobuf.message import Message

from tests.fuzz.numbers import odd_number

_BITS = {
    Kind.TYPE_UINT32: (32, False),
    Kind.TYPE_INT32: (32, True),
    Kind.TYPE_SINT32: (32, True),
    Kind.TYPE_UINT64: (64, False),
    Kind.TYPE_INT64: (64, True),
    Kind.TYPE_SINT64: (64, True),
    Kind.TYPE_FIXED64: (64, False),
}
_TEXTS = (
    *(
        "",
        "null",
        "bool",
        "int8",
        "uint64",
        "float",
        "halffloat",
        "double",
        "string",
        "large_string",
        "binary",
    ),
    *("large_binary", "list", "large_list", "struct", "map", "list.struct", "large_list.struct", "json"),
    *("fixed_size_binary:3", "fixed_size_binary:0", "fixed_size_binary:-1", "fixed_size_list:float:4"),
    *(
        "fixed_size_list:fixed_size_list:int8:2:3",
        "fixed_size_list:int8:2147483647",
        "fixed_size_list:struct:2",
    ),
    *("dict:string:int8:false", "dict:int32:uint64:true", "dict:string:float:false", "timestamp:us:UTC"),
    *("decimal:128:10:2", "decimal:256:99:-3", "duration:ns", "time:ns", "date32:day", "blob", "zstd", "lz4"),
    "\x00" * 9,
)


def damage_message(message: Message, rng: Random) -> None:
    """Change one field of a message or of one inside."""
    victim = rng.choice(list(_walk(message)))
    present = [field for field, _ in victim.ListFields()]
    fields = present if present and rng.random() < 0.75 else list(victim.DESCRIPTOR.fields)
    if fields:
        _damage_field(message, victim, rng.choice(fields), rng)


def damage_bytes(data: bytes, rng: Random) -> bytes:
    """Change some bytes, mostly near the start, or the length."""
    changed = bytearray(data)
    choice = rng.randrange(10)
    if choice == 0:
        return bytes(changed[: rng.randrange(len(changed) + 1)])
    if choice == 1:
        return bytes(changed) + rng.randbytes(rng.choice((1, 4, 8, 300)))
    if not changed:
        return rng.randbytes(rng.randrange(20))
    for _ in range(rng.choice((1, 1, 2, 5))):
        reach = rng.choice((8, 32, 320, len(changed)))
        position = rng.randrange(min(reach, len(changed)))
        changed[position] = odd_number(rng, changed[position], 8)
    return bytes(changed)


def _walk(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.type == Kind.TYPE_MESSAGE and not _is_map(field):
            for child in value if field.is_repeated else (value,):
                yield from _walk(child)


def _is_map(field: Any) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def _damage_field(root: Message, victim: Message, field: Any, rng: Random) -> None:
    if _is_map(field):
        victim.ClearField(field.name)
    elif field.is_repeated:
        _damage_repeated(victim, field, rng)
    elif field.type == Kind.TYPE_MESSAGE:
        _damage_child(root, victim, field, rng)
    elif rng.random() < 0.1:
        victim.ClearField(field.name)
    else:
        setattr(victim, field.name, _odd_value(field, getattr(victim, field.name), rng))


def _odd_value(field: Any, old: Any, rng: Random) -> Any:
    if field.type in _BITS:
        bits, signed = _BITS[field.type]
        number = odd_number(rng, old, bits)
        return number - (1 << bits) if signed and number >> (bits - 1) else number
    if field.type == Kind.TYPE_ENUM:
        return rng.choice([*range(len(field.enum_type.values) + 2), 1 << 30, -1])
    if field.type == Kind.TYPE_BOOL:
        return not old
    if field.type == Kind.TYPE_BYTES:
        return damage_bytes(old, rng)
    return rng.choice(_TEXTS) if field.type == Kind.TYPE_STRING else old


def _damage_repeated(victim: Message, field: Any, rng: Random) -> None:
    values = getattr(victim, field.name)
    choice = rng.randrange(5)
    if field.type == Kind.TYPE_MESSAGE:
        if choice == 0 or not values:
            values.add()
        elif choice == 1:
            del values[rng.randrange(len(values))]
        elif choice == 2:
            values.add().CopyFrom(rng.choice(list(values)))
        elif choice == 3:
            copies = [type(value).FromString(value.SerializeToString()) for value in values]
            rng.shuffle(copies)
            del values[:]
            values.extend(copies)
        else:
            damage_message(rng.choice(list(values)), rng)
        return
    numbers = list(values)
    if choice == 0 or not numbers:
        numbers.append(_odd_value(field, numbers[-1] if numbers else type(field.default_value or 0)(), rng))
    elif choice == 1:
        del numbers[rng.randrange(len(numbers))]
    elif choice == 2:
        rng.shuffle(numbers)
    else:
        place = rng.randrange(len(numbers))
        numbers[place] = _odd_value(field, numbers[place], rng)
    del values[:]
    values.extend(numbers)


def _damage_child(root: Message, victim: Message, field: Any, rng: Random) -> None:
    child = getattr(victim, field.name)
    choice = rng.randrange(4)
    if choice == 0:
        victim.ClearField(field.name)
    elif choice == 1 or not victim.HasField(field.name):
        child.SetInParent()
    else:
        # Something of the same kind from elsewhere in the tree, perhaps this very message: that nests it.
        others = [one for one in _walk(root) if one.DESCRIPTOR is field.message_type]
        copy = type(child)()
        if others:
            copy.CopyFrom(rng.choice(others))
        for _ in range(rng.choice((0, 0, 0, 1, 3, 40)) if choice == 3 else 0):
            copy = _wrap(copy, rng)
        child.CopyFrom(copy)


def _wrap(inner: Message, rng: Random) -> Message:
    """The message inside of another of its kind, if its kind can hold itself."""
    outer = type(inner)()
    for field in rng.sample(list(outer.DESCRIPTOR.fields), len(outer.DESCRIPTOR.fields)):
        if field.type != Kind.TYPE_MESSAGE or field.is_repeated:
            continue
        for nested in field.message_type.fields:
            if nested.message_type is inner.DESCRIPTOR and not nested.is_repeated:
                getattr(getattr(outer, field.name), nested.name).CopyFrom(inner)
                return outer
    return inner
