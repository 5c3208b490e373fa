#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lines.py [-o DIR] [--tree DIR] [--rounds N] [--only WORD,...] - what an
environment costs, and what working in it costs.

First the life of an environment: mount to first stat, 20 at once, umount,
umount --discard of 50,000 new files. Then work, in one run and in rounds that
take each contender in turn (native ext4, kernel overlayfs, fuse-overlayfs,
cowfs, the null FUSE server), so that what slows the machine down for a while
slows all of them. Medians, with the spread of the middle half.

Prints a Markdown table, and writes it and the figures into DIR (bench/out).
Every access to a FUSE mount is made by a child under a time limit. As root.
README.md beside this file has the method and its traps.
"""
import argparse
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/support"))
import mountpoint  # noqa: E402
import report  # noqa: E402

# A task is run by sh in the contender's folder; $1 is the folder with inputs.
# It prints the seconds that it took, measured inside: starting sh is not in.
CLOCK = """
t0() { T0=$(date +%s%N); }
t1() { echo "TIME $(( $(date +%s%N) - T0 ))"; }
"""
# name: (script, contenders that cannot do it)
TASKS = {
    # First: what is freed in the background would spoil the bytes.
    "1 byte in a 1 GiB base file": (
        "perl -MTime::HiRes=clock_gettime,CLOCK_MONOTONIC -e '"
        "my $t = clock_gettime(CLOCK_MONOTONIC); "
        "open(my $f, \"+<\", \"huge\") or die; "
        "sysseek($f, 500000000, 0) && syswrite($f, \"Z\") == 1 && close($f) "
        "or die; "
        "printf \"TIME %d\\n\", "
        "1e9 * (clock_gettime(CLOCK_MONOTONIC) - $t)'", ("null",)),
    "find warm": ("find tree > /dev/null; find tree > /dev/null; t0; "
                  "find tree > /dev/null; t1", ()),
    "git status warm": (
        "cd tree; git status > /dev/null; git status > /dev/null; t0; "
        "git status > /dev/null; t1", ("null",)),
    "tar node_modules warm": (
        "for i in 1 2; do tar cf - tree/node_modules | cat > /dev/null; done; "
        "t0; "
        "tar cf - tree/node_modules | cat > /dev/null; t1", ()),
    "grep -r warm": (
        "for i in 1 2; do grep -r zzzyyyxxx tree/node_modules > /dev/null || :; "
        "done; t0; grep -r zzzyyyxxx tree/node_modules > /dev/null || :; t1", ()),
    "cp -r": ("t0; cp -r tree/node_modules copy; t1; rm -rf copy", ()),
    "untar": ("mkdir x; t0; tar xf $1/nm.tar -C x; t1; rm -rf x", ()),
    "4 KiB writes, new 32 MiB file": (
        "t0; dd if=/dev/zero of=w bs=4096 count=8192 status=none; t1; rm w",
        ()),
    # Last, for it leaves nothing behind.
    "rm -rf of base node_modules": ("t0; rm -rf tree/node_modules; t1", ()),
}


def sh(script, cwd, limit=600, args=(), env=None):
    """Runs a script in a folder that may be a mount; returns its output."""
    child = subprocess.Popen(
        ["timeout", "-s", "KILL", str(limit), "sh", "-euc",
         'cd "$0"; ' + script, str(cwd), *map(str, args)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True, env=env)
    try:
        out, err = child.communicate(timeout=limit + 10)
    except BaseException as e:
        # A child that goes on would keep the mount busy.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(10)
        if isinstance(e, subprocess.TimeoutExpired):
            raise RuntimeError(f"hangs: {script}") from None
        raise
    if child.returncode:
        raise RuntimeError(f"{script}: {err.decode(errors='replace')[-500:]}")
    return out.decode(errors="replace")


def timed(script, cwd, inputs, env):
    out = sh(CLOCK + script, cwd, args=[inputs], env=env)
    return int(out.split("TIME ")[1].split()[0]) / 1e9


class Native:
    name = "ext4"

    def __init__(self, bench):
        self.bench = bench
        self.top = bench.scratch / self.name

    def up(self):
        subprocess.run(["cp", "-a", "--reflink=never", self.bench.base,
                        self.top], check=True)
        return self.top

    def down(self):
        shutil.rmtree(self.top)

    def used(self):
        return int(sh("du -s -B1 . | cut -f1", self.top))


class Overlay(Native):
    name = "overlayfs"

    def up(self):
        for d in ("upper", "work", "m"):
            (self.top / d).mkdir(parents=True)
        subprocess.run(self.command(), check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self.top / "m"

    def options(self):
        return (f"lowerdir={self.bench.base},upperdir={self.top}/upper,"
                f"workdir={self.top}/work")

    def command(self):
        return ["mount", "-t", "overlay", "overlay", "-o", self.options(),
                self.top / "m"]

    def down(self):
        subprocess.run(["timeout", "30", "umount", self.top / "m"],
                       check=True)
        subprocess.run(["rm", "-rf", self.top], check=True)

    def used(self):
        return int(sh("du -s -B1 . | cut -f1", self.top / "upper"))


class FuseOverlay(Overlay):
    name = "fuse-overlayfs"

    def command(self):
        return ["fuse-overlayfs", "-o",
                self.options() + ",allow_other,default_permissions",
                self.top / "m"]


class Cowfs:
    name = "cowfs"

    def __init__(self, bench):
        self.bench = bench

    def up(self):
        return pathlib.Path(self.bench.store.mount("base", "work"))

    def down(self):
        self.bench.store.run("umount", "work", "--discard")

    def used(self):
        return int(sh("du -s -B1 . | cut -f1", self.bench.store.path / "envs"))


class Null:
    """In memory: it starts empty, so the tree is copied into it first."""
    name = "null"

    def __init__(self, bench):
        self.bench, self.top = bench, bench.scratch / "null"

    def up(self):
        self.top.mkdir()
        self.child = subprocess.Popen(
            [self.bench.null, self.top], stdin=subprocess.DEVNULL)
        mountpoint.wait_until(
            lambda: mountpoint.mounts_below(self.top), 10, "null_fuse mounts")
        sh('cp -r "$1" .', self.top, args=[self.bench.base / "tree"])
        return self.top

    def down(self):
        subprocess.run(["timeout", "30", "umount", self.top], check=True)
        self.child.wait(30)
        self.top.rmdir()


class Bench:
    def __init__(self, args):
        self.args = args
        self.scratch = pathlib.Path(tempfile.mkdtemp(
            prefix="cowfs-bench-", dir=args.scratch))
        self.null = args.null
        self.store = None
        self.env = mountpoint.environment()
        self.env.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory",
                        GIT_CONFIG_VALUE_0="*")

    def prepare(self):
        """The base: the tree, a file of 1 GiB; beside it a tar."""
        self.base = self.scratch / "base"
        self.base.mkdir()
        subprocess.run(["cp", "-a", self.args.tree, self.base / "tree"],
                       check=True)
        if any("huge" in script for script, _ in self.tasks().values()):
            with open(self.base / "huge", "wb") as f:
                block = os.urandom(1 << 20)
                for i in range(1024):
                    f.write(i.to_bytes(8, "little") + block[8:])
        subprocess.run(["tar", "cf", self.scratch / "nm.tar", "-C",
                        self.base / "tree", "node_modules"], check=True)
        (self.scratch / "s").mkdir()
        self.store = mountpoint.Store(self.scratch / "s")
        t0 = time.monotonic()
        self.store.run("import", self.base, "-t", "base", limit=1800)
        print(f"import: {time.monotonic() - t0:.1f} s", file=sys.stderr)
        small = self.scratch / "small"
        small.mkdir()
        for i in range(10):
            (small / f"f{i}").write_text(str(i))
        self.store.run("import", small, "-t", "small")

    # -- the life of an environment ----------------------------------------
    def life(self):
        found = {}
        self.store.mount("small", "keeps-the-server")
        for tag in ("base", "small"):
            mounts, umounts = [], []
            for i in range(self.args.mounts):
                took, down = self.mount_stat_umount(tag, f"m{i}")
                mounts.append(took)
                umounts.append(down)
            found[f"mount to first stat, {tag}"] = mounts
            found[f"umount without changes, {tag}"] = umounts
        found["20 mounts at once"] = [self.at_once(20) for _ in range(5)]
        found["umount --discard, 50,000 new files"] = [
            self.discard(50000) for _ in range(3)]
        self.store.run("umount", "keeps-the-server")
        return found

    def cow(self, *args):
        """The command as a user starts it, with as little around it."""
        child = subprocess.run(
            [self.args.cowfs, *args], env=self.store.env, check=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        return child.stdout.decode().strip()

    def mount_stat_umount(self, tag, name):
        t0 = time.monotonic()
        point = self.cow("mount", tag, name)
        # The first stat in a child would measure the child; the time limit
        # is kept by an alarm, which ends a stat that waits for an answer.
        signal.alarm(20)
        os.stat(point + "/.")
        signal.alarm(0)
        t1 = time.monotonic()
        self.cow("umount", name)
        return t1 - t0, time.monotonic() - t1

    def at_once(self, n):
        t0 = time.monotonic()
        children = [subprocess.Popen(
            [self.args.cowfs, "mount", "base", f"p{i}"], env=self.store.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            for i in range(n)]
        codes = [c.wait(60) for c in children]
        took = time.monotonic() - t0
        assert not any(codes), codes
        self.cow("umount", *[f"p{i}" for i in range(n)])
        return took

    def discard(self, n):
        point = self.cow("mount", "small", "many")
        sh(f"i=0; while [ $i -lt {n // 1000} ]; do mkdir d$i; cd d$i; "
           "seq 1000 | xargs touch; cd ..; i=$((i+1)); done", point)
        t0 = time.monotonic()
        self.cow("umount", "many", "--discard")
        return time.monotonic() - t0

    # -- work ---------------------------------------------------------------
    def work(self):
        kinds = [Native, Overlay, FuseOverlay, Cowfs] + [Null] * bool(
            self.null)
        found = {t: {k.name: [] for k in kinds} for t in self.tasks()}
        more = {k.name: [] for k in kinds}
        failed = []
        for i in range(self.args.rounds):
            for kind in kinds[i % len(kinds):] + kinds[:i % len(kinds)]:
                contender = kind(self)
                where = contender.up()
                try:
                    self.round(contender, where, found, more)
                except RuntimeError as e:
                    # Others' mistakes do not end the run; it tells of them.
                    if kind in (Cowfs, Null):
                        raise
                    failed.append(f"round {i + 1}, {kind.name}: "
                                  f"{str(e).splitlines()[-1]}")
                finally:
                    contender.down()
                print(f"round {i + 1}: {kind.name}", file=sys.stderr)
        return found, more, failed

    def tasks(self):
        only = self.args.only
        return {t: v for t, v in TASKS.items()
                if not only or any(w in t for w in only.split(","))}

    def round(self, contender, where, found, more):
        for task, (script, without) in self.tasks().items():
            if contender.name in without:
                continue
            sized = task.startswith("1 byte")
            before = contender.used() if sized else 0
            os.sync() if sized else None
            found[task][contender.name].append(
                timed(script, where, self.scratch, self.env))
            if sized:
                more[contender.name].append(contender.used() - before)

    def close(self):
        wrong = self.store.close() if self.store else []
        for point in reversed(mountpoint.mounts_below(self.scratch)):
            subprocess.run(["timeout", "10", "umount", "-l", point])
        subprocess.run(["rm", "-rf", "--one-file-system", self.scratch])
        return wrong


def figure(seconds):
    """Median, and the middle half in brackets."""
    if not seconds:
        return "-"
    unit, scale = ("ms", 1e3) if statistics.median(seconds) < 1 else ("s", 1)
    ordered = sorted(seconds)
    low, high = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    return (f"{statistics.median(seconds) * scale:.2f} {unit} "
            f"[{low * scale:.2f}, {high * scale:.2f}]")


def ratio(a, b):
    if not a or not b:
        return "-"
    return f"{statistics.median(a) / statistics.median(b):.2f}"


def table(life, work, more, failed):
    lines = []
    if life:
        lines += ["| life of an environment | median [middle half] | max |",
                  "|---|---|---|"]
        lines += [f"| {k} | {figure(v)} | {max(v) * 1e3:.1f} ms |"
                  for k, v in life.items()]
    if work:
        names = list(next(iter(work.values())))
        lines += ["", "| work | " + " | ".join(names) +
                  " | cowfs / ext4 | cowfs / null | cowfs / fuse-overlayfs |",
                  "|" + "---|" * (len(names) + 4)]
        for task, row in work.items():
            ours = row.get("cowfs")
            lines.append(
                f"| {task} | " + " | ".join(figure(row[n]) for n in names) +
                f" | {ratio(ours, row.get('ext4'))}"
                f" | {ratio(ours, row.get('null'))}"
                f" | {ratio(ours, row.get('fuse-overlayfs'))} |")
        if any(more.values()):
            lines.append("| bytes more on disk for that byte | " + " | ".join(
                str(int(statistics.median(more[n]))) if more[n] else "-"
                for n in names) + " | | | |")
    lines += [""] * bool(failed) + [f"Failed: {f}" for f in failed]
    return "\n".join(lines) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("-o", type=pathlib.Path, default=HERE / "out")
    ap.add_argument("--tree", type=pathlib.Path, required=True,
                    help="a git repository with node_modules")
    ap.add_argument("--scratch", default=None, help="on ext4, 5 GB free")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--mounts", type=int, default=50)
    ap.add_argument("--only", default="", help="words of tasks")
    ap.add_argument("--skip-life", action="store_true")
    ap.add_argument("--skip-work", action="store_true")
    ap.add_argument("--null", type=pathlib.Path, help="the null_fuse program")
    args = ap.parse_args()
    args.cowfs = mountpoint.binary()
    bench = Bench(args)
    life, work, more, failed = {}, {}, {}, []
    try:
        bench.prepare()
        life = {} if args.skip_life else bench.life()
        if not args.skip_work:
            work, more, failed = bench.work()
    finally:
        wrong = bench.close()
    report.write(args.o, "lines", table(life, work, more, failed),
                 rounds=args.rounds, life=life, work=work, bytes_more=more,
                 failed=failed)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
