# SPDX-License-Identifier: MIT
"""Memory comes back: many environments."""
import os

import pytest
from helpers import wait_until

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
