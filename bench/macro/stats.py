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


def shown(values, unit):
    """They as texts of one unit, that of the first; and its name."""
    steps = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1)) \
        if unit == "B" else (("s", 1), ("ms", 1e-3), ("us", 1e-6))
    name, scale = next((s for s in steps if abs(values[0]) >= s[1]), steps[-1])
    scaled = [v / scale for v in values]
    return [f"{v:.0f}" if abs(v) >= 100 else f"{v:.3g}" for v in scaled], name


def middle(values, unit):
    """Median."""
    (text,), name = shown([median(values)], unit)
    return f"{text} {name}"


def figure(values, unit):
    """Median, and the middle half in brackets."""
    (text, low, high), name = shown(
        [median(values), *quartiles(values)], unit)
    return f"{text} {name} [{low}, {high}]"
