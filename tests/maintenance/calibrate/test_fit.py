"""The fit of coefficients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.maintenance.calibrate.fit import fit, nonnegative_least_squares

NAMES = ("task", "file", "byte")


def test_coefficients_are_found_again_from_what_they_make():
    true = {"task": 5e-3, "file": 2e-3, "byte": 3e-9}
    work = [
        {"task": 1.0, "file": float(files), "byte": float(size)}
        for files, size in ((1, 0), (50, 1000), (4, 1 << 24), (20, 1 << 22), (2, 1 << 26))
    ]
    seconds = [sum(true[name] * item[name] for name in NAMES) for item in work]
    before = {"task": 1e-3, "file": 1e-2, "byte": 1e-9}
    found = fit(work, seconds, before)
    for name in NAMES:
        assert found[name] == pytest.approx(true[name], rel=0.05)


def test_a_unit_that_nobody_measured_keeps_what_was_known():
    found = fit([{"a": 1.0, "b": 0.0}], [2.0], {"a": 1.0, "b": 0.25})
    assert found["b"] == 0.25
    assert found["a"] == pytest.approx(2.0, rel=0.01)
    assert fit([], [], {"a": 1.0}) == {"a": 1.0}


@settings(max_examples=100)
@given(st.integers(1, 5), st.integers(1, 8), st.integers(0, 10**6))
def test_no_coefficient_is_below_zero_and_none_alone_makes_it_better(columns, rows, seed):
    draw = np.random.default_rng(seed)
    matrix, wanted = draw.normal(size=(rows, columns)), draw.normal(size=rows)
    found = nonnegative_least_squares(matrix, wanted)
    assert (found >= 0).all()
    gradient = matrix.T @ (wanted - matrix @ found)
    assert (gradient <= 1e-6).all()
    assert abs(gradient @ found) <= 1e-6
