# SPDX-License-Identifier: MIT
"""stats.py - middles and spreads."""
import statistics


def median(values):
    return statistics.median(values)


def quartiles(values):
    """First and third, by the inclusive method: of three values, the middles
    between the median and the ends."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def figure(values, unit):
    """Median, and the middle half in brackets."""
    middle, (low, high) = median(values), quartiles(values)
    steps = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1)) \
        if unit == "B" else (("s", 1), ("ms", 1e-3), ("us", 1e-6))
    name, scale = next((s for s in steps if abs(middle) >= s[1]), steps[-1])

    def text(v):
        v /= scale
        return f"{v:.0f}" if abs(v) >= 100 else f"{v:.3g}"
    return f"{text(middle)} {name} [{text(low)}, {text(high)}]"
