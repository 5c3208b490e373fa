# SPDX-License-Identifier: MIT
"""umount with the server, its keeper or the command killed: at every write and
sync, and at any time. Afterwards the environment is there, or a rescue of it;
and whatever rescue is there is whole. In an origin that is a git repository no
ref is left that `rescue ls` does not know.
"""
import os
import pathlib
import random
import signal
import time

import mountpoint
import pytest
from helpers import listing, wait_until
from test_cut import KILL, TEAR, cut_everywhere, settle
from test_rescue import CHANGES, envs, rescues
from test_rescue_git import GIT_ENV, WORK, git, origin, refs  # noqa: F401

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


def doctor(store, *args, kind="problem"):
    """What it says of this store; others may be in trouble meanwhile."""
    lines = store.run("doctor", *args, expect=None).lines()
    return [t for t in lines if t.startswith(kind + ": ") and
            (str(store.path) in t or "whose ref is in the origin" in t)]


def tidy(store):
    forget(store)
    assert not doctor(store)
    store.run("gc", "--grace", "0")
    store.run("daemon", "stop")
    assert store.run("fsck").out == "0 problems\n"


def changed(store, script=CHANGES):
    point = store.mount("base", "e")
    store.sh(point, script)
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


@pytest.mark.parametrize("what", [KILL, TEAR])
def test_killed_at_a_write_or_sync(cowfs, tree, what):
    cut_everywhere(cowfs, tree, cut, what, 14, at_least=20)


@pytest.mark.long
@pytest.mark.parametrize("what", [KILL, TEAR])
def test_killed_at_any_write_or_sync(cowfs, tree, what):
    cut_everywhere(cowfs, tree, cut, what, 1, at_least=20)


def umount_takes(store, script):
    """Seconds."""
    changed(store, script)
    start = time.monotonic()
    store.run("umount", "e")
    took = time.monotonic() - start
    forget(store)
    return took


def kill_while_unmounting(store, victim, delay, script):
    before = changed(store, script)
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
    return before


def check_refs(store, folder):
    """What stands in the origin is what is known."""
    known = {row["git_ref"]: row["git_commit"] for row in rescues(store)
             if row["where"] == "origin"}
    assert refs(folder) == known
    git(folder, "fsck", "--full", "--strict")


def kill_often(store, folder, rounds, script=CHANGES, check=lambda: None):
    store.load(folder)
    seed = int(os.environ.get("COWFS_KILLS_SEED", random.randrange(10**6)))
    print(f"COWFS_KILLS_SEED={seed}")
    rng = random.Random(seed)
    limit = max(umount_takes(store, script) for _ in range(2)) * 1.2
    for i in range(rounds):
        for victim in ("server", "command"):
            # spread over the whole, with some noise
            delay = limit * (i + rng.random()) / rounds
            before = kill_while_unmounting(store, victim, delay, script)
            check()
            assert_nothing_lost(store, before)
            forget(store)
            check()
    tidy(store)


def test_killed_at_some_time(cowfs, tree):
    kill_often(cowfs, tree, 4)


@pytest.mark.long
def test_killed_at_any_time(cowfs, tree):
    kill_often(cowfs, tree, ROUNDS)


def kill_often_with_an_origin(store, folder, rounds):
    store.env.update(GIT_ENV)
    kill_often(store, folder, rounds, WORK,
               lambda: check_refs(store, folder))


def test_killed_with_an_origin(cowfs, origin):
    kill_often_with_an_origin(cowfs, origin, 2)


@pytest.mark.long
def test_killed_with_an_origin_at_any_time(cowfs, origin):
    kill_often_with_an_origin(cowfs, origin, ROUNDS)


def kill_at_the_ref(store, folder):
    """Kills umount when its ref is there; says whether that was in time."""
    child = store.spawn(["cowfs", "umount", "e"])
    place = pathlib.Path(folder) / ".git/refs/cowfs/rescue"
    while child.poll() is None and not [n for n in os.listdir(place)
                                        if not n.endswith(".lock")]:
        pass
    child.kill()
    store.finish(child, 30)
    # busy while it is at what it was asked for
    wait_until(lambda: store.run("daemon", "stop", expect=None).code == 0, 20,
               "the server has ended")
    return "e" in envs(store)


def kill_until_at_the_ref(store, folder):
    """Returns the row of the rescue whose environment is still there."""
    store.env.update(GIT_ENV)
    store.load(folder)
    (folder / ".git/refs/cowfs/rescue").mkdir(parents=True)
    for _ in range(30):
        changed(store, WORK)
        if kill_at_the_ref(store, folder):
            break
        forget(store)
    (row,) = rescues(store)
    return row


def test_killed_between_ref_and_end(cowfs, origin):
    """The record does not know the commit: it is looked for in the origin."""
    row = kill_until_at_the_ref(cowfs, origin)
    assert row["where"] == "origin" and "e" in envs(cowfs)
    assert refs(origin) == {row["git_ref"]: row["git_commit"]}
    time.sleep(11)  # doctor's grace
    (told,) = doctor(cowfs)
    assert told.startswith(f"problem: {row['rescue']}: ")
    (told,) = doctor(cowfs, "--fix", kind="fixed")
    assert told.startswith(f"fixed: {row['rescue']}: ")
    assert not doctor(cowfs)
    moved = origin.rename(origin.parent / "away")
    assert rescues(cowfs) == [row]  # the record knows now
    moved.rename(origin)
    cowfs.run("umount", "e")
    assert len(rescues(cowfs)) == 2
    forget(cowfs)
    assert not refs(origin)


def test_another_s_ref_is_not_ours(cowfs, origin):
    """A record without a commit claims no ref that somebody else has made."""
    row = kill_until_at_the_ref(cowfs, origin)
    git(origin, "update-ref", row["git_ref"], "HEAD")
    assert [r["where"] for r in rescues(cowfs)] == ["store"]
    forget(cowfs)
    assert list(refs(origin)) == [row["git_ref"]]
    cowfs.run("umount", "e", "--discard")
