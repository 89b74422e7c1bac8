"""Fit: coefficients that are no less than zero, from work and the seconds that it took. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_TRUST = 0.03
"""Weight of what was known before: it decides where the measurements say little."""


def fit(
    work: Sequence[Mapping[str, float]], seconds: Sequence[float], before: Mapping[str, float]
) -> dict[str, float]:
    """Coefficients whose sums come close to what was measured, by shares of that.

    Args:
        work: How much of each unit every measurement did.
        seconds: What each took.
        before: The coefficients as they were; a unit that no measurement has keeps its own.

    Returns:
        A coefficient for each unit.
    """
    names = list(before)
    known = np.array([before[name] for name in names], np.float64)
    scale = np.where(known > 0, known, 1e-12)
    taken = np.array(seconds, np.float64)
    units = np.array([[item[name] for name in names] for item in work], np.float64).reshape(-1, len(names))
    # Rows are shares of what was measured, columns shares of what was known: all of one size.
    rows = units * scale / taken[:, None]
    rows = np.vstack([rows, _TRUST * np.eye(len(names))])
    wanted = np.concatenate([np.ones(len(taken)), np.full(len(names), _TRUST)])
    found = nonnegative_least_squares(rows, wanted) * scale
    chosen = np.where(units.sum(axis=0) > 0, found, known)
    return {name: float(value) for name, value in zip(names, chosen, strict=True)}


def nonnegative_least_squares(rows: FloatArray, wanted: FloatArray) -> FloatArray:
    """The x >= 0 with the least squares of `rows @ x - wanted`, by the active sets of Lawson and Hanson.

    Args:
        rows: m x n.
        wanted: m.

    Returns:
        n numbers.
    """
    count = rows.shape[1]
    found, free = np.zeros(count), np.zeros(count, bool)
    tolerance = 1e-10 * float(np.abs(rows).sum() or 1.0)
    for _ in range(10 * count):
        gradient = rows.T @ (wanted - rows @ found)
        if free.all() or (gradient[~free] <= tolerance).all():
            break
        free[int(np.argmax(np.where(free, -np.inf, gradient)))] = True
        while True:
            trial = np.zeros(count)
            trial[free] = np.linalg.lstsq(rows[:, free], wanted, rcond=None)[0]
            if (trial[free] > 0).all():
                found = trial
                break
            # As far towards the trial as all stay above zero; those that reach it are bound again.
            falling = free & (trial <= 0)
            step = float(np.min(found[falling] / (found[falling] - trial[falling])))
            found = found + step * (trial - found)
            free &= found > 1e-15
            found[~free] = 0.0
    return found
