#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""container.py [-o DIR] [--rounds N] - how soon a container's first line is
there: from a root file system that lies ready, or is made for it, to what crun
prints.

The root is that of tests/rootfs, about 300 MiB. Contenders take turns in each
round: crun on a directory that nobody else uses; `cowfs mount` and crun; a
kernel overlay and crun; `cp -a` and crun; `umoci unpack` and crun. Medians, with
the middle half in brackets, in milliseconds. Each output is checked. Then twenty
containers on views at once, until the last one has answered.

As root, with crun, runc (its `spec`) and umoci. Prints a Markdown table, and
writes it and the figures into DIR (bench/out).
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests" / d) for d in ("support", "rootfs")]
import mountpoint  # noqa: E402
import report  # noqa: E402
import root as rootfs  # noqa: E402

# Where all control groups are of version 2 the mount changes nothing.
CRUN = ["unshare", "-m", "sh", "-c",
        'mount -t cgroup2 none /sys/fs/cgroup; exec crun "$@"', "crun",
        "--cgroup-manager=disabled"]
DIRECTORY, VIEW, OVERLAY, COPY, UNPACK = NAMES = (
    "crun on a directory", "cowfs mount, crun", "overlay, crun", "cp -a, crun",
    "umoci unpack, crun")
SLOW = (COPY, UNPACK)  # fewer rounds


def call(*argv):
    subprocess.run(argv, check=True, timeout=300, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Containers:
    def __init__(self, folder):
        self.folder = folder
        self.count = 0

    def bundle(self, path):
        """A bundle whose root lies at a path."""
        self.count += 1
        bundle = self.folder / f"bundle{self.count}"
        bundle.mkdir()
        call("runc", "spec", "-b", bundle)
        config = json.loads((bundle / "config.json").read_text())
        config["root"] = {"path": str(path), "readonly": False}
        config["process"].update(terminal=False, args=[
            "sh", "-c", "echo first; cat /etc/debian_version >/dev/null"])
        (bundle / "config.json").write_text(json.dumps(config))
        return bundle

    def start(self, bundle):
        return subprocess.Popen(
            [*CRUN, "--root", self.folder / "state", "run", "-b", bundle,
             bundle.name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)

    def first_line(self, bundle, prepare):
        """Milliseconds until it is there."""
        began = time.perf_counter()
        prepare()
        child = self.start(bundle)
        line = child.stdout.readline()
        took = (time.perf_counter() - began) * 1000
        assert line == b"first\n" and child.wait(60) == 0, line
        shutil.rmtree(bundle)
        return took


def measure_directory(c, top):
    return c.first_line(c.bundle(top), lambda: None)


def measure_view(c, store):
    took = c.first_line(c.bundle(store.path / "mnt/one"),
                        lambda: store.run("mount", "base", "one"))
    store.run("umount", "one", "--discard")
    return took


def measure_overlay(c, top):
    at = c.folder / "over"
    for name in ("upper", "work", "merged"):
        (at / name).mkdir(parents=True)
    took = c.first_line(
        c.bundle(at / "merged"),
        lambda: call("mount", "-t", "overlay", "-o", f"lowerdir={top},"
                     f"upperdir={at}/upper,workdir={at}/work", "overlay",
                     at / "merged"))
    call("umount", at / "merged")
    shutil.rmtree(at)
    return took


def measure_copy(c, top):
    to = c.folder / "copy"
    took = c.first_line(c.bundle(to), lambda: call("cp", "-a", top, to))
    shutil.rmtree(to)
    return took


def measure_unpack(c, image):
    to = c.folder / "unpacked"
    took = c.first_line(
        c.bundle(to / "rootfs"),
        lambda: call("umoci", "unpack", "--image", image, to))
    shutil.rmtree(to)
    return took


def make_image(folder, top):
    layout = folder / "image"
    call("umoci", "init", "--layout", layout)
    call("umoci", "new", "--image", f"{layout}:t")
    call("umoci", "insert", "--image", f"{layout}:t", top, "/")
    return f"{layout}:t"


def measure_twenty(c, store, count=20):
    """Mounted, started, all have answered."""
    bundles = [c.bundle(store.path / f"mnt/e{i}") for i in range(count)]
    began = time.perf_counter()
    children = []
    for i, bundle in enumerate(bundles):
        store.run("mount", "base", f"e{i}")
        children.append(c.start(bundle))
    for child in children:
        assert child.communicate(timeout=120)[0] == b"first\n"
        assert child.returncode == 0
    took = (time.perf_counter() - began) * 1000
    store.run("umount", "--all", "--discard")
    for bundle in bundles:
        shutil.rmtree(bundle)
    return took


def rounds(c, store, top, image, count):
    how = {DIRECTORY: lambda: measure_directory(c, top),
           VIEW: lambda: measure_view(c, store),
           OVERLAY: lambda: measure_overlay(c, top),
           COPY: lambda: measure_copy(c, top),
           UNPACK: lambda: measure_unpack(c, image)}
    found = {name: [] for name in NAMES}
    measure_directory(c, top)  # all that every round finds cached
    measure_view(c, store)
    for i in range(count):
        for name in NAMES:
            if name not in SLOW or i % 5 == 0:
                found[name].append(how[name]())
    return found


def spread(times):
    if len(times) < 2:
        return f"{times[0]:.1f}"
    low, _, high = statistics.quantiles(times, n=4)
    return f"{statistics.median(times):.1f} [{low:.1f}, {high:.1f}]"


def table(found, twenty):
    base = statistics.median(found[DIRECTORY])
    own = statistics.median(found[VIEW])
    out = ["| until the first line | ms, median [middle half] | above a "
           "directory | times cowfs |", "|---|---|---|---|"]
    for what, times in found.items():
        ms = statistics.median(times)
        out.append(f"| {what} | {spread(times)} | {ms - base:+.1f} | "
                   f"{ms / own:.1f} |")
    out.append(f"| 20 views, 20 containers at once | {twenty:.1f} | | |")
    return "\n".join(out) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("-o", type=pathlib.Path, default=HERE / "out")
    ap.add_argument("--rounds", type=int, default=25)
    ap.add_argument("--scratch", default=None, help="on the disk to measure")
    args = ap.parse_args()
    origin = rootfs.make()
    with tempfile.TemporaryDirectory(prefix="cowfs-bench-",
                                     dir=args.scratch) as scratch:
        scratch = pathlib.Path(scratch)
        scratch.chmod(0o755)
        top = scratch / "root"
        call("cp", "-a", origin, top)
        image = make_image(scratch, origin)
        (scratch / "own").mkdir()
        store = mountpoint.Store(scratch / "own")
        try:
            store.load(origin)
            c = Containers(scratch)
            found = rounds(c, store, top, image, args.rounds)
            twenty = measure_twenty(c, store)
        finally:
            wrong = store.close()
        assert not wrong, wrong
    report.write(args.o, "container", table(found, twenty),
                 rounds=args.rounds, ms=found, twenty_ms=twenty)


if __name__ == "__main__":
    sys.exit(main())
