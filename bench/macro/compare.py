# SPDX-License-Identifier: MIT
"""compare.py - two runs, and what of their differences is more than noise."""
import argparse
import json
import pathlib
import sys

from macro import stats

FEWEST = 3  # values: below there is no spread to speak of


def share(text):
    number = float(text.removesuffix("%"))
    if not 0 < number < 1000:
        raise ValueError(text)
    return number / 100 if text.endswith("%") else number


def load(path):
    """The mode, and {(tree, work, contender): (unit, values)}"""
    data = json.loads(pathlib.Path(path).read_text())
    if data.get("v") != 1:
        raise ValueError("not version 1 of results.json")
    return data["mode"], {
        (r["tree"], r["work"], r["contender"]):
        (r["unit"], [float(v) for v in r["values"]])
        for r in data["results"]}


def changed(a, b, threshold):
    """The change of the median as a share of a's; None when it is noise."""
    low, high = sorted((stats.median(a), stats.median(b)))
    if high - low <= threshold * abs(stats.median(a)):
        return None
    (a_low, a_high), (b_low, b_high) = stats.quartiles(a), stats.quartiles(b)
    if a_low <= b_high and b_low <= a_high:
        return None
    base = stats.median(a)
    return (stats.median(b) - base) / abs(base) if base else float("inf")


def compare(a, b, threshold, say):
    """Tells what changed; returns whether anything got worse."""
    worse = few = 0
    for key in [*a, *(k for k in b if k not in a)]:
        name = ", ".join(key)
        if key not in a or key not in b:
            say(f"only in {'A' if key in a else 'B'}: {name}")
            continue
        (unit, old), (_, new) = a[key], b[key]
        if min(len(old), len(new)) < FEWEST:
            few += 1
            continue
        by = changed(old, new, threshold)
        if by is not None:
            worse += by > 0
            say(f"{'worse' if by > 0 else 'better'}: {name}: "
                f"{stats.figure(old, unit)} -> {stats.figure(new, unit)}, "
                f"{by:+.0%}")
    if few:
        print(f"compare: {few} not judged, of fewer than {FEWEST} rounds",
              file=sys.stderr)
    return worse > 0


def main(doc, argv=None):
    ap = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("a", metavar="A.json")
    ap.add_argument("b", metavar="B.json")
    ap.add_argument("--threshold", type=share, default=.1, metavar="10%")
    ap.add_argument("--contender", help="only this one")
    args = ap.parse_args(argv)
    try:
        (mode, a), (other, b) = map(load, (args.a, args.b))
        if mode != other:
            raise ValueError("a quick run is not compared with a full one")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        print(f"compare: {e}", file=sys.stderr)
        return 2
    if args.contender:
        a, b = ({k: v for k, v in run.items() if k[2] == args.contender}
                for run in (a, b))
    return int(compare(a, b, args.threshold, print))
