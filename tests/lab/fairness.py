"""Max-min fair shares of a capacity, and the fairness of given shares."""

from collections.abc import Sequence


def max_min(wanted: Sequence[float], room: float) -> list[float]:
    """Max-min fair shares: a request below an equal part is satisfied, and the others share the rest equally."""
    left = len(wanted)
    for one in sorted(wanted):
        if one * left >= room:
            break
        room, left = room - one, left - 1
    return [min(one, room / left) if left else one for one in wanted]


def jain(parts: Sequence[float]) -> float:
    """Jain's index: 1 if all shares are equal, 1/n if one has everything."""
    return sum(parts) ** 2 / (len(parts) * sum(p * p for p in parts) or 1)
