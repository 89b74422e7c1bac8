"""Charts as small inline SVG: a line over time, and two series of bars side by side."""

from collections.abc import Sequence

from markupsafe import Markup

_EDGE = 3


def sparkline(
    values: Sequence[float],
    label: str,
    *,
    limit: float | None = None,
    width: int = 140,
    height: int = 32,
    from_zero: bool = False,
) -> Markup:
    """Draw a series as a line with the area below it and its last value marked, and its limit as a line.

    Args:
        values: Oldest first; a single value is a flat line.
        label: What it shows, for screen readers and on hover.
        limit: Of the same unit; None for none.
        width: In pixels of the drawing, which is scaled to its place.
        height: In pixels.
        from_zero: Start the axis at zero instead of the smallest value.
    """
    if not values:
        return Markup("")
    series = [*values, *values] if len(values) == 1 else list(values)
    scale = series if limit is None else [*series, limit]
    low, high = 0.0 if from_zero else min(scale), max(scale)
    step = (width - _EDGE) / (len(series) - 1)
    inner = height - 2 * _EDGE

    def y_of(value: float) -> float:
        # A constant lies in the middle.
        return _EDGE + (1 - ((value - low) / (high - low) if high > low else 0.5)) * inner

    points = [(position * step, y_of(value)) for position, value in enumerate(series)]
    x, y = points[-1]
    # A point on a level line between equal neighbours changes nothing.
    points = [
        point
        for before, point, after in zip([None, *points], points, [*points[1:], None], strict=False)
        if before is None or after is None or not before[1] == point[1] == after[1]
    ]
    # The outline of the area is outside of the drawing, so one element is line and area.
    outside = [(-_EDGE, height + _EDGE), (-_EDGE, points[0][1]), *points]
    outside += [(width + _EDGE, y), (width + _EDGE, height + _EDGE)]
    line = " ".join(f"{x:.0f},{y:.0f}" for x, y in outside)
    mark = Markup('<polyline points="{line}"/><path d="M{x:.0f} {y:.0f}h0"/>')
    drawn = mark.format(line=line, x=x, y=y)
    if limit is not None:
        drawn += Markup('<path d="M0 {y:.0f}h{width}"/>').format(y=y_of(limit), width=width)
    return _drawing(drawn, "spark", label, width, height)


def bars(
    first: Sequence[float], second: Sequence[float], label: str, *, width: int = 360, height: int = 56
) -> Markup:
    """Draw two series of the same unit and length as pairs of bars from a common base.

    Args:
        first: Oldest first, nothing below zero.
        second: As `first`.
        label: Title for screen readers and on hover.
        width: In pixels of the drawing, which is scaled.
        height: In pixels.
    """
    high = max([*first, *second], default=0) or 1
    step = width / max(len(first), 1)
    bar = step * 0.36
    paths = [
        "".join(
            f"M{position * step + left:.1f} {height}v-{max(value / high * (height - 1), 1):.1f}h{bar:.1f}"
            f"V{height}z"
            for position, value in enumerate(series)
            if value > 0
        )
        for series, left in ((first, step * 0.1), (second, step * 0.52))
    ]
    base = Markup('<path class="base" d="M0 {y}H{x}"/>').format(x=width, y=height - 0.5)
    drawn = Markup('<path class="a" d="{}"/><path class="b" d="{}"/>').format(*paths)
    return _drawing(base + drawn, "bars", label, width, height)


def _drawing(inner: Markup, kind: str, label: str, width: int, height: int) -> Markup:
    return Markup(
        '<svg class="{kind}" role="img" viewBox="0 0 {width} {height}" preserveAspectRatio="none">'
        "<title>{label}</title>{inner}</svg>"
    ).format(inner=inner, kind=kind, label=label, width=width, height=height)
