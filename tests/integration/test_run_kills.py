# SPDX-License-Identifier: MIT
"""run: what is killed, the sandbox or who starts it, leaves nothing behind."""
import concurrent.futures
import os
import random
import secrets
import signal
import time

import pytest

import mountpoint
import residue

OPTIONS = ["--net", "none", "--memory", "1G", "--pids", "300"]
ROUNDS = int(os.environ.get("COWFS_KILLS_ROUNDS", "5"))
SEED = int(os.environ.get("COWFS_KILLS_SEED", secrets.randbits(30)))


@pytest.fixture
def box(as_root, loaded):
    """An environment with a name that nobody else's groups have."""
    loaded.name = "k" + secrets.token_hex(4)
    return loaded


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


def test_runs_beside_a_kill(box):
    """Each prints, in the old sandbox or the next one, or was killed."""
    draw = random.Random(SEED)
    box.mount("base", box.name)

    def work(is_kill, delay):
        time.sleep(delay)
        if is_kill:
            return box.run("kill", box.name)
        return run(box, "sh", "-c", "sleep 0.05; echo there", expect=None)

    for _ in range(ROUNDS):
        run(box, "true")
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            done = list(pool.map(work, [True] + [False] * 5,
                                 [draw.random() / 10 for _ in range(6)]))
        for result in done[1:]:
            assert result.out == "there\n" or result.code in (137, 143), \
                (SEED, result)
    box.run("umount", box.name, "--discard")
    nothing_left(box)
