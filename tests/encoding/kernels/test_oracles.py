"""Kernels: compiled loops do what their oracles do, and functions state their types."""

import inspect
import re
from types import FunctionType, ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_ops.encoding import kernels
from tests.encoding.kernels.cases import CASES, Case, technique_of
from tests.support.oracles import oracle_of, techniques

_WITHOUT_ORACLE = {
    "chunks.measure_values",
    "fsst.encode",
    "fsst.merge",
    "fsst.recode",
    "fsst.train",
    "index.roaring",
    "pages.page_copy.keep_strings",
    "pages.picking",
    "pages.picking_lists",
    "values.jsonb",
    "wire",
    "index.posting_lists",
}
"""Compared elsewhere: with what they undo, with numpy on many blocks, or with the message library."""

# The shape of each array of numpy's, whatever its values are.
_ANY_SHAPE = "tuple[typing.Any, ...]"


def modules() -> list[ModuleType]:
    return [kernels.load(name) for name in kernels.names()]


def functions(module: ModuleType) -> dict[str, FunctionType]:
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__ and name[0] != "_"
    }


@pytest.mark.parametrize("case", CASES, ids=str)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(data=st.data())
def test_a_compiled_loop_does_what_its_oracle_does(case: Case, data: st.DataObject) -> None:
    arguments = data.draw(case.arguments)
    assert case.run(arguments, case.function) == case.run(arguments, oracle_of(case.function))


def test_each_function_is_compared_with_an_oracle() -> None:
    compared = {str(case) for case in CASES} | _WITHOUT_ORACLE
    for module in modules():
        technique = technique_of(module.__name__)
        own = {f"{technique}.{name}" for name in functions(module)}
        if technique not in _WITHOUT_ORACLE:
            assert own <= compared


def test_each_oracle_has_a_kernel() -> None:
    assert techniques() <= set(kernels.names())


def test_functions_take_keywords_and_states_all_types() -> None:
    for module in modules():
        for name, function in functions(module).items():
            signature = inspect.signature(function, eval_str=False)
            where = f"{module.__name__}.{name}"
            assert function.__doc__, where
            assert signature.return_annotation is not inspect.Signature.empty, where
            returned = inspect.formatannotation(signature.return_annotation)
            assert "Any" not in returned.replace(_ANY_SHAPE, "shape"), where
            for parameter in signature.parameters.values():
                assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, where
                assert parameter.annotation is not inspect.Parameter.empty, where
            assert not re.search(r"\bAny\b", inspect.getsource(function).split('"""')[0]), where
