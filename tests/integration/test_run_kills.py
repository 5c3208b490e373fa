# SPDX-License-Identifier: MIT
"""run: what is killed, the sandbox or who starts it, leaves nothing behind."""
import os
import random
import secrets
import shutil
import signal
import time

import pytest

import mountpoint
import residue
from conftest import skip_unless

OPTIONS = ["--net", "none", "--memory", "1G", "--pids", "300"]
ROUNDS = int(os.environ.get("COWFS_KILLS_ROUNDS", "8"))
SEED = int(os.environ.get("COWFS_KILLS_SEED", secrets.randbits(30)))


@pytest.fixture
def box(cowfs, tree):
    """An environment with a name that nobody else's groups have."""
    skip_unless(shutil.which("bwrap"), "bwrap")
    skip_unless(os.geteuid() == 0, "root")
    home = cowfs.folder / "home"
    home.mkdir()
    cowfs.env["HOME"] = str(home)
    cowfs.name = "k" + secrets.token_hex(4)
    cowfs.load(tree)
    return cowfs


def run(box, *argv, **kw):
    return box.run("run", *OPTIONS, box.name, "--", *argv, **kw)


def nothing_left(box):
    # bubblewrap's own process sees the end of the sandbox a moment later.
    mountpoint.wait_until(lambda: not mountpoint.boxes_of(box.folder), 5)
    assert residue.control_groups([box.name]) == []


@pytest.mark.parametrize("verb", ["kill", "umount"])
def test_a_sandbox_that_was_killed(box, verb):
    box.mount("base", box.name)
    run(box, "true")
    assert len(residue.control_groups([box.name])) == 2
    for pid in mountpoint.boxes_of(box.folder):
        os.kill(pid, signal.SIGKILL)
    mountpoint.wait_until(lambda: not mountpoint.boxes_of(box.folder))
    box.run(verb, box.name)
    nothing_left(box)


@pytest.mark.parametrize("verb", ["kill", "umount", "run"])
def test_a_start_that_is_killed(box, verb):
    """At any time in the first tenth of a second."""
    draw = random.Random(f"{SEED} {verb}")
    print("COWFS_KILLS_SEED", SEED)
    for _ in range(ROUNDS):
        box.mount("base", box.name)
        child = box.spawn(["cowfs", "run", *OPTIONS, box.name, "--",
                           "sleep", "1000"])
        time.sleep(draw.random() / 10)
        os.kill(child.pid, signal.SIGKILL)
        if verb == "run":
            assert run(box, "echo", "there").out == "there\n"
        elif verb == "kill":
            box.run("kill", box.name)
            nothing_left(box)
        box.run("umount", box.name, "--discard")
        nothing_left(box)
        box.finish(child, 10)
