#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py [-o DIR] [--rounds N] - what `cowfs run` costs beside bubblewrap, how
soon a database of the snapshot is ready, what ending a busy environment takes,
and how soon a fresh environment is as good as the warm origin.

The project is that of tests/agents: node_modules with jest, a PostgreSQL
cluster, a git repository. Contenders take turns in each round; medians, with
the middle half in brackets, in milliseconds. Each result is checked: a command
that fails ends the run. As root or a user, with bubblewrap and PostgreSQL.

The origin is warm: what the project has built, and the cache of jest, which is
in /tmp. So the store gets that cache as a user would give it, too, and the line
"jest's cache cold" says what it is worth.

Prints a Markdown table, and writes it and the figures into DIR (bench/out).
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests" / d) for d in ("support", "agents")]
import mountpoint  # noqa: E402
import report  # noqa: E402
import project  # noqa: E402

BWRAP = ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
         "--unshare-net", "--unshare-cgroup", "--ro-bind", "/", "/", "--proc",
         "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--", "true"]
JEST = ["npm", "test", "--silent", "--", "-t", "rates"]
SLEEPERS = ("i=0; while [ $i -lt 200 ]; do sleep 600 >/dev/null 2>&1 & "
            "i=$((i + 1)); done")


def call(*argv, cwd=None, **env):
    subprocess.run(argv, check=True, cwd=cwd, timeout=120,
                   env=dict(os.environ, **env),
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def run_and_bwrap(store, rounds, found):
    store.mount("base", "one")
    store.run("run", "one", "--", "true")
    for _ in range(rounds * 5):
        found["bwrap true"].append(report.took(lambda: call(*BWRAP)))
        found["run true"].append(
            report.took(lambda: store.run("run", "one", "--", "true")))
    store.run("umount", "one", "--discard")


def jest_cache():
    """Where jest has it, outside: named for the user's number, base 36."""
    number, digits = os.geteuid(), ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return pathlib.Path("/tmp") / f"jest_{digits}"


def first_green(store, top, rounds, found):
    def fresh(name):
        store.mount("base", name)
        store.run("run", name, "--", *JEST, limit=120)

    warm = dict(TMPDIR="/tmp")
    for i in range(rounds):
        found["origin, warm"].append(
            report.took(lambda: call(*JEST, cwd=top, **warm)))
        with tempfile.TemporaryDirectory() as empty:
            found["origin, jest's cache cold"].append(report.took(
                lambda d=empty: call(*JEST, cwd=top, TMPDIR=d)))
        found["mount and test"].append(report.took(lambda i=i: fresh(f"t{i}")))
        found["again there"].append(report.took(
            lambda i=i: store.run("run", f"t{i}", "--", *JEST, limit=120)))
        store.run("umount", f"t{i}", "--discard")


def database(store, rounds, found):
    for i in range(rounds):
        name = f"d{i}"
        store.mount("base", name)
        found["db start"].append(
            report.took(lambda n=name: store.run("db", "start", n)))
        store.run("run", name, "--detach", "--", "node", "server.js")
        store.run("run", name, "--", "sh", "-c", SLEEPERS)
        found["umount, busy"].append(
            report.took(lambda n=name: store.run("umount", n, "--discard")))


def table(found):
    out = ["| what | ms, median [middle half] | max |", "|---|---|---|"]
    for what, times in found.items():
        low, _, high = statistics.quantiles(times, n=4)
        out.append(f"| {what} | {statistics.median(times):.1f} "
                   f"[{low:.1f}, {high:.1f}] | {max(times):.1f} |")
    bound = 1.15 * statistics.median(found["origin, warm"]) + 50
    first = statistics.median(found["mount and test"])
    out += ["", f"First green test of a fresh environment: {first:.0f} ms; "
                f"1.15 times the origin's and 50 ms are {bound:.0f}."]
    return "\n".join(out) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("-o", type=pathlib.Path, default=HERE / "out")
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--scratch", default=None, help="on the disk to measure")
    args = ap.parse_args()
    found = {k: [] for k in (
        "bwrap true", "run true", "origin, warm", "origin, jest's cache cold",
        "mount and test", "again there", "db start", "umount, busy")}
    project.make()
    with tempfile.TemporaryDirectory(prefix="cowfs-bench-",
                                     dir=args.scratch) as scratch:
        scratch = pathlib.Path(scratch)
        scratch.chmod(0o755)
        project.copy(scratch / "shop")
        call(*JEST, cwd=scratch / "shop", TMPDIR="/tmp")
        (scratch / "own").mkdir()
        store = mountpoint.Store(scratch / "own")
        try:
            store.load(scratch / "shop")
            store.run("import", "--cache", f"jest={jest_cache()}")
            run_and_bwrap(store, args.rounds, found)
            first_green(store, scratch / "shop", args.rounds, found)
            database(store, args.rounds, found)
        finally:
            wrong = store.close()
        assert not wrong, wrong
    report.write(args.o, "run", table(found), rounds=args.rounds, ms=found)


if __name__ == "__main__":
    sys.exit(main())
