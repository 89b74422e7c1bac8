"""Examples in the docstrings of the public functions run, each in a folder with a dataset `events.lance`."""

import doctest
import inspect

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import MissingExtraError


def is_function(name: str) -> bool:
    try:
        return inspect.isfunction(getattr(lo, name))
    except MissingExtraError:
        # Where the tests run without Spark.
        return False


FUNCTIONS = [name for name in lo.__all__ if is_function(name)]


def events(first: int) -> pa.Table:
    ids = list(range(first, first + 5))
    vectors = pa.array([[float(number), 1.0, 2.0, 3.0] for number in ids], pa.list_(pa.float32(), 4))
    return pa.table(
        {"id": ids, "kind": [("a", "b")[number % 2] for number in ids], "price": ids, "vector": vectors}
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_function_runs(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    lo.append("events.lance", events(0))
    lo.append("events.lance", events(5))
    text = inspect.getdoc(getattr(lo, name))
    test = doctest.DocTestParser().get_doctest(text, {"lo": lo, "pa": pa}, name, None, None)
    assert test.examples, "every public function has an example"
    told: list[str] = []
    doctest.DocTestRunner().run(test, out=told.append)
    assert not told, "".join(told)
