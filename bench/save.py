#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""save.py [-o DIR] [--files N,...] [--rounds N] - what `cowfs save` takes, and
a rescue by `cowfs umount`.

100 changed files (modified, new) in repositories of several sizes; each round
changes them again in a new environment. Beside it what git itself takes to
commit as much in a clone (add --all, commit), and what three syncs of a small
file take on that disk: save makes about as many. Medians, in milliseconds; of
save and rescue also the processor time of command, server and keeper, which
other load on the machine changes less.

Prints a Markdown table, and writes it and the figures into DIR (bench/out).
Every access to a FUSE mount is made by a child under a time limit. As root.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/support"))
import mountpoint  # noqa: E402
import report  # noqa: E402

GIT = dict(GIT_AUTHOR_NAME="b", GIT_AUTHOR_EMAIL="b@example.invalid",
           GIT_COMMITTER_NAME="b", GIT_COMMITTER_EMAIL="b@example.invalid",
           GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null",
           GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="gc.auto",
           GIT_CONFIG_VALUE_0="0")
KINDS = {"save": "save", "save cpu": "its CPU", "rescue": "rescue",
         "rescue cpu": "its CPU", "git": "git add, commit",
         "syncs": "three syncs"}
CHANGE = r"""
round=$1; files=$2; i=0
while [ $i -lt 50 ]; do
    n=$((i * files / 50))
    f=$(printf 'd%03d/e%02d/f%02d.c' $((n / 1000)) $((n / 20 % 50)) $((n % 20)))
    echo "/* $round */" >> $f
    echo "$round" > ${f%/*}/new$i
    i=$((i + 1))
done
"""


def git(*args):
    subprocess.run(["git", *args], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, **GIT))


def make(top, files):
    for n in range(files):
        folder = top / f"d{n // 1000:03}/e{n // 20 % 50:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{n % 20:02}.c").write_text(
            f"int f{n};\n" * (10 + n % 50))
    git("init", "-q", "-b", "main", top)
    git("-C", top, "add", "-A")
    git("-C", top, "commit", "-q", "-m", "all")
    git("-C", top, "gc", "-q")


def cpu(store):
    """Milliseconds that our children and the server's processes have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = used.ru_utime + used.ru_stime
    for pid in mountpoint.processes_of(store.path):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text() \
            .rpartition(")")[2].split()
        total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total * 1000


def three_syncs(folder):
    for i in range(3):
        with open(folder / f"sync{i}", "wb") as f:
            f.write(b"x" * 4096)
            os.fsync(f.fileno())


def measure(scratch, files, rounds):
    top, clone = scratch / f"r{files}", scratch / f"c{files}"
    make(top, files)
    git("clone", "-q", top, clone)
    store = mountpoint.Store(scratch / f"s{files}")
    store.env.update(GIT)
    found = {k: [] for k in KINDS}
    try:
        store.load(top)
        for i in range(rounds):
            point = store.mount("base", f"e{i}")
            store.inside(point, ["sh", "-ec", CHANGE, "sh", str(i),
                                 str(files)])
            for kind, verb in (("save", "save"), ("rescue", "umount")):
                before = cpu(store)
                found[kind].append(
                    report.took(lambda: store.run(verb, f"e{i}")))
                found[kind + " cpu"].append(cpu(store) - before)
            subprocess.run(["sh", "-ec", CHANGE, "sh", str(i), str(files)],
                           cwd=clone, check=True)
            found["git"].append(report.took(lambda: (
                git("-C", clone, "add", "-A"),
                git("-C", clone, "commit", "-q", "-m", "x"))))
            found["syncs"].append(report.took(lambda: three_syncs(scratch)))
    finally:
        wrong = store.close()
    assert not wrong, wrong
    return found


def table(found):
    out = ["| files | " + " | ".join(KINDS.values()) + " |",
           "|" + "---|" * (len(KINDS) + 1)]
    for files, row in found.items():
        out.append(f"| {files} | " + " | ".join(
            f"{statistics.median(row[k]):.0f} ({min(row[k]):.0f} to "
            f"{max(row[k]):.0f})" for k in KINDS) + " |")
    return "\n".join(out) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("-o", type=pathlib.Path, default=HERE / "out")
    ap.add_argument("--files", default="5000,50000")
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--scratch", default=None, help="on the disk to measure")
    args = ap.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="cowfs-bench-",
                                     dir=args.scratch) as scratch:
        for files in args.files.split(","):
            (pathlib.Path(scratch) / f"s{files}").mkdir()
            found[files] = measure(pathlib.Path(scratch), int(files),
                                   args.rounds)
    report.write(args.o, "save", table(found), rounds=args.rounds,
                 save_ms=found)


if __name__ == "__main__":
    sys.exit(main())
