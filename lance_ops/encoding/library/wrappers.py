"""C source of a loop library: its interface, the choice of a processor type, and what loops allocate with.

Each variant of a loop is a C function of pointers, shapes and numbers: `lance_ops_TECHNIQUE_LOOP_N`. Over it
lies `lance_ops_TECHNIQUE_LOOP`, which takes NumPy arrays as they are: it reads type, shape and address from
the fields that NumPy keeps in one place in all releases, and takes the first variant that fits, as numba
does. So a call passes objects that the caller has at hand, and no function of the interpreter is needed: one
library serves all releases of Python. `load` says how many bytes the head of an object has, and tries the
fields before it trusts them.
"""

import json
from collections.abc import Sequence
from typing import Any

NO_MATCH = -(1 << 63)
"""What a loop returns whose arguments fit no variant."""

FAILED = NO_MATCH + 1
"""What a loop returns that ran out of memory."""

_C_TYPES = {
    "bool": "uint8_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float32": "float",
    "float64": "double",
}

_NUMPY_TYPES = {
    "bool": (0,),
    "int8": (1,),
    "uint8": (2,),
    "int16": (3,),
    "uint16": (4,),
    "int32": (5,),
    "uint32": (6,),
    "int64": (7, 9),
    "uint64": (8, 10),
    "float32": (11,),
    "float64": (12,),
}
"""Numbers of NumPy's types; there are two of 64 bits."""

_ITEM_BYTES = {"bool": 1, "uint8": 1, "uint16": 2, "uint32": 4, "float32": 4, "int32": 4}

# Alignment is not asked for: x86-64 reads numbers at any address, and numba takes such arrays, too.
_WRITES, _CONTIGUOUS = 0x400, 0x1
"""Flags of NumPy's arrays."""

_HEAD = """\
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
#define NO_MATCH INT64_MIN
#define FAILED (INT64_MIN + 1)

/* Fields of an array behind the head of its object. */
struct array {
    char *data;
    int ndim;
    int64_t *shape, *strides;
    void *base;
    char *type;
    int flags;
};

static int64_t head_bytes;
static void *array_class;
static int is_new;

static inline struct array *fields(char *object) { return (struct array *)(object + head_bytes); }

/* Return whether an object is an array of one of these types, in native byte order, with these flags. */
static inline int fits(char *object, unsigned types, int ndim, int flags)
{
    if (*(void **)(object + head_bytes - sizeof(void *)) != array_class) return 0;
    struct array *array = fields(object);
    char order = array->type[head_bytes + sizeof(void *) + 2];
    unsigned type = *(unsigned *)(array->type + head_bytes + sizeof(void *) + 4);
    return type < 32 && (types >> type & 1) && order != '>' && array->ndim == ndim
        && (array->flags & flags) == flags;
}

static int has_new(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")
        && __builtin_cpu_supports("fma");
}

/* Has to be called first. Return whether this processor can run the loops at all. */
EXPORT int lance_ops_begin(int64_t bytes, void *of_arrays)
{
    head_bytes = bytes;
    array_class = of_arrays;
    __builtin_cpu_init();
    is_new = has_new();
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
}

/* Choose the loops for any processor, or those for newer ones, for tests; return which are in use. */
EXPORT int lance_ops_use_newer(int newer)
{
    is_new = newer && has_new();
    return is_new;
}

/* Return what is read of an array: whether it fits, its address, and its sizes. */
EXPORT int64_t lance_ops_probe(void *object, unsigned types, int64_t ndim, int64_t *found)
{
    if (!fits(object, types, ndim, %(plain)d)) return 0;
    found[0] = (int64_t)fields(object)->data;
    for (int64_t axis = 0; axis < ndim; axis++) found[1 + axis] = fields(object)->shape[axis];
    return 1;
}

/* What numba's loops allocate with; its compiled code knows the order of these fields. */
struct memory {
    size_t references;
    void (*destroy)(void *data, size_t size, void *inner);
    void *of_destroy, *data;
    size_t size;
};

static void *allocate(size_t size, size_t alignment)
{
    size_t whole = sizeof(struct memory) + size + alignment;
    struct memory *memory = whole < size ? NULL : malloc(whole);
    if (memory == NULL) return NULL;
    uintptr_t data = (uintptr_t)(memory + 1);
    if (alignment > 1) data += (alignment - data %% alignment) %% alignment;
    *memory = (struct memory){1, NULL, NULL, (void *)data, size};
    return memory;
}

void *NRT_MemInfo_alloc_aligned(size_t size, unsigned alignment) { return allocate(size, alignment); }
void *NRT_MemInfo_alloc_safe_aligned(size_t size, unsigned alignment) { return allocate(size, alignment); }
void *NRT_MemInfo_alloc(size_t size) { return allocate(size, 16); }
void *NRT_MemInfo_alloc_safe(size_t size) { return allocate(size, 16); }
void *NRT_Allocate(size_t size) { return malloc(size); }
void NRT_Free(void *data) { free(data); }

/* Lists, which have their items in memory of its own. */
static void destroy_items(void *data, size_t size, void *inner)
{
    if (inner) ((void (*)(void *, size_t, void *))inner)(data, size, NULL);
    free(data);
}

void *NRT_MemInfo_new_varsize_dtor(size_t size, void *inner)
{
    struct memory *memory = malloc(sizeof(struct memory));
    void *data = malloc(size);
    if (memory == NULL || data == NULL) {
        free(memory);
        free(data);
        return NULL;
    }
    *memory = (struct memory){1, destroy_items, inner, data, size};
    return memory;
}

void *NRT_MemInfo_varsize_realloc(struct memory *memory, size_t size)
{
    void *data = realloc(memory->data, size);
    if (data == NULL) return NULL;
    memory->data = data;
    memory->size = size;
    return data;
}

void NRT_MemInfo_call_dtor(struct memory *memory)
{
    if (memory->destroy) memory->destroy(memory->data, memory->size, memory->of_destroy);
    free(memory);
}

/* Makers of error messages, of which numba's loops keep the address. No message is made here. */
void *PyExc_RuntimeError;
void PyErr_SetString(void) { abort(); }
void PyObject_Hash(void) { abort(); }
void PyTuple_Pack(void) { abort(); }
void PyUnicode_FromKindAndData(void) { abort(); }
"""


def write_source(loops: Sequence[dict[str, Any]], prefixes: Sequence[str]) -> str:
    """Write the C source that is linked with the object files of `emit`.

    Args:
        loops: The table that `emit` wrote for one prefix; those of the others are the same.
        prefixes: Of native functions: for any processor, and, if there are two, for newer ones.
    """
    parts = [_HEAD % {"plain": _CONTIGUOUS}]
    parts += [_write_loop(loop, prefixes) for loop in loops]
    table = [
        {
            "technique": loop["technique"],
            "name": loop["name"],
            "result": loop["result"],
            "arguments": [
                "array" if one["ndim"] else one["type"] for one in loop["overloads"][0]["arguments"]
            ],
        }
        for loop in loops
    ]
    text = json.dumps(json.dumps(table, separators=(",", ":")))
    parts.append(f"EXPORT const char *lance_ops_table(void)\n{{\n    return {text};\n}}\n")
    return "\n".join(parts)


def _write_loop(loop: dict[str, Any], prefixes: Sequence[str]) -> str:
    name = f"lance_ops_{loop['technique'].replace('.', '_')}_{loop['name']}"
    first = loop["overloads"][0]["arguments"]
    shown = [
        f"void *{name}" if one["ndim"] else f"{_C_TYPES[one['type']]} {name}"
        for name, one in zip(loop["parameters"], first, strict=True)
    ]
    count = loop["result"]["count"]
    if count > 1:
        shown.append("int64_t *found")
    lines = [f"EXPORT int64_t {name}({', '.join(shown)})", "{"]
    variants = []
    for number, overload in enumerate(loop["overloads"]):
        variants.append(_write_variant(loop, overload, f"{name}_{number}", prefixes))
        tests, passed = [], []
        for parameter, one in zip(loop["parameters"], overload["arguments"], strict=True):
            if not one["ndim"]:
                passed.append(parameter)
                continue
            types = sum(1 << kind for kind in _NUMPY_TYPES[one["type"]])
            flags = _CONTIGUOUS | _WRITES * one["writes"]
            tests.append(f"fits({parameter}, {types}, {one['ndim']}, {flags})")
            passed += [f"(void *)fields({parameter})->data", f"fields({parameter})->shape"]
        if count > 1:
            passed.append("found")
        lines.append(f"    if ({' && '.join(tests) or '1'})")
        lines.append(f"        return {name}_{number}({', '.join(passed)});")
    lines += ["    return NO_MATCH;", "}", ""]
    return "\n".join([*variants, *lines])


def _write_variant(loop: dict[str, Any], overload: dict[str, Any], name: str, prefixes: Sequence[str]) -> str:
    result, count = loop["result"], loop["result"]["count"]
    kind = _C_TYPES.get(result["type"], "void *")
    native = [f"{kind} *", "void **"]
    shown, passed = [], ["returned" if count > 1 else "&returned", "&error"]
    for parameter, one in zip(loop["parameters"], overload["arguments"], strict=True):
        c_type, ndim = _C_TYPES[one["type"]], one["ndim"]
        if not ndim:
            shown.append(f"{c_type} {parameter}")
            native.append(c_type)
            passed.append(parameter)
            continue
        constant = "" if one["writes"] else "const "
        shown += [f"{constant}{c_type} *{parameter}", f"const int64_t *{parameter}_shape"]
        native += ["void *", "void *", "int64_t", "int64_t", f"{constant}{c_type} *"] + ["int64_t"] * (
            2 * ndim
        )
        sizes = [f"{parameter}_shape[{axis}]" for axis in range(ndim)]
        item = str(_ITEM_BYTES.get(one["type"], 8))
        passed += ["NULL", "NULL", " * ".join(sizes), item, parameter, *sizes]
        passed += [" * ".join([item, *sizes[axis + 1 :]]) for axis in range(ndim)]
    if count > 1:
        shown.append("int64_t *found")
    suffix = overload["symbol"].partition("_")[2]
    natives = [f"{prefix}_{suffix}" for prefix in prefixes]
    lines = [f"int32_t {one}({', '.join(native)});" for one in natives]
    chosen = f"(is_new ? {natives[1]} : {natives[0]})" if len(natives) > 1 else natives[0]
    lines += [f"EXPORT int64_t {name}({', '.join(shown)})", "{"]
    lines.append(f"    {kind} returned{f'[{count}]' if count > 1 else ''};")
    lines.append("    void *error;")
    # numba's codes: 0 for a result, -2 for None.
    lines.append(f"    int32_t code = {chosen}({', '.join(passed)});")
    lines.append("    if (code != 0 && code != -2) return FAILED;")
    if count > 1:
        lines.append(
            f"    for (int place = 0; place < {count}; place++) found[place] = (int64_t)returned[place];"
        )
    lines.append(f"    return {'(int64_t)returned' if count == 1 else '0'};")
    lines += ["}", ""]
    return "\n".join(lines)
