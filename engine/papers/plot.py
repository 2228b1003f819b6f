"""Lines as an SVG plot, written by hand: no plotting library for a picture in a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 34, 40
# Okabe–Ito colours: told apart by everybody; on white, so that it reads in dark themes too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


def svg(
    title: str,
    series: Mapping[str, Sequence[float]],
    x: str,
    y: str,
    *,
    first: int = 1,
    names: Sequence[str] = (),
) -> str:
    """One line for each series; `first` is what the first point is called, or all have `names`."""
    most = max((max(values) for values in series.values() if values), default=1.0) or 1.0
    longest = max((len(values) for values in series.values()), default=1)
    step = _step(most)
    top = step * (int(most / step) + 1)

    def at(index: int, value: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * index / max(1, longest - 1)
        return across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="#222"><title>{escape(title)}</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(LEFT, 20, f"{title}: {y}"),
    ]
    for n in range(int(top / step) + 1):
        height = at(0, n * step)[1]
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}" stroke="#ddd"/>'
        )
        parts.append(_text(LEFT - 8, height + 4, _short(n * step), "end"))
    parts += [
        _text(
            at(index, 0)[0],
            HEIGHT - BOTTOM + 18,
            names[index] if names else str(index + first),
            "middle",
        )
        for index in range(0, longest, max(1, longest // 8))
    ]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x, "middle"))
    for row, (name, values) in enumerate(series.items()):
        colour = COLOURS[row % len(COLOURS)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in (at(i, v) for i, v in enumerate(values)))
        legend = TOP + 14 + 20 * row
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(
            f'<rect x="{WIDTH - RIGHT + 14}" y="{legend - 9}" width="12" height="12" fill="{colour}"/>'
        )
        parts.append(_text(WIDTH - RIGHT + 32, legend + 1, name))
    return "\n".join([*parts, "</svg>", ""])


def _step(most: float) -> float:
    step = 10.0 ** len(str(int(most))) / 100
    for factor in (1, 2, 5, 10, 20, 50, 100):
        if most / (step * factor) <= 6:
            return step * factor
    return most


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
