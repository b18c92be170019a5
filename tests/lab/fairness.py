"""Fair shares of what is scarce, and how near to them a division is."""

from collections.abc import Sequence


def max_min(wanted: Sequence[float], room: float) -> list[float]:
    """Max-min fair shares: who wants less than an even part gets that, and the others share what is left."""
    left = len(wanted)
    for one in sorted(wanted):
        if one * left >= room:
            break
        room, left = room - one, left - 1
    return [min(one, room / left) if left else one for one in wanted]


def jain(parts: Sequence[float]) -> float:
    """Jain's index: 1 if all are the same, 1/n if one has all."""
    return sum(parts) ** 2 / (len(parts) * sum(p * p for p in parts) or 1)
