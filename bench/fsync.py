#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fsync.py [-o DIR] [--rounds N] [--only WORD,...] [--off COWFS] - what it
costs that nothing is lost.

fsyncs, SQLite transactions, and changes of names and attributes, in rounds that
take each contender in turn, so that what slows the machine down for a while
slows all of them. --off is a cowfs that was built with -DCOWFS_JOURNAL=OFF: what
the journal costs. Last, how long a stat takes while another process fsyncs.

Prints a Markdown table, and writes it and the figures into DIR (bench/out).
Every access to a FUSE mount is made by a child under a time limit. As root.
README.md beside this file has the method and its traps.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import lines
import mountpoint
import report

PYTHON = sys.executable
HEAD = """
import os, sys, time, sqlite3
clock = time.perf_counter_ns
def syncs(n, at):
    fd = os.open('f', os.O_RDWR | os.O_CREAT)
    took = []
    for i in range(n):
        block = os.urandom(4096)
        t = clock(); os.pwrite(fd, block, at(i)); os.fsync(fd)
        took.append(clock() - t)
    os.close(fd)
    return sorted(took)[n // 2]
def sqlite(mode):
    db = sqlite3.connect('db', isolation_level=None)
    db.execute(f'pragma journal_mode={mode}')
    db.execute('pragma synchronous=full')
    db.execute('create table t (id integer primary key, v text)')
    t = clock()
    for i in range(MANY):
        db.execute('begin'); db.execute('insert into t (v) values (?)',
                                        ('x' * 100,)); db.execute('commit')
    took = clock() - t
    db.close(); os.system('rm -f db*')
    return took
N = 20000
def names():
    os.mkdir('n')
    def create():
        for i in range(N): os.close(os.open(f'n/{i}', os.O_CREAT | os.O_WRONLY))
    def chmod():
        for i in range(N): os.chmod(f'n/{i}', 0o600)
    def rename():
        for i in range(N): os.rename(f'n/{i}', f'n/r{i}')
    def unlink():
        for i in range(N): os.unlink(f'n/r{i}')
    took = {}
    for f in (create, chmod, rename, unlink):
        t = clock(); f(); took[f.__name__] = clock() - t
    os.rmdir('n')
    return took
"""
# name: (source that sets T, or a dict of names to times; contenders without)
SYNCED = {
    "4 KiB append and fsync, each": "T = syncs(200, lambda i: i * 4096)",
    "4 KiB overwrite and fsync, each":
        "T = syncs(200, lambda i: i * 7 % 200 * 4096)",
    "SQLite transactions, WAL": "T = sqlite('wal')",
    "SQLite transactions, DELETE": "T = sqlite('delete')",
}
NAMES = {"20,000 files": "T = names()"}
LATENCY = """
import os, sys, time
child = os.fork()
if child == 0:
    fd = os.open('other', os.O_RDWR | os.O_CREAT)
    for i in range(100):
        if BUSY:
            os.pwrite(fd, os.urandom(4096), i * 4096); os.fsync(fd)
        else:
            time.sleep(.004)
    os._exit(0)
took, i = [], 0
while os.waitpid(child, os.WNOHANG)[0] == 0:
    i += 1
    t = time.perf_counter_ns()
    try: os.stat(f'no-{BUSY}-{ROUND}-{i}') # the kernel knows nothing of it: a message
    except FileNotFoundError: pass
    took.append(time.perf_counter_ns() - t)
took.sort()
print(took[len(took) // 2], took[len(took) * 99 // 100], took[-1], len(took))
"""


class Off(lines.Cowfs):
    name = "journal off"

    def up(self):
        return pathlib.Path(self.bench.off.mount("base", "work"))

    def down(self):
        self.bench.off.run("umount", "work", "--discard")


class Bench:
    def __init__(self, args):
        self.args = args
        self.scratch = pathlib.Path(tempfile.mkdtemp(
            prefix="cowfs-bench-", dir=args.scratch))
        self.base = self.scratch / "base"
        self.base.mkdir()
        (self.base / "a").write_text("a\n")
        self.store = self.new_store("s", mountpoint.binary())
        self.off = self.new_store("off", args.off) if args.off else None

    def new_store(self, name, program):
        (self.scratch / name).mkdir()
        os.environ["COWFS_BIN"] = str(program)
        store = mountpoint.Store(self.scratch / name)
        store.run("import", self.base, "-t", "base")
        store.mount("base", "keeps-the-server")
        return store

    def run(self, where, source, limit=600):
        out = lines.sh(f'"$1" -c "$2"', where, limit,
                       args=[PYTHON, source])
        return out.strip()

    def measure(self, kinds, tasks):
        found = {}
        for i in range(self.args.rounds):
            for kind in kinds[i % len(kinds):] + kinds[:i % len(kinds)]:
                contender = kind(self)
                where = contender.up()
                try:
                    for task, source in tasks.items():
                        self.take(found, kind.name, task, self.run(
                            where, f"MANY = {self.args.transactions}" + HEAD +
                            source + "\nprint(T)"))
                finally:
                    contender.down()
                print(f"round {i + 1}: {kind.name}", file=sys.stderr)
        return found

    @staticmethod
    def take(found, name, task, out):
        times = eval(out, {"__builtins__": {}})  # a number or a dict of them
        if not isinstance(times, dict):
            times = {task: times}
        else:
            times = {f"{k}, {task}": v for k, v in times.items()}
        for k, v in times.items():
            found.setdefault(k, {}).setdefault(name, []).append(v / 1e9)

    def latency(self):
        contender = lines.Cowfs(self)
        where = contender.up()
        rows = {"idle": [], "busy": []}
        try:
            for i in range(self.args.rounds):
                for busy, key in ((0, "idle"), (1, "busy")):
                    out = self.run(where, f"BUSY, ROUND = {busy}, {i}" +
                                   LATENCY)
                    rows[key].append([int(v) / 1e3 for v in out.split()])
        finally:
            contender.down()
        return rows

    def close(self):
        wrong = []
        for store in filter(None, (self.store, self.off)):
            wrong += store.close()
        subprocess.run(["rm", "-rf", "--one-file-system", self.scratch])
        return wrong


def table(synced, names, latency):
    out = []
    for found, other in ((synced, "ext4"), (names, "journal off")):
        if not found:
            continue
        who = list(next(iter(found.values())))
        rest = " | cowfs / fuse-overlayfs |" if other == "ext4" else " |"
        out += ["", "| work | " + " | ".join(who) +
                f" | cowfs / {other}{rest}",
                "|" + "---|" * (len(who) + 2 + (other == "ext4"))]
        for task, row in found.items():
            line = f"| {task} | " + " | ".join(
                lines.figure(row.get(n)) for n in who) + \
                f" | {lines.ratio(row.get('cowfs'), row.get(other))} |"
            if other == "ext4":
                line += " %s |" % lines.ratio(row.get("cowfs"),
                                              row.get("fuse-overlayfs"))
            out.append(line)
    if latency:
        out += ["", "| stat of a name that is not there, us | median | 99th "
                "percentile |", "|---|---|---|"]
        for key, what in (("idle", "while another process sleeps"),
                          ("busy", "while another process does 100 fsyncs")):
            p50, p99 = (statistics.median(r[i] for r in latency[key])
                        for i in (0, 1))
            out.append(f"| {what} | {p50:.0f} | {p99:.0f} |")
    return "\n".join(out[1:]) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("-o", type=pathlib.Path, default=lines.HERE / "out")
    ap.add_argument("--scratch", default=None, help="on ext4")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--transactions", type=int, default=1000)
    ap.add_argument("--only", default="", help="words of tasks")
    ap.add_argument("--off", type=pathlib.Path,
                    help="a cowfs built with -DCOWFS_JOURNAL=OFF")
    args = ap.parse_args()

    def chosen(tasks):
        return {t: v for t, v in tasks.items() if not args.only or
                any(w in t for w in args.only.split(","))}

    bench = Bench(args)
    synced, names, latency = {}, {}, {}
    try:
        if chosen(SYNCED):
            synced = bench.measure(
                [lines.Native, lines.FuseOverlay, lines.Cowfs],
                chosen(SYNCED))
        if chosen(NAMES):
            names = bench.measure([lines.Cowfs] + [Off] * bool(args.off),
                                  chosen(NAMES))
        if not args.only or "stat" in args.only:
            latency = bench.latency()
    finally:
        wrong = bench.close()
    report.write(args.o, "fsync", table(synced, names, latency),
                 rounds=args.rounds, synced=synced, names=names,
                 stat_us=latency)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
