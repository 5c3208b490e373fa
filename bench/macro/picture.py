# SPDX-License-Identifier: MIT
"""picture.py RESULTS.json OUT.svg - one panel for each work, in it one bar for
each contender and tree: the ratio of its median to the base's, on a logarithmic
scale; lines are the middle half. Exit code 77: there is no matplotlib."""
import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from macro import contenders, report, stats  # noqa: E402

try:
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit(77)

COLUMNS = 4
COLOURS = dict(zip((c.name for c in contenders.ALL), (
    "#222222", "#8c564b", "#9467bd", "#c5b0d5", "#e377c2", "#7f7f7f",
    "#2ca02c", "#98df8a", "#17becf", "#bcbd22", "#c7c7c7", "#ff9896",
    "#d62728")))


def panels(data):
    """{work: {tree: row}}"""
    found = {}
    for (tree, work), row in report.grouped(data).items():
        if len(row) > 1 and report.ratio(row, next(iter(row))) is not None:
            found.setdefault(work, {})[tree] = row
    return found


def bars(row):
    """(contender, ratio, low, high), all over the base's median."""
    base = stats.median(row[report.base_of(row)]["values"])
    for name, entry in row.items():
        values = [max(v, base * 1e-6) for v in entry["values"]]
        low, high = stats.quartiles(values)
        yield name, stats.median(values) / base, low / base, high / base


def draw(axes, work, by_tree):
    y, ticks, labels = 0, [], []
    for tree, row in by_tree.items():
        for name, middle, low, high in bars(row):
            axes.barh(y, middle - 1 if middle > 1 else 1 - middle,
                      left=min(1, middle), color=COLOURS[name], height=.8)
            axes.plot([low, high], [y, y], color="black", linewidth=.8)
            if middle == 1:
                axes.plot([1], [y], "|", color=COLOURS[name], markersize=7)
            axes.annotate(f"{middle:.3g}", (max(middle, high, 1), y),
                          xytext=(2, 0), textcoords="offset points",
                          va="center", fontsize=5)
            ticks.append(y)
            labels.append(f"{name}, {tree}" if len(by_tree) > 1 else name)
            y += 1
        y += .5
    axes.set_xscale("log")
    axes.axvline(1, color="#999999", linewidth=.5)
    axes.set_yticks(ticks, labels, fontsize=5)
    axes.tick_params(axis="x", labelsize=5, which="both")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.1, high * max(1.5, math.log10(high / low)))
    axes.invert_yaxis()
    base = report.base_of(next(iter(by_tree.values())))
    axes.set_title(f"{work} (1 = {base})", fontsize=7)


def main():
    data = json.loads(pathlib.Path(sys.argv[1]).read_text())
    found = panels(data)
    if not found:
        print("picture: nothing to draw", file=sys.stderr)
        return 1
    rows = -(-len(found) // COLUMNS)
    tall = max(sum(len(r) + .5 for r in by.values()) for by in found.values())
    figure, grid = plt.subplots(
        rows, COLUMNS, squeeze=False, layout="constrained",
        figsize=(4 * COLUMNS, rows * max(1.5, .11 * tall + .6)))
    flat = grid.flatten()
    for axes, (work, by_tree) in zip(flat, found.items()):
        draw(axes, work, by_tree)
    for axes in flat[len(found):]:
        axes.set_axis_off()
    m = data["machine"]
    figure.suptitle(f"Ratios, less is better. {m['date'][:10]}, {m['cpus']} x "
                    f"{m['cpu']}, Linux {m['kernel']}", fontsize=9)
    figure.savefig(sys.argv[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
