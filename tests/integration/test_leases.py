# SPDX-License-Identifier: MIT
"""Leases of ports and addresses: free, given once, freed at the end."""
import os
import shutil
import socket

import pytest

from helpers import one_line_error, wait_until
from port_case import (COUNT, box, free_port, is_up_bare,  # noqa: F401
                       ports, start)

# --- what is taken -----------------------------------------------------------

def test_a_port_that_is_taken_everywhere_is_refused(box):
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        got = box.run("mount", "base", "e", "--port", str(port), expect=3)
        assert one_line_error(got) and f"port {port}: is taken" in got.err
    assert box.run("--json", "ps").out == ""
    box.mount("base", "e", "--port", str(port))


def test_a_port_that_is_taken_later_is_refused(box):
    port = free_port()
    box.mount("base", "e", "--port", str(port))
    host = ports(box)[0]["host"]
    with socket.create_server((host, port)):
        got = box.run("run", "e", "true", expect=125)
        assert one_line_error(got), got
        assert f"{host}:{port} is taken" in got.err
        box.run("umount", "e", "--keep")
        box.mount("e")
        assert ports(box)[0]["host"] != host
        box.run("run", "e", "true")


def test_a_kept_one_is_mounted_whatever_is_taken(box):
    port = free_port()
    box.mount("base", "e", "--port", str(port))
    box.run("umount", "e", "--keep")
    with socket.create_server(("0.0.0.0", port)):
        box.mount("e")
        assert one_line_error(box.run("run", "e", "true", expect=125))
    box.run("run", "e", "true")


def test_a_low_port_is_for_root(box):
    if os.geteuid() == 0:
        box.mount("base", "e", "--port", "80")
        return
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as f:
        low = int(f.read()) - 1
    if low < 1:
        pytest.skip("users may have all ports here")
    got = box.run("mount", "base", "e", "--port", str(low), expect=3)
    assert one_line_error(got) and "ermission" in got.err


# --- leases ------------------------------------------------------------------

def given(store, env):
    return [(r["host"], r["host_port"]) for r in ports(store, env)]


def test_none_is_given_twice_in_a_rush(box, new_store, tree):
    """Twenty mounts at once in each of two stores, nothing listening."""
    other = new_store()
    other.env["HOME"] = box.env["HOME"]
    other.load(tree)
    children = []
    for i in range(20):
        for store in (box, other):
            net = ["--net", "host"] if i % 2 else ["--port", "3000"]
            children.append(store.spawn(
                ["cowfs", "mount", "base", f"e{i}", *net]))
    for child in children:
        assert box.finish(child, 120).code == 0
    all_given = [("127.0.0.1" if i % 2 else "", place)
                 for store in (box, other) for i in range(20)
                 for place in given(store, f"e{i}")]
    assert len(all_given) == 60
    assert len(set(all_given)) == len(all_given)


def test_what_another_store_has_is_not_given(box, new_store, tree):
    """Nor after both have been away: who comes later gets another one."""
    other = new_store()
    other.load(tree)
    box.mount("base", "e", "--net", "host")
    mine = given(box, "e")
    box.run("umount", "e", "--keep")
    box.run("daemon", "stop")
    # Claimed by somebody else now, as by another store's server.
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with holder:
        holder.bind(f"\0cowfs-lease/{mine[0][1]}")
        box.mount("e")
        now = given(box, "e")
    assert now[0] != mine[0] and now[1] == mine[1]


def test_leases_survive_a_killed_server(box):
    box.mount("base", "e", "--port", "3000")
    box.mount("base", "f", "--net", "host")
    box.run("run", "e", "true")
    before = given(box, "e"), given(box, "f")
    box.kill_server()
    assert (given(box, "e"), given(box, "f")) == before
    box.mount("e")
    box.mount("f")
    assert (given(box, "e"), given(box, "f")) == before
    start(box, "e", "python3", "-c", COUNT)
    wait_until(lambda: is_up_bare(ports(box)[0]), 30)


@pytest.mark.parametrize("end", [["umount", "e"], ["umount", "e", "--discard"],
                                 ["umount", "e", "--keep"]])
def test_leases_end_with_the_environment(box, end):
    box.mount("base", "e", "--net", "host", "--port", "3000")
    port = ports(box)[0]["host_port"]
    box.run("run", "e", "--", "touch", "new")
    box.run(*end)
    if "--keep" in end:
        assert ports(box)[0]["host_port"] == port
        box.run("umount", "e", "--discard")
    assert stray(box) == 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(f"\0cowfs-lease/{port}")  # nobody holds it


def stray(store):
    """Leases that fsck, gc and doctor see without an environment."""
    assert store.run("fsck").out == "0 problems\n"
    return store.run("--json", "gc").json()[0]["leases"]


@pytest.mark.parametrize("by", ["doctor", "gc", "server", "fsck"])
def test_leases_of_what_is_gone_are_freed(box, by):
    box.mount("base", "e", "--net", "host")
    box.run("umount", "e", "--keep")
    box.run("daemon", "stop")
    shutil.rmtree(box.path / "envs/e")
    got = box.run("fsck", expect=1)
    assert got.out.count("S30: ") == 2, got
    assert "2 leases" in box.run("doctor", expect=1).out
    if by == "doctor":
        assert "fixed: " in box.run("doctor", "--fix").out
    elif by == "gc":
        assert box.run("--json", "gc").json()[0]["leases"] == 2
    elif by == "server":
        box.run("daemon", "start")
    else:
        box.run("fsck", "--repair")
    assert stray(box) == 0
