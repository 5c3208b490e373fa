# SPDX-License-Identifier: MIT
"""Space and memory come back: builds and cleans, many environments."""
import os

import pytest
from helpers import PYTHON, wait_until

# Builds, cleans, builds... and leaves the last build.
BUILDS = r"""
import os, random, shutil, sys
rounds = int(sys.argv[1])
rng = random.Random(1)
sources = {f"src/f{i}": rng.randbytes(rng.randrange(60000)) for i in range(60)}
os.mkdir("src")
for name, data in sources.items():
    open(name, "wb").write(data)
for n in range(rounds):
    os.makedirs("build/deps")
    for i in range(80):
        with open(f"build/o{i}", "wb") as f:
            f.write(rng.randbytes(rng.randrange(40000)))
        with open(f"build/deps/d{i}.tmp", "w") as f:
            f.write(f"{n} " * 300)
        os.rename(f"build/deps/d{i}.tmp", f"build/deps/d{i}")
    with open("build/all", "wb") as out:
        for i in range(80):
            out.write(open(f"build/o{i}", "rb").read())
    os.truncate("build/all", 100000)
    if n + 1 < rounds:
        shutil.rmtree("build")
live = 0
for folder, _, names in os.walk("."):
    for name in names:
        live += os.lstat(os.path.join(folder, name)).st_size
print(live)
"""


def stored(store, env):
    """Bytes on the disk."""
    folder = store.path / "envs" / env
    return sum(f.stat().st_blocks * 512 for f in folder.rglob("*"))


def empty_tree(store, tmp_path):
    (tmp_path / "empty").mkdir()
    store.load(tmp_path / "empty")


def test_space_of_builds_comes_back(cowfs, tmp_path):
    empty_tree(cowfs, tmp_path)
    point = cowfs.mount("base", "e")
    out = cowfs.inside(point, [PYTHON, "-c", BUILDS, "100"], limit=400).out
    live = int(out)
    wait_until(lambda: stored(cowfs, "e") <= 1.5 * live, 20,
               f"{stored(cowfs, 'e')} bytes on the disk for {live}")
    cowfs.run("umount", "e", "--keep")
    assert stored(cowfs, "e") <= 1.5 * live


class Server:
    def __init__(self, store):
        self.pid = store.server_pid()

    def memory(self):
        """Its own, that is, without pages of the index's file."""
        with open(f"/proc/{self.pid}/smaps_rollup") as f:
            return sum(int(line.split()[1]) * 1024 for line in f
                       if line.startswith(("Anonymous:", "Swap:")))

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def come_and_go(store, first, count):
    """Environments are made, used and destroyed, 25 at a time."""
    for start in range(first, first + count, 25):
        names = [f"x{i}" for i in range(start, start + 25)]
        for name in names:
            point = store.mount("base", name)
            if int(name[1:]) % 5 == 0:
                store.sh(point, "seq 3000 > new; mkdir d; mv a.txt d; sync d")
        store.run("umount", *names, "--discard", limit=120)


def check_return(store, tree, first, count):
    """After the first ones malloc has what it needs."""
    store.load(tree)
    store.mount("base", "stays")
    server = Server(store)
    come_and_go(store, 0, first)
    before = server.memory(), server.threads(), server.files()
    come_and_go(store, first, count)
    wait_until(lambda: (server.threads(), server.files()) <= before[1:], 20,
               f"{server.threads(), server.files()} are {before[1:]} again")
    assert server.memory() <= before[0] + (1 << 20), (
        server.memory(), before[0])
    wait_until(lambda: not os.listdir(store.path / "trash"), 10, "trash")


def test_nothing_of_many_environments_stays(cowfs, tree):
    check_return(cowfs, tree, 150, 150)


@pytest.mark.long
def test_nothing_of_a_thousand_environments_stays(cowfs, tree):
    check_return(cowfs, tree, 250, 1000)


def test_an_idle_environment_costs_little(cowfs, tree):
    cowfs.load(tree)
    cowfs.mount("base", "first")
    server = Server(cowfs)
    before = server.memory()
    for i in range(100):
        cowfs.mount("base", f"x{i}")
    each = (server.memory() - before) / 100
    print(f"{each:.0f} bytes each")
    assert each <= 64 << 10
