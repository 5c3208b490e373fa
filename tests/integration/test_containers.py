# SPDX-License-Identifier: MIT
"""Containers on views: every engine does real work in one, many at once see
nothing of each other, and none loses its root by accident."""
import json
import os
import re
import shutil
import sys
import tempfile
import time

import pytest

import mountpoint
import small_root
from conftest import have_fuse, skip_unless
from helpers import HERE, wait_until

sys.path.insert(0, str(HERE.parent / "rootfs"))
import root as rootfs  # noqa: E402

pytestmark = [pytest.mark.tree, pytest.mark.usefixtures("as_root")]
EXAMPLES = HERE.parents[1] / "examples"
SLEEP = str(2000000 + os.getpid())  # seconds that nobody else sleeps
# Where all control groups are of version 2 the mount changes nothing.
CRUN = ["unshare", "-m", "sh", "-c",
        'mount -t cgroup2 none /sys/fs/cgroup; exec crun "$@"', "crun",
        "--cgroup-manager=disabled"]
ENGINES = ("crun", "runc", "podman", "podman :O")


@pytest.fixture(scope="module")
def debian():
    """The root file system that rootfs/root.py has made; its path."""
    lacking = rootfs.missing()
    if lacking:
        skip_unless(False, lacking[0])
    if not rootfs.place().exists():
        pytest.fail("tests/rootfs/root.py makes the root file system first")
    return rootfs.place()


@pytest.fixture(scope="module")
def small():
    with tempfile.TemporaryDirectory(prefix="cowfs-t-") as folder:
        os.chmod(folder, 0o755)
        top = os.path.join(folder, "root")
        small_root.make(top)
        yield top


@pytest.mark.parametrize("name", [
    "10-runc", "11-crun", "12-podman", "13-bubblewrap", "14-chroot"])
def test_an_example_does_its_work(cowfs, debian, name):
    engine = {"13-bubblewrap": "bwrap"}.get(name, name[3:])
    skip_unless(shutil.which(engine), engine)
    env = dict(cowfs.env, TMPDIR=str(cowfs.folder))
    env.pop("COWFS_STORE")
    result = cowfs.finish(cowfs.spawn([EXAMPLES / f"{name}.sh", debian],
                                      env=env), 150)
    assert result.code == 0, result
    lines = result.lines()
    work = ["apt: hello from a package", "postgres: 42", "python: 4950"]
    assert lines[:3] == work and lines[-1] == "the snapshot is as it was"
    assert lines[3:-1] == {"12-podman": work, "13-bubblewrap":
                           ["sandbox: [] debian"]}.get(name, []), result
    assert not mountpoint.mounts_below(cowfs.folder)
    assert not mountpoint.processes_of(cowfs.folder)
    assert not [n for n in os.listdir(cowfs.folder) if "example" in n]


# --- engines -----------------------------------------------------------------

class Engine:
    """Runs commands in views; everything that it leaves is in a folder."""

    def __init__(self, store, name):
        self.store, (self.name, *self.over) = store, name.split()
        self.folder = store.folder / "engine"
        self.folder.mkdir()
        # podman takes 50 bytes at most
        self.state = tempfile.mkdtemp(prefix="cowfs-", dir="/run")
        # apart from the machine's
        self.pod = ["podman", "--root", self.folder / "images", "--runroot",
                    self.state, "--cgroup-manager=cgroupfs",
                    "--events-backend=file", "--runtime", "runc"]

    def config(self, view, argv):
        """A bundle's folder."""
        bundle = self.folder / f"bundle-{os.path.basename(view)}"
        bundle.mkdir(exist_ok=True)
        if not (bundle / "config.json").exists():
            self.call(["runc", "spec", "-b", bundle])
        config = json.loads((bundle / "config.json").read_text())
        config["root"] = {"path": str(view), "readonly": False}
        config["process"].update(terminal=False, args=argv)
        (bundle / "config.json").write_text(json.dumps(config))
        return bundle

    def call(self, argv, expect=0):
        result = self.store.finish(self.store.spawn(argv), 60)
        assert expect is None or result.code == expect, result
        return result

    def argv(self, view, name, argv):
        if self.name == "podman":
            over = self.over[0] if self.over else ""
            return [*self.pod, "run", "--rm", "--name", name, "--network",
                    "none", "--ulimit", "nofile=20000:20000", "--ulimit",
                    "nproc=4096:4096", "--rootfs", f"{view}{over}", *argv]
        command = CRUN if self.name == "crun" else ["runc"]
        return [*command, "--root", self.state, "run", "-b",
                self.config(view, argv), name]

    def spawn(self, view, name, argv):
        return self.store.spawn(self.argv(view, name, argv))

    def end(self):
        if self.name == "podman":
            self.call([*self.pod, "rm", "-f", "-t", "0", "-a"], None)
        else:
            for name in os.listdir(self.state):
                self.call([self.name, "--root", self.state, "delete", "-f",
                           name], None)
        for folder in (self.folder, self.state):
            for point in reversed(mountpoint.mounts_below(folder)):
                self.call(["umount", point], None)
            assert not mountpoint.mounts_below(folder)
        shutil.rmtree(self.state)


@pytest.fixture
def engine(cowfs, request):
    name = request.param
    skip_unless(shutil.which(name.split()[0]), name.split()[0])
    made = Engine(cowfs, name)
    yield made
    made.end()


def sleepers():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", SLEEP.encode()] and mountpoint.alive(pid):
            found.append(pid)
    return found


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_a_containers_root_is_busy_and_kill_ends_it(engine, small):
    """Its processes live in a mount name space of their own, where the mount
    is none that ours would take along."""
    store = engine.store
    store.load(small)
    view = store.mount("base", "e")
    child = engine.spawn(view, "one", ["sleep", SLEEP])
    wait_until(sleepers, 30, "the container runs")
    pid, = sleepers()
    result = store.run("umount", "e", expect=4)
    assert re.search(rf"^{pid} sleep /", result.err, re.M), result
    assert not re.search("elsewhere", result.err), result
    assert store.run("--json", "ps").json()[0]["state"] == "mounted"
    assert mountpoint.alive(pid) and view in mountpoint.mounts_below(view)
    dry = store.run("umount", "--kill", "--dry-run", "--discard", "e",
                    expect=None)
    assert f"would end {pid} sleep" in dry.err + dry.out
    assert mountpoint.alive(pid)
    done = store.run("umount", "--kill", "--discard", "e")
    assert f"ended {pid} sleep" in done.err
    assert not sleepers() and store.run("ps").out.count("\n") <= 1
    assert not mountpoint.mounts_below(store.path / "mnt/e")
    store.finish(child, 30)
    # A name that is free again.
    store.mount("base", "e")


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_two_at_once_do_not_see_each_other(engine, small):
    store = engine.store
    store.load(small)
    views = [store.mount("base", name) for name in "ab"]
    script = "echo $0 >> /mine; sleep 2; echo here $0 $(cat /mine)"
    children = [engine.spawn(view, f"c{i}", ["sh", "-c", script, str(i)])
                for i, view in enumerate(views)]
    outs = [store.finish(child, 60) for child in children]
    assert [r.out.split() for r in outs] == [["here", "0", "0"],
                                             ["here", "1", "1"]], outs
    # With an overlay what they wrote was podman's.
    for view, name in zip(views, "ab"):
        assert ("A\tmine" in store.run("diff", name).lines()) == \
            (not engine.over)


# --- many --------------------------------------------------------------------

@pytest.mark.parametrize("engine", ["crun"], indirect=True)
def test_twenty_together_write_and_see_only_their_own(engine, debian):
    """Started at one time, each on a view of one snapshot; it stays as it
    was, and so does the origin."""
    store = engine.store
    count = 20
    snapshot = store.load(debian)
    script = ("echo $0 >> /etc/who; echo $0 > /opt/own-$0; cp -r /etc /opt/; "
              "sleep 2; echo $(cat /etc/who) $(ls /opt) "
              "$(ls -d /opt/etc/who)")
    views = [store.mount("base", f"e{i}") for i in range(count)]
    began = time.monotonic()
    children = [engine.spawn(view, f"c{i}", ["sh", "-c", script, str(i)])
                for i, view in enumerate(views)]
    for i, child in enumerate(children):
        result = store.finish(child, 120)
        assert result.out == f"{i} etc own-{i} /opt/etc/who\n", result
    assert time.monotonic() - began < 120
    for i, view in enumerate(views):
        assert store.sh(view, "cat etc/who; ls opt").lines() == \
            [str(i), "etc", f"own-{i}"]
    store.run("umount", "--all", "--discard", limit=120)
    fresh = store.mount("base", "fresh")
    assert store.run("diff", "fresh").out == ""
    store.sh(fresh, "! [ -e etc/who ] && ! ls opt/* 2>/dev/null")
    assert store.load(debian, "again") == snapshot


# --- images ------------------------------------------------------------------

def test_an_unpacked_image_is_a_root_like_any(cowfs, small):
    """What umoci makes of an image, by its own config.json."""
    skip_unless(shutil.which("umoci"), "umoci")
    skip_unless(have_fuse(), "fuse")
    engine = Engine(cowfs, "runc")
    layout, bundle = engine.folder / "images", engine.folder / "unpacked"
    for argv in (["init", "--layout", layout],
                 ["new", "--image", f"{layout}:t"],
                 ["insert", "--image", f"{layout}:t", small, "/"],
                 ["unpack", "--image", f"{layout}:t", bundle]):
        engine.call(["umoci", *argv])
    cowfs.load(bundle / "rootfs")
    view = cowfs.mount("base", "e")
    config = json.loads((bundle / "config.json").read_text())
    config["root"]["path"] = view
    config["process"].update(terminal=False,
                             args=["sh", "-c", "cat /etc/os-release"])
    (bundle / "config.json").write_text(json.dumps(config))
    try:
        out = engine.call(["runc", "--root", engine.folder / "state", "run",
                           "-b", bundle, "image"])
        assert out.out == 'NAME="small"\n'
    finally:
        engine.end()
