"""A plot with two logarithmic axes, as SVG."""

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, WIDE, HIGH = 640, 450, 80, 24, 530, 350
COLORS = ("#0072b2", "#d55e00", "#009e73", "#555555")


def decades(values: Iterable[float]) -> tuple[int, int]:
    """The powers of ten around positive values."""
    logs = [math.log10(v) for v in values]
    low, high = math.floor(min(logs) + 1e-9), math.ceil(max(logs) - 1e-9)
    return low, max(high, low + 1)


def log_log(title: str, x_label: str, y_label: str, curves: Sequence[tuple[str, Sequence[tuple[float, float]]]],
            levels: Sequence[tuple[str, float]] = (), floor: float | None = None) -> str:
    """`curves` are (name, [(x, y)]), `levels` are (name, y); what is 0 is drawn at `floor`, hollow."""
    drawn = [y for _, points in curves for _, y in points if y > 0] + [y for _, y in levels if y > 0] + ([floor] if floor else [])
    (x0, x1), (y0, y1) = decades([x for _, points in curves for x, _ in points]), decades(drawn)

    def at_x(x: float) -> float:
        return LEFT + (math.log10(x) - x0) / (x1 - x0) * WIDE

    def at_y(y: float) -> float:
        return TOP + HIGH - (math.log10(y or floor or 0) - y0) / (y1 - y0) * HIGH

    t = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
         f"<title>{escape(title)}</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for power in range(x0, x1 + 1):
        x = at_x(10.0 ** power)
        t += [f'<path d="M{x:.1f} {TOP}V{TOP + HIGH}" stroke="#ddd"/>',
              f'<text x="{x:.1f}" y="{TOP + HIGH + 18}" text-anchor="middle">{10.0 ** power:g}</text>']
    for power in range(y0, y1 + 1):
        y = at_y(10.0 ** power)
        t += [f'<path d="M{LEFT} {y:.1f}H{LEFT + WIDE}" stroke="#ddd"/>',
              f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** power:g}</text>']
    t += [f'<text x="{LEFT + WIDE / 2}" y="{TOP + HIGH + 40}" text-anchor="middle">{escape(x_label)}</text>',
          f'<text transform="translate(20 {TOP + HIGH / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>']
    legend = []
    for index, (name, y) in enumerate(levels):
        color, dash = COLORS[-1 - index % 2], "6 4"
        t.append(f'<path d="M{LEFT} {at_y(y):.1f}H{LEFT + WIDE}" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}"/>')
        legend.append((name, color, dash))
    for index, (name, points) in enumerate(curves):
        color = COLORS[index % 3]
        line = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        t.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        t += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="4" fill="{color if y else "white"}" stroke="{color}">'
              f"<title>{escape(name)}: {x:g}, {y:g}</title></circle>" for x, y in points]
        legend.append((name, color, "none"))
    for index, (name, color, dash) in enumerate(legend):
        y = TOP + HIGH - 20 - 18 * (len(legend) - 1 - index)
        t += [f'<path d="M{LEFT + 14} {y}h26" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}"/>',
              f'<text x="{LEFT + 46}" y="{y + 4}">{escape(name)}</text>']
    return "\n".join(t) + "\n</svg>\n"
