# SPDX-License-Identifier: MIT
"""umount with the server, its keeper or the command killed: at every write and
sync, and at any time. Afterwards the environment is there, or a rescue of it;
and whatever rescue is there is whole.
"""
import os
import random
import signal
import time

import mountpoint
import pytest
from helpers import listing, wait_until
from test_cut import KILL, TEAR, Faults, settle
from test_rescue import CHANGES, envs, rescues

PLACES_MAX = 500
ROUNDS = 25  # of each victim


def restored(store, rescue):
    """What a rescue has, by an environment made of it."""
    store.run("rescue", "restore", rescue, "look")
    found = listing(store, store.mount("look"), "--content")
    store.run("umount", "look", "--discard")
    return found


def assert_nothing_lost(store, before):
    """Returns whether the environment was destroyed."""
    found = rescues(store)
    for row in found:
        assert restored(store, row["rescue"]) == before, row
    if "e" in envs(store):
        assert listing(store, store.mount("e"), "--content") == before
        store.run("umount", "e", "--discard")
        return False
    assert found, "neither an environment nor a rescue"
    return True


def forget(store):
    for row in rescues(store):
        store.run("rescue", "drop", row["rescue"])


def tidy(store):
    forget(store)
    store.run("gc", "--grace", "0")
    store.run("daemon", "stop")
    assert store.run("fsck").out == "0 problems\n"


def changed(store):
    point = store.mount("base", "e")
    store.sh(point, CHANGES)
    return listing(store, point, "--content")


def cut(store, faults, what, nth):
    before = changed(store)
    faults.arm(what, nth)
    store.run("umount", "e", expect=None)
    store.run("daemon", "stop", expect=None)
    was_cut = faults.disarm()
    settle(store)
    checked = store.run("fsck", expect=None)
    assert checked.code == 0 or "E10" in checked.out, checked
    gone = assert_nothing_lost(store, before)
    assert was_cut or gone
    tidy(store)
    return was_cut


def cut_everywhere(store, tree, what, step):
    faults = Faults(store)
    store.load(tree)
    nth = what if step > 1 else 1
    while cut(store, faults, what, nth):
        nth += step
        assert nth < PLACES_MAX
    print(f"{nth - 1} places")
    assert nth > 20


@pytest.mark.parametrize("what", [KILL, TEAR])
def test_killed_at_a_write_or_sync(cowfs, tree, what):
    cut_everywhere(cowfs, tree, what, 9)


@pytest.mark.long
@pytest.mark.parametrize("what", [KILL, TEAR])
def test_killed_at_any_write_or_sync(cowfs, tree, what):
    cut_everywhere(cowfs, tree, what, 1)


def umount_takes(store):
    """Seconds."""
    changed(store)
    start = time.monotonic()
    store.run("umount", "e")
    took = time.monotonic() - start
    forget(store)
    return took


def kill_while_unmounting(store, victim, delay):
    before = changed(store)
    server = store.server_pid()
    child = store.spawn(["cowfs", "umount", "e"])
    time.sleep(delay)
    try:
        os.kill(server if victim == "server" else child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    store.finish(child, 30)
    if victim == "server":
        wait_until(lambda: not mountpoint.alive(server), 10, "server ended")
        settle(store)
    # its view ends with a killed command
    wait_until(lambda: not [n for n in os.listdir(store.path / "mnt")
                            if n.startswith(".view")], 10, "no view is left")
    assert_nothing_lost(store, before)
    forget(store)


def kill_often(store, tree, rounds):
    store.load(tree)
    seed = int(os.environ.get("COWFS_KILLS_SEED", random.randrange(10**6)))
    print(f"COWFS_KILLS_SEED={seed}")
    rng = random.Random(seed)
    limit = max(umount_takes(store), umount_takes(store)) * 1.2
    for i in range(rounds):
        for victim in ("server", "command"):
            # spread over the whole, with some noise
            delay = limit * (i + rng.random()) / rounds
            kill_while_unmounting(store, victim, delay)
    tidy(store)


def test_killed_at_some_time(cowfs, tree):
    kill_often(cowfs, tree, 4)


@pytest.mark.long
def test_killed_at_any_time(cowfs, tree):
    kill_often(cowfs, tree, ROUNDS)
