# SPDX-License-Identifier: MIT
"""fsck and its repair beside other commands: what was acknowledged stays, and
nobody is told of damage that there is not."""
import fcntl
import os
import random
import re
import shutil
import signal
import threading
import time

import pytest
from damage import flip, full  # noqa: F401
from helpers import one_line_error, wait_until

FEW, MANY = 6, 60


def refs(store):
    return {r for row in store.run("snapshots", "--json").json()
            for r in row["refs"]}


def test_a_name_that_is_set_during_a_repair_waits_and_tells(full):
    """With the old index open it would be lost."""
    with open(full.path / "server.lock") as keep:  # so no server starts
        fcntl.flock(keep, fcntl.LOCK_EX)
        guard = os.open(full.path / "index", os.O_RDONLY)
        fcntl.flock(guard, fcntl.LOCK_EX)
        child = full.spawn(["cowfs", "tag", "one", "late"])
        wait_until(lambda: child.poll() is not None or any(
            "flock" in open(f"/proc/{child.pid}/wchan").read() or
            "locks" in open(f"/proc/{child.pid}/wchan").read()
            for _ in "x"), 20, "the command waits")
        assert child.poll() is None
        # As a repair does it.
        shutil.copytree(full.path / "index", full.path / "index.new")
        (full.path / "index").rename(full.path / "old")
        (full.path / "index.new").rename(full.path / "index")
        os.close(guard)
        result = full.finish(child, 30)
    assert result.code == 3 and one_line_error(result), result
    assert "run the command again" in result.err
    assert "late:latest" not in refs(full)
    full.run("tag", "one", "late")
    assert "late:latest" in refs(full)


def waits_for(full, verb, *args):
    """A command that waits for STORE/lock while the index is replaced."""
    with open(full.path / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        child = full.spawn(["cowfs", verb, *args])
        name = f"{os.stat(full.path / 'lock').st_ino}"
        wait_until(lambda: re.search(rf"-> FLOCK.*:{name} ",
                                     open("/proc/locks").read()), 20,
                   "the command waits")
        shutil.copytree(full.path / "index", full.path / "index.new")
        (full.path / "index").rename(full.path / "old")
        (full.path / "index.new").rename(full.path / "index")
    result = full.finish(child, 30)
    assert result.code == 3 and one_line_error(result), result
    assert "run the command again" in result.err


def test_an_import_that_waited_for_a_repair_tells(full, tmp_path):
    waits_for(full, "import", str(tmp_path / "top"), "-t", "late")
    assert "late:latest" not in refs(full)


def test_a_gc_that_waited_for_a_repair_deletes_nothing(full, tmp_path):
    """By the old index it would take new segments for nobody's."""
    waits_for(full, "gc")
    (tmp_path / "top/more").write_text("more")
    full.load(tmp_path / "top", "later")
    assert full.run("fsck").out == "0 problems\n"


def in_a_loop(stop, wrong, action):
    def run():
        n = 0
        while not stop.is_set():
            try:
                action(n)
            except BaseException as e:  # noqa: B902
                wrong.append(e)
                stop.set()
            n += 1
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def race(full, tmp_path, rounds, check):
    """Sets and removes names, imports and collects while `check` runs."""
    stop, wrong, kept = threading.Event(), [], set()
    trees = [tmp_path / f"tree{i}" for i in range(2)]
    for i, tree in enumerate(trees):
        tree.mkdir()

    def acknowledged(*args):
        result = full.run(*args, expect=None)
        assert result.code in (0, 3, 4), result
        assert result.code == 0 or one_line_error(result), result
        return result.code == 0

    def names(n):
        name = f"n{n}"
        if acknowledged("tag", "one", name) and n % 2:
            kept.add(f"{name}:latest")
        elif acknowledged("rm", name):
            kept.discard(f"{name}:latest")

    def importing(i):
        def action(n):
            (trees[i] / f"f{n % 5}").write_text(f"{i} {n}\n" * 200)
            if acknowledged("import", trees[i], "-t", f"i{i}:v{n}"):
                kept.add(f"i{i}:v{n}")
            if n > 3 and acknowledged("rm", f"i{i}:v{n - 3}"):
                kept.discard(f"i{i}:v{n - 3}")
        return action

    def collecting(n):
        acknowledged("gc", "--grace", "0")

    threads = [in_a_loop(stop, wrong, a) for a in
               (names, importing(0), importing(1), collecting)]
    try:
        for n in range(rounds):
            if stop.is_set():
                break
            check(n)
    finally:
        stop.set()
        for thread in threads:
            thread.join(120)
    assert not wrong, wrong
    assert full.run("fsck").out == "0 problems\n"
    assert kept <= refs(full), kept - refs(full)


def check_only(full):
    def check(n):
        result = full.run("fsck", limit=120)
        assert result.out.endswith("0 problems\n"), result
    return check


def repair(full):
    """Damages what only the copies can give back, and repairs."""
    def check(n):
        if n % 2:
            (full.path / "copies/log").unlink(missing_ok=True)
            result = full.run("fsck", "--repair", expect=None, limit=120)
            assert result.code in (0, 4), result
            return
        with open(full.path / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            time.sleep(0.05)
    return check


def test_a_check_beside_everything(full, tmp_path):
    race(full, tmp_path, FEW, check_only(full))


@pytest.mark.long
def test_a_check_beside_everything_long(full, tmp_path):
    race(full, tmp_path, MANY, check_only(full))


def test_a_repair_beside_everything(full, tmp_path):
    race(full, tmp_path, FEW, repair(full))


@pytest.mark.long
def test_a_repair_beside_everything_long(full, tmp_path):
    race(full, tmp_path, MANY, repair(full))


def break_much(full):
    rng = random.Random(2)
    data = full.path / "index/data.mdb"
    for _ in range(20):
        flip(data, rng.randrange(data.stat().st_size), rng.randrange(8))
    flip(full.path / "envs/e/journal", 300, 0)


def tear_down_and_repair(full, delay):
    """Kills a repair after some time; True when it was not done yet."""
    child = full.spawn(["cowfs", "fsck", "--repair"])
    time.sleep(delay)
    done = child.poll() is not None
    if not done:
        os.killpg(child.pid, signal.SIGKILL)
    full.finish(child, 30)
    return not done


@pytest.mark.parametrize("ms", [0, 5, 10, 15, 20, 30, 40, 60])
def test_a_repair_that_is_killed_is_made_again(full, ms):
    before = full.run("snapshots", "--json").out
    break_much(full)
    tear_down_and_repair(full, ms / 1000)
    full.run("fsck", "--repair")
    assert full.run("fsck").out == "0 problems\n"
    assert full.run("snapshots", "--json").out == before
    # A second one has nothing to do.
    kept = sorted(os.listdir(full.path / "quarantine"))
    assert full.run("fsck", "--repair").out == "0 problems\n"
    assert sorted(os.listdir(full.path / "quarantine")) == kept
