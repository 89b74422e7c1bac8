"""Compile the kernels for one processor type into an object file, and list them with their types.

A program of its own, because numba takes the processor type from the environment when it is imported:
`NUMBA_CPU_NAME=x86-64-v2 NUMBA_CPU_FEATURES= python -m lance_ops.encoding.library.emit PREFIX OBJECT TABLE
TECHNIQUE...`. `build` runs it. Uses internals of numba (`_final_module`, and names and arguments of native
functions), which releases of numba may change: the build checks the number of arguments of each function.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

_KERNELS = "lance_ops.encoding.kernels"
_ARGUMENTS_OF_ARRAYS = 5
"""Reference count, owner, number of items, item size and data come before shape and strides."""


def main(arguments: list[str]) -> None:
    """Write the object file and the table of loops.

    Args:
        arguments: Prefix of the names of native functions, path of the object file, path of the table (JSON),
            and the techniques to compile.
    """
    prefix, object_path, table_path, *techniques = arguments
    importlib.import_module(f"{_KERNELS}.loops").compile_with_numba()
    llvm: Any = importlib.import_module("llvmlite.binding")
    whole, table = None, []
    for technique in techniques:
        for name, dispatcher in _loops(importlib.import_module(f"{_KERNELS}.{technique}")):
            loop, modules = _native_functions(llvm, prefix, technique, name, dispatcher)
            table.append(loop)
            for module in modules:
                if whole is None:
                    whole = module
                else:
                    whole.link_in(module)
    exported = {overload["symbol"] for loop in table for overload in loop["overloads"]}
    Path(object_path).write_bytes(_object_code(llvm, whole, exported))
    Path(table_path).write_text(json.dumps(table), encoding="utf-8")


def _loops(module: Any) -> list[tuple[str, Any]]:
    """The loops that functions of a technique call, by their names in the library."""
    return [
        (name.removeprefix("_"), value)
        for name, value in sorted(vars(module).items())
        if getattr(value, "is_loop", False) and value.py_func.__module__ == module.__name__
    ]


def _native_functions(
    llvm: Any, prefix: str, technique: str, name: str, dispatcher: Any
) -> tuple[dict[str, Any], list[Any]]:
    overloads, modules = [], []
    for number, compiled in enumerate(dispatcher.overloads.values()):
        symbol = f"{prefix}_{technique.replace('.', '_')}_{name}_{number}"
        native = compiled.fndesc.llvm_func_name
        module = llvm.parse_assembly(str(compiled.library._final_module))  # noqa: SLF001
        arguments = [_describe(kind) for kind in compiled.signature.args]
        expected = 2 + sum(_ARGUMENTS_OF_ARRAYS + 2 * one["ndim"] if one["ndim"] else 1 for one in arguments)
        for function in module.functions:
            if function.name == native:
                if len(list(function.arguments)) != expected:
                    raise SystemExit(f"{technique}.{name}: this release of numba passes other arguments")
                function.name = symbol
                function.linkage = "external"
            elif not function.is_declaration:
                function.linkage = "internal"
        for variable in module.global_variables:
            if not variable.is_declaration:
                variable.linkage = "internal"
        overloads.append({"symbol": symbol, "arguments": arguments})
        modules.append(module)
    result = _describe_result(dispatcher.nopython_signatures[0].return_type)
    names = list(dispatcher.py_func.__code__.co_varnames[: dispatcher.py_func.__code__.co_argcount])
    loop = {
        "technique": technique,
        "name": name,
        "parameters": names,
        "result": result,
        "overloads": overloads,
    }
    return loop, modules


def _describe(kind: Any) -> dict[str, Any]:
    """One argument: its type, and of an array its number of dimensions and what it must allow."""
    if not hasattr(kind, "ndim"):
        return {"type": str(kind), "ndim": 0}
    if kind.layout != "C":
        raise SystemExit(f"arrays that are not contiguous cannot be passed to the library: {kind}")
    return {"type": str(kind.dtype), "ndim": kind.ndim, "writes": kind.mutable}


def _describe_result(kind: Any) -> dict[str, Any]:
    if hasattr(kind, "count"):
        return {"type": str(kind.dtype), "count": kind.count}
    return {"type": str(kind), "count": 0 if str(kind) == "none" else 1}


def _object_code(llvm: Any, module: Any, exported: set[str]) -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=os.environ["NUMBA_CPU_NAME"],
        features=os.environ["NUMBA_CPU_FEATURES"],
        opt=3,
        reloc="pic",
        codemodel="default",
    )
    # Everything but the loops is of use inside of them only: what calls the interpreter is removed.
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3)))
    missing = exported - {one.name for one in module.functions if not one.is_declaration}
    if missing:
        raise SystemExit(f"loops were not compiled: {', '.join(sorted(missing))}")
    code: bytes = machine.emit_object(module)
    return code


if __name__ == "__main__":
    main(sys.argv[1:])
