# SPDX-License-Identifier: MIT
"""rig.py - records a workload on a disk that remembers, and judges cuts.

Rig makes the disk (cutdisk.c), a loop device on it, a file system, a store;
record() works in it and notes what was acknowledged. Cut takes one image of
replay.py, mounts it where the disk was, and lets cowfs find what is left as
after a reboot: /proc/sys/kernel/random/boot_id is covered by another one, in
the mount name space that tests have for themselves.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import time
import uuid

import mountpoint
from stamps import History

IMPORTS_MOST = 24  # more do not fit the disk
SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
PYTHON = sys.executable
BOOT_ID = "/proc/sys/kernel/random/boot_id"
MKFS = {
    "ext4": (96 << 20, ["mkfs.ext4", "-q", "-F", "-J", "size=8", "-E",
                        "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]),
    "xfs": (304 << 20, ["mkfs.xfs", "-q", "-f", "-K"]),
    "btrfs": (256 << 20, ["mkfs.btrfs", "-q", "-f", "-K"]),
}


def call(*argv, limit=60):
    """A child, with a limit: below a mount stands a server of ours."""
    r = subprocess.run(["timeout", "-s", "KILL", str(limit),
                        *map(str, argv)], text=True, capture_output=True)
    assert r.returncode == 0, f"{argv}: {r.returncode} {r.stderr}"
    return r.stdout


def programs():
    """Where cutdisk and the cowfs that lose syncs are."""
    named = os.environ.get("COWFS_POWERCUT")
    if named:
        return pathlib.Path(named)
    return pathlib.Path(mountpoint.binary()).parents[2] / "tests/powercut"


class Boot:
    """Another boot id, as long as the block lasts."""

    def __init__(self, folder):
        self.file = folder / "boot_id"

    def __enter__(self):
        self.file.write_text(f"{uuid.uuid4()}\n")
        call("mount", "--bind", self.file, BOOT_ID)

    def __exit__(self, *_):
        call("umount", BOOT_ID)


def use_disk(store, folder):
    """The store is on the disk that is mounted at folder/disk."""
    point = folder / "disk"
    point.mkdir(exist_ok=True)
    store.path = point / "store"
    store.env["COWFS_STORE"] = str(store.path)
    return point


def stop(store):
    """Server and mounts are gone, the environments kept."""
    if mountpoint.processes_of(store.path):
        store.run("umount", "--all", "--keep", expect=None)
    store.run("daemon", "stop", expect=None)
    wrong = [line for line in store.log().splitlines()
             if mountpoint.BAD_LOG.search(line)]
    mountpoint.force_away(store.path)
    assert not wrong, wrong


class Record:
    """What happened, and when, by the disk's clock."""

    def __init__(self, folder):
        self.clock = folder / "disk.log"
        self.notes = {}  # KIND: file of workload.py
        self.imports = []  # (time, snapshot's name, its tree)
        self.kept = []  # (time, environment, what cksum says)
        self.first = self.all_kept = None

    def now(self):
        return os.stat(self.clock).st_size

    def events(self, kind):
        with open(self.notes[kind]) as f:
            return [json.loads(line) for line in f]

    def acks(self):
        times = [e[1] for kind in self.notes for e in self.events(kind)
                 if e[0] == "done" and e[2]]
        return times + [e[0] for e in self.imports + self.kept]


class Rig:
    def __init__(self, store, folder, fs="ext4"):
        self.store, self.folder, self.fs = store, folder, fs
        self.size, self.mkfs = MKFS[fs]
        self.record = Record(folder)
        self.serving = None

    def __enter__(self):
        served = self.folder / "served"
        served.mkdir()
        self.serving = subprocess.Popen(
            [programs() / "cutdisk", str(self.size),
             self.folder / "now.img", self.record.clock, served],
            stdout=subprocess.PIPE, text=True)
        assert self.serving.stdout.readline() == "ready\n"
        point = use_disk(self.store, self.folder)
        call(*self.mkfs, served / "disk")
        call("mount", "-t", self.fs, "-o", "loop", served / "disk", point)
        return self

    def __exit__(self, *_):
        try:
            stop(self.store)
        finally:
            point = self.folder / "disk"
            mountpoint.wait_until(
                lambda: subprocess.run(["umount", point],
                                       capture_output=True).returncode == 0 or
                not os.path.ismount(point), 20, "the disk is unmounted")
            call("umount", self.folder / "served")
            self.serving.wait(20)
            (self.folder / "now.img").unlink()

    # -- the workload -----------------------------------------------------
    def start(self, kind, folder, seed, seconds):
        notes = self.record.notes[kind] = self.folder / f"{kind}.notes"
        notes.touch()
        return self.store.start_inside(
            folder, [PYTHON, SUPPORT / "workload.py", kind, notes,
                     self.record.clock, seed, seconds], 120 + int(seconds))

    def make_tree(self, i):
        tree = self.folder / f"tree{i}"
        rng = random.Random(i)
        tree.mkdir()
        for n in range(12):
            (tree / f"d{n % 3}").mkdir(exist_ok=True)
            (tree / f"d{n % 3}/f{n}").write_bytes(
                rng.randbytes(rng.choice([0, 100, 5000, 70000])))
        return tree

    def importing(self, end):
        for i in range(1, IMPORTS_MOST + 1):
            if time.monotonic() > end:
                break
            tree = self.make_tree(i)
            self.store.load(tree, f"t{i}")
            self.record.imports.append((self.record.now(), f"t{i}", tree))
            self.keeping(i)

    def keeping(self, i):
        """Written without any fsync, then kept."""
        point = self.store.mount(f"t{i}", f"k{i}")
        out = self.store.sh(
            point, f"for i in 1 2 3; do seq {i} $((i * 9000)) >s$i; done;"
                   "mv d0 moved; rm -r d1; cat moved/* s* | cksum").out
        self.store.run("umount", f"k{i}", "--keep")
        self.record.kept.append((self.record.now(), f"k{i}", out))

    def run(self, seed, seconds):
        store, record = self.store, self.record
        store.load(self.make_tree(0), "base")
        points = {name: store.mount("base", name)
                  for name in ("stamps", "databases")}
        store.sh(points["stamps"], "rm -r *; sync .")
        store.sh(points["databases"], "rm -r *; sync .")
        record.first = record.now()
        workers = [self.start(kind, points[kind], seed, seconds)
                   for kind in points]
        workers.append(self.start("nudge", store.path / "envs", seed,
                                  seconds))
        self.importing(time.monotonic() + seconds)
        for worker in workers:
            result = store.finish(worker, seconds + 60)
            assert result.code == 0, result
        store.run("umount", "--all", "--keep")
        record.all_kept = record.now()
        return record


# -- judging a cut ----------------------------------------------------------

class Truth:
    """What must, and what may, be there at a position of the log."""

    def __init__(self, record):
        self.record = record
        self.events = {k: record.events(k) for k in ("stamps", "databases")}
        self.history = History()
        for event in self.events["stamps"]:
            if event[0] == "begin":
                self.history.add(event[2])

    def stamps(self, position):
        begun = synced = 0
        for what, at, value, *_ in self.events["stamps"]:
            if at > position:
                break
            if what == "begin":
                begun += 1
            elif value:
                synced = begun
        if position >= self.record.all_kept:
            synced = begun
        return synced, begun

    def databases(self, position):
        """{kind: (acknowledged, begun)}"""
        found = {k: [0, 0] for k in ("wal", "delete", "git")}
        kind = None
        for what, at, value, *_ in self.events["databases"]:
            if at > position:
                break
            if what == "begin":
                kind = value[0]
                if kind in found:
                    found[kind][1] = value[1]
            elif kind in found:
                found[kind][0] = found[kind][1]
        return found


class Cut:
    """One image, mounted; finds what is wrong with it."""

    def __init__(self, store, folder, truth, fs="ext4"):
        self.store, self.folder, self.truth = store, folder, truth
        self.fs, self.point = fs, use_disk(store, folder)

    def look(self, env, kind):
        point = self.store.mount(env)
        out = self.store.inside(
            point, [PYTHON, SUPPORT / "look.py", kind]).out
        return json.loads(out)

    def wrong_stamps(self, position):
        synced, begun = self.truth.stamps(position)
        wrong = self.truth.history.judge(self.look("stamps", "stamps"),
                                         synced, begun)
        return [f"stamps: {wrong}"] if wrong else []

    def wrong_databases(self, position):
        found = self.look("databases", "databases")
        for kind, (acked, begun) in self.truth.databases(position).items():
            if not acked <= found[kind] <= begun:
                yield (f"{kind}: {found[kind]} are there, {acked} were "
                       f"acknowledged, {begun} begun")
        yield from found["wrong"]

    def wrong_imports(self, position):
        done = [e for e in self.truth.record.imports if e[0] <= position]
        for _, name, tree in done[-1:]:
            point = self.store.mount(name, "look")
            r = self.store.inside(point, ["diff", "-r", ".", tree],
                                  expect=None)
            if r.code:
                yield f"import {name}: {r.out[:500]} {r.err[:500]}"

    def wrong_kept(self, position):
        done = [e for e in self.truth.record.kept if e[0] <= position]
        for _, env, want in done[-2:]:
            point = self.store.mount(env)
            out = self.store.sh(point, "cat moved/* s* | cksum; ls").out
            if out != want + "d2\nmoved\ns1\ns2\ns3\n":
                yield f"kept {env}: {out!r}, wanted {want!r}"

    def wrong_fsck(self, _):
        """After the mounts: what was not committed is cut off by then."""
        stop(self.store)
        r = self.store.run("fsck", expect=None)
        if r.code:
            yield f"fsck: {r.code} {r.out[-600:]} {r.err[-600:]}"

    def all_wrong(self, position):
        for check in (self.wrong_stamps, self.wrong_databases,
                      self.wrong_imports, self.wrong_kept, self.wrong_fsck):
            try:
                yield from check(position)
            except AssertionError as e:
                yield f"{check.__name__}: {e}"

    def judge(self, image, position):
        call("mount", "-t", self.fs, "-o", "loop", image, self.point)
        try:
            with Boot(self.folder):
                try:
                    return list(self.all_wrong(position))
                finally:
                    stop(self.store)
        finally:
            call("umount", self.point)


def losing(store, kind):
    """From now on this store's commands are of a cowfs that loses syncs."""
    folder = store.folder / f"lose-{kind}"
    folder.mkdir()
    (folder / "cowfs").symlink_to(programs() / f"cowfs_lose_{kind}")
    store.env["PATH"] = f"{folder}:{store.env['PATH']}"

