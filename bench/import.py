#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""import.py [-o DIR] [--tree DIR]... [--rounds N] [--million] - what importing
costs, against `cp -a` and `sync -f` of the same tree on the same disk.

The tree is made of copies of the given folders, taken again in turn until it
has 60,000 files. Each round: the copy, an import into a new store, one without
changes, one after a byte more in one file; the copy is first in one round and
last in the next, and all that was written is synced before a clock starts.
With --million also a tree of 1,000,000 small files: time and memory.

Prints a Markdown table, and writes it and the figures into DIR (bench/out).
Scratch (--scratch) must have room for the tree three times.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/support"))
import mountpoint  # noqa: E402
import report  # noqa: E402

FILES = 60000
# name: (what it is, the most it may take of the copy's time)
STEPS = {
    "copy": ("`cp -a` and `sync -f`", None),
    "first": ("first import", 1.0),
    "again": ("import again, nothing changed", 0.25),
    "one": ("import again, one file changed", None),
}


def count(top):
    files = dirs = 0
    for _, below, names in os.walk(top):
        files += len(names)
        dirs += len(below)
    return files, dirs


def sync(path):
    subprocess.run(["sync", "-f", path], check=True)


def clocked(argv):
    """Runs a command; returns seconds, output, peak memory in bytes."""
    begin = time.monotonic()
    child = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE)
    out = child.stdout.read()
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.monotonic() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{argv}: exit code {child.returncode}")
    return seconds, out, usage.ru_maxrss * 1024


class Bench:
    def __init__(self, scratch):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="cowfs-bench-",
                                                 dir=scratch))
        self.tree = self.top / "tree"
        self.store = self.top / "store"
        self.binary = mountpoint.binary()
        self.times = {name: [] for name in STEPS}
        self.stored = []
        self.peak = 0

    def make_tree(self, sources):
        """Copies sources in turn until there are enough files."""
        self.tree.mkdir()
        n = files = 0
        while files < FILES:
            to = self.tree / f"part{n}"
            subprocess.run(["cp", "-a", sources[n % len(sources)], to],
                           check=True)
            files += count(to)[0]
            n += 1
        self.files, self.dirs = count(self.tree)
        self.victim = next(p for p in sorted(self.tree.rglob("*.js"))
                           if p.is_file() and not p.is_symlink())
        self.depth = len(self.victim.relative_to(self.tree).parts)

    def load(self):
        seconds, out, peak = clocked([self.binary, "--store", self.store,
                                      "--json", "import", self.tree])
        self.peak = max(self.peak, peak)
        row = json.loads(out)
        return seconds, row[0] if isinstance(row, list) else row

    def copy(self):
        to = self.top / "copy"
        sync(self.top)
        begin = time.monotonic()
        subprocess.run(["cp", "-a", self.tree, to], check=True)
        sync(to)
        self.times["copy"].append(time.monotonic() - begin)
        shutil.rmtree(to)

    def imports(self):
        shutil.rmtree(self.store, ignore_errors=True)
        time.sleep(0.5)  # what was changed last is old enough
        sync(self.top)
        seconds, first = self.load()
        self.times["first"].append(seconds)
        sync(self.top)
        seconds, again = self.load()
        self.times["again"].append(seconds)
        assert again["id"] == first["id"] and again["stored_bytes"] == 0
        with open(self.victim, "a") as f:
            f.write(" ")
        sync(self.top)
        seconds, one = self.load()
        self.times["one"].append(seconds)
        assert one["id"] != first["id"]
        assert again["unchanged"] == one["unchanged"] + 1
        self.stored.append(one["stored_bytes"])

    def run(self, rounds):
        count(self.tree)
        for i in range(rounds):
            for step in ([self.copy, self.imports] if i % 2 == 0
                         else [self.imports, self.copy]):
                step()
            print(f"round {i + 1}: " + ", ".join(
                f"{n} {t[-1]:.2f}" for n, t in self.times.items()),
                file=sys.stderr, flush=True)

    def table(self):
        base = statistics.median(self.times["copy"])
        lines = [f"{self.files:,} files in {self.dirs:,} directories, "
                 f"{len(self.times['copy'])} rounds, medians in seconds.", "",
                 "| what | median | all rounds | of the copy | at most |",
                 "|---|---:|---|---:|---:|"]
        for name, (what, most) in STEPS.items():
            median = statistics.median(self.times[name])
            spread = " ".join(f"{t:.2f}" for t in sorted(self.times[name]))
            lines.append(f"| {what} | {median:.2f} | {spread} | "
                         f"{median / base:.2f} | {most or ''} |")
        lines += ["", f"One file changed, {self.depth} directories deep: "
                  f"{max(self.stored):,} bytes stored. Peak memory: "
                  f"{self.peak / 2**20:.0f} MiB."]
        return lines


def make_million(top):
    """1,000 directories of 1,000 files, no two alike."""
    for d in range(1000):
        folder = top / f"{d % 10}/{d}"
        folder.mkdir(parents=True)
        for i in range(1000):
            with open(folder / f"file{i:04}", "w") as f:
                f.write(f"{d} {i}\n" * (1 + i % 40))


def million(bench):
    bench.tree = bench.top / "million"
    shutil.rmtree(bench.store, ignore_errors=True)
    bench.tree.mkdir()
    make_million(bench.tree)
    time.sleep(0.5)
    sync(bench.top)
    lines = ["", "| 1,000,000 small files | seconds | peak memory, MiB |",
             "|---|---:|---:|"]
    ids = set()
    for what in ("first import", "import again, nothing changed"):
        bench.peak = 0
        seconds, row = bench.load()
        ids.add(row["id"])
        lines.append(f"| {what} | {seconds:.1f} | "
                     f"{bench.peak / 2**20:.0f} |")
    assert len(ids) == 1
    return lines


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("-o", "--out", type=pathlib.Path, default=HERE / "out")
    p.add_argument("--tree", type=pathlib.Path, action="append", default=[])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--scratch", default=None)
    p.add_argument("--million", action="store_true")
    args = p.parse_args()
    if not args.tree and not args.million:
        p.error("--tree or --million is needed")
    bench = Bench(args.scratch)
    try:
        lines = []
        if args.tree:
            bench.make_tree(args.tree)
            bench.run(args.rounds)
            lines += bench.table()
        if args.million:
            lines += million(bench)
    finally:
        shutil.rmtree(bench.top, ignore_errors=True)
    report.write(args.out, "import", "\n".join(lines) + "\n",
                 times=bench.times, stored=bench.stored)


if __name__ == "__main__":
    main()
