"""Sparkline: a series of numbers as a small inline SVG."""

from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT, _EDGE = 140, 32, 3


def sparkline(values: Sequence[float], label: str, *, width: int = _WIDTH, height: int = _HEIGHT) -> Markup:
    """Draw a series; its last value is marked. A single value is a flat line.

    Args:
        values: Oldest first.
        label: What it shows, for people who do not see it.
        width: In pixels.
        height: In pixels.
    """
    if not values:
        return Markup("")
    series = [*values, *values] if len(values) == 1 else list(values)
    low, high = min(series), max(series)
    span = (high - low) or 1.0
    step = (width - 2 * _EDGE) / (len(series) - 1)
    floor = height - _EDGE
    # What never changes lies in the middle.
    points = [
        (
            _EDGE + position * step,
            height / 2 if high == low else floor - (value - low) / span * (height - 2 * _EDGE),
        )
        for position, value in enumerate(series)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{height} {line} {points[-1][0]:.1f},{height}"
    x, y = points[-1]
    return Markup(
        '<svg class="spark" role="img" aria-label="{label}" viewBox="0 0 {width} {height}" width="{width}" '
        'height="{height}"><title>{label}</title><polygon points="{area}"/><polyline points="{line}"/>'
        '<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/></svg>'
    ).format(label=label, width=width, height=height, area=area, line=line, x=x, y=y)
