"""Tick seconds as an SVG line plot, written by hand: no plotting library for one picture."""

from __future__ import annotations

from html import escape

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 150, 34, 40
# Okabe–Ito colours: told apart by everybody; on white, so that it reads in dark themes too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def _steps(most: float) -> list[float]:
    for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500):
        if most / step <= 6:
            return [step * i for i in range(int(most / step) + 2)]
    return [0, most]


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _series(points: list[tuple[float, float]], name: str, colour: str, row: int) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    legend_y = TOP + 14 + 20 * row
    legend_x = WIDTH - RIGHT + 14
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *dots,
        f'<rect x="{legend_x}" y="{legend_y - 9}" width="12" height="12" fill="{colour}"/>',
        _text(legend_x + 18, legend_y + 1, name),
    ]


def svg(title: str, series: dict[str, list[float]], unit: str = " s") -> str:
    """One line per series: seconds of tick 2, 3, … (the first tick is cold and left out)."""
    most = max((max(values) for values in series.values() if values), default=1.0)
    longest = max((len(values) for values in series.values()), default=1)
    steps = _steps(most)
    top = steps[-1] or 1.0

    def x_of(index: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * index / max(1, longest - 1)

    def y_of(seconds: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * seconds / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="#222"><title>{escape(title)}</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(LEFT, 20, title),
    ]
    for step in steps:
        y = y_of(step)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        )
        parts.append(_text(LEFT - 8, y + 4, f"{step:g}{unit}", "end"))
    every = max(1, longest // 10)
    for index in range(0, longest, every):
        parts.append(_text(x_of(index), HEIGHT - BOTTOM + 18, str(index + 2), "middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "tick", "middle"))
    for row, (name, values) in enumerate(series.items()):
        points = [(x_of(index), y_of(value)) for index, value in enumerate(values)]
        parts += _series(points, name, COLOURS[row % len(COLOURS)], row)
    return "\n".join([*parts, "</svg>", ""])
