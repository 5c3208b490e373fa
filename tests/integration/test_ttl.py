# SPDX-License-Identifier: MIT
"""--ttl: a mount ends when its time is over, and nothing is lost with it."""
import time

import mountpoint
from helpers import wait_until


def rows(store):
    return {r["name"]: r for r in store.run("--json", "ps").json()}


def mounted(store, point):
    return point in mountpoint.mounts_below(store.folder)


def test_it_is_unmounted_and_kept(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e", "--ttl", "2s")
    other = cowfs.mount("base", "f", "--ttl", "1h")
    cowfs.sh(point, "echo work > new")
    cowfs.py(point, """
        fd = os.open('mapped', os.O_RDWR | os.O_CREAT)
        os.ftruncate(fd, 8192)
        m = mmap.mmap(fd, 8192)
        m[5000] = 77  # and written back by the unmount
    """)
    left = rows(cowfs)["f"]["expires"] - time.time()
    assert 3500 < left <= 3601 and rows(cowfs)["f"]["ttl"] == 3600
    wait_until(lambda: not mounted(cowfs, point), 15, "unmounted")
    wait_until(lambda: rows(cowfs)["e"]["state"] == "kept", 5)
    wait_until(lambda: "e: its ttl is over: unmounted and kept" in
               cowfs.log(), 5, "told in the log")
    assert mounted(cowfs, other)
    # It has the time anew, from the next mount on.
    assert "expires" not in rows(cowfs)["e"]
    assert rows(cowfs)["e"]["ttl"] == 2
    cowfs.mount("e")
    cowfs.run("set", "e", "--ttl", "none")
    assert cowfs.sh(point, "cat new; od -An -tu1 -j5000 -N1 mapped").out == \
        "work\n  77\n"
    assert "ttl" not in rows(cowfs)["e"]


def test_one_that_is_busy_is_tried_again(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    user = cowfs.start_inside(point, ["sh", "-c",
                                      "echo in; read x; echo late > last"],
                              60, stdin=-1)
    assert user.stdout.readline() == b"in\n"
    cowfs.run("set", "e", "--ttl", "1")
    wait_until(lambda: "busy" in cowfs.log(), 15, "tried")
    line = [x for x in cowfs.log().splitlines() if "its ttl is over" in x]
    assert f"{point}" in line[0] and " sh " in line[0], line
    assert mounted(cowfs, point)
    assert rows(cowfs)["e"]["expires"] <= time.time()
    assert "ttl: 1s, over, still busy" in cowfs.run("show", "e").lines()
    assert " over " in cowfs.run("ps").lines()[1]
    # Nothing was ended, and the user may write.
    assert cowfs.finish(user, 20, b"\n").code == 0
    wait_until(lambda: not mounted(cowfs, point), 20, "unmounted")
    wait_until(lambda: rows(cowfs)["e"]["state"] == "kept", 5)
    wait_until(lambda: "unmounted and kept" in cowfs.log(), 5)
    said = [x for x in cowfs.log().splitlines() if "its ttl is over" in x]
    assert len(said) == 2, said  # not one for each try
    cowfs.run("set", "e", "--ttl", "none")
    assert cowfs.sh(cowfs.mount("e"), "cat last").out == "late\n"


def test_more_time_is_given_and_taken(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e", "--ttl", "3")
    cowfs.run("set", "e", "--ttl", "1d")
    time.sleep(5)
    assert mounted(cowfs, point)
    assert rows(cowfs)["e"]["expires"] > time.time() + 80000
    assert cowfs.mount("e", "--ttl", "1") == point  # while it is mounted
    wait_until(lambda: not mounted(cowfs, point), 15, "unmounted")


def test_it_ends_when_the_server_began_idle(cowfs, tree):
    """A server that had nothing to do looks at its clock, too."""
    cowfs.load(tree)
    cowfs.run("daemon", "start")
    time.sleep(1)
    point = cowfs.mount("base", "e", "--ttl", "1", "--ro")
    wait_until(lambda: not mounted(cowfs, point), 10, "unmounted")
