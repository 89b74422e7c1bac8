"""The fronts of kernels: compiled loops do what their references do, and nothing else loads a kernel."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_ops.encoding import kernels, reference
from lance_ops.encoding.kernels import fronts
from tests.encoding.kernels.cases import CASES, Case, technique_of

# There is no reference: their callers do without them where there is no compiler.
_COMPILED_ONLY = {
    "chunks.measure_values",
    "fsst.encode",
    "fsst.merge",
    "fsst.recode",
    "fsst.train",
    "index.posting_lists",
    "index.roaring",
    "pages.page_copy.keep_strings",
    "pages.picking",
    "pages.picking_lists",
    "values.jsonb",
    "wire",
}

# The shape of each array of numpy's, whatever its values are.
_ANY_SHAPE = "tuple[typing.Any, ...]"


def modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(fronts.__path__, f"{fronts.__name__}.")
    return [importlib.import_module(one.name) for one in found if not one.ispkg]


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
def test_a_compiled_loop_does_what_its_reference_does(case: Case, data: st.DataObject) -> None:
    arguments = data.draw(case.arguments)
    compiled = case.run(arguments)
    with kernels.disabled():
        expected = case.run(arguments)
    assert compiled == expected


def test_each_front_with_a_reference_is_compared_with_it() -> None:
    compared = {str(case) for case in CASES} | _COMPILED_ONLY
    for module in modules():
        technique = technique_of(module.__name__)
        own = {f"{technique}.{name}" for name in functions(module) if name != "available"}
        if technique not in _COMPILED_ONLY:
            assert own <= compared


def test_a_front_takes_keywords_and_states_all_types() -> None:
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


def test_only_fronts_call_kernels() -> None:
    fronts_folder = Path(fronts.__file__).parent
    package = fronts_folder.parents[2]
    loading = re.compile(r"encoding\.kernels import .*\bload\b|\bkernels\.load\(")
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if not path.is_relative_to(fronts_folder) and loading.search(path.read_text())
    }
    # They call nothing, but compile or load techniques by their names.
    assert found == {"cli/warmup.py", "spark/daemon.py"}


def test_fronts_and_references_lie_in_the_rooms_of_their_kernels() -> None:
    inside = f"{reference.__name__}."
    found = pkgutil.walk_packages(reference.__path__, inside)
    references = {one.name.removeprefix(inside) for one in found if not one.ispkg}
    called = {technique_of(module.__name__) for module in modules()}
    assert called <= set(kernels.names())
    # What several references share stands for none of the kernels.
    assert references - {"ranges"} <= called


def test_what_a_front_answers_is_what_the_kernel_answers() -> None:
    """Numbers that stand for something are written down twice: kernels import nothing that changes."""
    for module in modules():
        compiled = kernels.load(technique_of(module.__name__))
        for name, value in vars(module).items():
            if name.isupper() and name[0] != "_":
                assert getattr(compiled, name, getattr(compiled, f"_{name}", value)) == value, (module, name)
