"""Little-endian words at any position of an array of bytes, and copies of bytes, for the other kernels.

Numba knows no unaligned access but through views, which cost more than the access. Nothing here
checks bounds: the caller has done so. What is copied does not overlap, and a word whose trailing zeros
are counted is not zero. `peek`, `poke` and `copy_memory` take addresses, for loops in which numba would count
references.
"""

import importlib
from typing import Any

from lance_ops.encoding.kernels.loops import intrinsic, types

BYTES = types.Array(types.uint8, 1, "C")
READONLY_BYTES = types.Array(types.uint8, 1, "C", readonly=True)


def _ir() -> Any:
    return importlib.import_module("llvmlite.ir")


def _raw_memcpy(*arguments: Any) -> None:
    importlib.import_module("numba.core.cgutils").raw_memcpy(*arguments)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, position: Any, bits: int) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [position]), _ir().PointerType(_ir().IntType(bits)))


def _loader(bits: int) -> Any:
    result = types.Integer.from_bitwidth(bits, signed=False)

    def load(typing_context: Any, array: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], bits)
            return builder.load(pointer, align=1)

        return result(array, types.intp), generate

    return intrinsic(load)


def _storer(bits: int) -> Any:
    word = types.Integer.from_bitwidth(bits, signed=False)

    def store(typing_context: Any, array: Any, position: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], bits)
            builder.store(arguments[2], pointer, align=1)
            return context.get_dummy_value()

        return types.void(array, types.intp, word), generate

    return intrinsic(store)


def _copy_bytes(typing_context: Any, target: Any, position: Any, source: Any, start: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], 8)
        source = _pointer(context, builder, signature.args[2], arguments[2], arguments[3], 8)
        _raw_memcpy(builder, to, source, arguments[4], context.get_constant(types.intp, 1))
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), generate


def _trailing_zeros(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], _ir().Constant(_ir().IntType(1), 1))

    return types.intp(types.uint64), generate


def _peek(bits: int) -> Any:
    result = types.Integer.from_bitwidth(bits, signed=False)

    def peek(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(
                builder.inttoptr(arguments[0], _ir().PointerType(_ir().IntType(bits))), align=1
            )

        return result(types.uint64), generate

    return intrinsic(peek)


def _poke(bits: int) -> Any:
    word = types.Integer.from_bitwidth(bits, signed=False)

    def poke(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], _ir().PointerType(_ir().IntType(bits)))
            builder.store(arguments[1], pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, word), generate

    return intrinsic(poke)


def _copy_memory(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = _ir().PointerType(_ir().IntType(8))
        to, source = builder.inttoptr(arguments[0], byte), builder.inttoptr(arguments[1], byte)
        _raw_memcpy(builder, to, source, arguments[2], context.get_constant(types.intp, 1))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64), generate


load_u16: Any = _loader(16)
load_u32: Any = _loader(32)
load_u64: Any = _loader(64)
peek_u8: Any = _peek(8)
peek_u16: Any = _peek(16)
peek_u32: Any = _peek(32)
peek_u64: Any = _peek(64)
poke_u8: Any = _poke(8)
poke_u32: Any = _poke(32)
poke_u64: Any = _poke(64)
store_u16: Any = _storer(16)
store_u32: Any = _storer(32)
store_u64: Any = _storer(64)
copy_bytes: Any = intrinsic(_copy_bytes)
copy_memory: Any = intrinsic(_copy_memory)
trailing_zeros: Any = intrinsic(_trailing_zeros)
