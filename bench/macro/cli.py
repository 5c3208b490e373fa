# SPDX-License-Identifier: MIT
"""cli.py - the command line of bench/run, and the process around the run.

As root the run is a child in name spaces of its own, of mounts and of
processes: when it ends, however it ends, the kernel ends all its processes and
takes all its mounts away, and this process removes its folder. Otherwise it is
a child just so, and what it started is looked for.
"""
import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import mountpoint
import project
import real

from macro import BENCH, child, report, rounds

# (tree, rounds, part of the budget that may be used when it ends)
QUICK = (("root", 2, 1), ("file", 2, 1), ("small", 1, 1))
FULL = (("file", 5, 1), ("root", 5, 1), ("small", 5, .35), ("large", 3, 1),
        ("medium", 3, 1))
INSIDE = "COWFS_BENCH_INSIDE"
PATIENCE = 60  # seconds for an interrupted run to clear away


def parse(doc):
    ap = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = ap.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help="as CI")
    which.add_argument("--full", action="store_true", help="the default")
    ap.add_argument("-o", type=pathlib.Path, default=BENCH / "out",
                    metavar="DIR")
    ap.add_argument("--scratch", metavar="DIR",
                    help="on the disk to measure, 50 GB free for --full")
    ap.add_argument("--in-place", action="store_true",
                    help="on the file system of that folder, not on an ext4 "
                    "in a file")
    ap.add_argument("--rounds", type=int, help="instead of the usual")
    ap.add_argument("--trees", help="some of small,file,root,medium,large")
    ap.add_argument("--only", metavar="REGEX", help="these works")
    ap.add_argument("--contenders", metavar="REGEX")
    ap.add_argument("--large", type=int, default=1000000, metavar="FILES")
    ap.add_argument("--limit", type=int, metavar="SECONDS",
                    help="a work that takes longer has failed")
    ap.add_argument("--budget", type=int, metavar="SECONDS",
                    help="no work is begun after it")
    ap.add_argument("--journal-off", type=pathlib.Path, metavar="PROGRAM",
                    help="a cowfs built with -DCOWFS_JOURNAL=OFF")
    ap.add_argument("--null", type=pathlib.Path, metavar="PROGRAM")
    args = ap.parse_args()
    args.limit = args.limit or (120 if args.quick else 600)
    args.null = args.null or null_beside(mountpoint.binary())
    return args


def null_beside(cowfs):
    """BUILD/daemon/cli/cowfs has BUILD/bench/null_fuse."""
    found = pathlib.Path(cowfs).parent / "../../bench/null_fuse"
    return found.resolve() if found.exists() else None


def plan(args):
    for name, count, part in QUICK if args.quick else FULL:
        if not args.trees or name in args.trees.split(","):
            yield name, args.rounds or count, 1 if args.trees else part


class Interrupted(BaseException):
    pass


def interrupted(signum, _frame):
    raise Interrupted(signum)


def environment():
    """For all children: nobody's own settings, nothing from a network."""
    env = mountpoint.environment()
    env.update(
        GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null",
        GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory",
        GIT_CONFIG_VALUE_0="*", npm_config_cache=str(real.npm_cache()),
        **project.NPM)
    return env


def inside(args, scratch):
    """The run itself; returns the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    try:
        bench = rounds.Bench(args, scratch, environment())
    except (OSError, subprocess.SubprocessError) as e:
        print(f"bench/run: no disk of its own: {e}; --in-place works without",
              file=sys.stderr)
        return 2
    machine = report.machine(bench.scratch)
    code = 0
    try:
        bench.start()
        for name, count, part in plan(args):
            bench.measure(name, count, part)
    except Interrupted:
        code = 130
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        bench.close()
    if code:
        bench.say("interrupted; nothing is written")
        return code
    report.write(args.o, report.results(bench, machine))
    return 1 if any(who == "cowfs" for _, _, who in bench.failed) else 0


def around(scratch):
    """Starts the run as a child and clears away after it."""
    argv = [sys.executable, sys.argv[0], *sys.argv[1:]]
    if os.geteuid() == 0:
        # The shell is the first process: it collects orphans. When this
        # process is killed, the kernel kills all of them.
        argv = ["setpriv", "--pdeathsig", "KILL", "unshare", "-m", "-p", "-f",
                "--mount-proc", "--kill-child", "--propagation", "private",
                "bash", "-c", '"$@"; exit $?', "bash", *argv]
    process = subprocess.Popen(
        argv, env=dict(os.environ, **{INSIDE: str(scratch)}),
        start_new_session=True)

    def ask(_signum, _frame):
        os.killpg(process.pid, signal.SIGTERM)
        signal.alarm(PATIENCE)

    def end(_signum, _frame):
        os.killpg(process.pid, signal.SIGKILL)

    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGALRM, end)
    return process.wait()


def main(doc):
    args = parse(doc)
    if INSIDE in os.environ:
        return inside(args, pathlib.Path(os.environ.pop(INSIDE)))
    for program in ("git", "bash", "unshare"):
        if not shutil.which(program):
            print(f"bench/run: needs {program}", file=sys.stderr)
            return 2
    try:
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="cowfs-bench-",
                                                dir=args.scratch))
    except OSError as e:
        print(f"bench/run: --scratch: {e}", file=sys.stderr)
        return 2
    scratch.chmod(0o755)
    try:
        code = around(scratch)
    finally:
        child.remove(scratch)
    return code if code >= 0 else 128 - code
