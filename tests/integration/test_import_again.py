# SPDX-License-Identifier: MIT
"""import again: only what changed is read; whatever was interrupted or ran at
the same time, the next import is right."""
import os
import random
import signal
import time

import pytest
from helpers import assert_same_tree


def settle():
    """Lets files become older than a clock's tick."""
    time.sleep(0.4)


def imported(store, path, *args):
    return store.run("--json", "import", path, *args, limit=300).json()[0]


def remembering(folder):
    """Whether imports of this folder remember: see import_scan.c."""
    best = ("", "")
    with open("/proc/self/mountinfo") as f:
        for line in f:
            fields = line.split(" ")
            point = fields[4].rstrip("/") + "/"
            if (str(folder) + "/").startswith(point) and point >= best[0]:
                best = (point, line.split(" - ")[1].split(" ")[0])
    return best[1] in ("ext4", "xfs", "btrfs", "f2fs")


@pytest.fixture
def wide(tmp_path):
    """1,200 files in 40 directories, and one large file."""
    top = tmp_path / "wide"
    for d in range(40):
        (top / f"d{d}/e").mkdir(parents=True)
        for i in range(30):
            (top / f"d{d}/e/f{i}").write_text(f"{d} {i}\n" * 100)
    (top / "large").write_bytes(random.Random(1).randbytes(5 << 20))
    settle()
    return top


def test_one_changed_file_costs_that_file_and_its_directories(plain, wide):
    first = imported(plain, wide)
    again = imported(plain, wide)
    assert again["id"] == first["id"] and again["stored_bytes"] == 0
    assert again["unchanged"] == (1201 if remembering(wide) else 0)
    (wide / "d7/e/f3").write_text("changed\n")
    changed = imported(plain, wide)
    assert changed["id"] != first["id"]
    assert changed["unchanged"] == (1200 if remembering(wide) else 0)
    # The file, three directories of 30, 1 and 41 entries, the snapshot.
    assert changed["stored_bytes"] < 12000
    assert imported(plain, wide, "--rescan") == dict(
        changed, unchanged=0, stored_bytes=0)


def test_ids_are_those_of_a_store_that_remembers_nothing(new_store, wide):
    one, other = new_store(), new_store()
    rng = random.Random(7)
    for i in range(12):
        path = wide / f"d{rng.randrange(40)}/e/f{rng.randrange(30)}"
        what = rng.randrange(5)
        if what == 0:
            path.write_text(f"{i}\n")
        elif what == 1 and path.exists():
            path.unlink()
        elif what == 2 and path.exists():
            path.chmod(0o600 | i)
        elif what == 3 and path.exists():
            path.rename(wide / f"moved{i}")
        elif path.exists():
            os.link(path, wide / f"linked{i}")
        assert one.load(wide) == other.load(wide, "base", "--rescan")


def test_mount_of_a_path_sees_what_changed(cowfs, tree):
    settle()
    first = cowfs.mount(f"{tree}/", "one")
    (tree / "a.txt").write_text("ALPHA\n")
    (tree / "src/f01.c").unlink()
    second = cowfs.mount(f"{tree}/", "two")
    assert cowfs.sh(first, "cat a.txt; ls src/f01.c").out == (
        "alpha\nsrc/f01.c\n")
    assert_same_tree(cowfs, tree, second)


def test_two_imports_of_one_tree_at_once(new_store, wide):
    want = new_store().load(wide)
    for _ in range(4):
        store = new_store()
        for again in range(3):
            children = [store.spawn(["cowfs", "import", str(wide)])
                        for _ in range(3)]
            for child in children:
                result = store.finish(child, 120)
                assert result.code == 0 and result.out.strip() == want, result
            (wide / "d1/e/f1").touch()
            settle()
            want = new_store().load(wide)


@pytest.mark.parametrize("rounds", [
    16, pytest.param(40, marks=pytest.mark.long)])
def test_killed_imports_leave_nothing_that_matters(plain, new_store, wide,
                                                   rounds):
    want = new_store().load(wide)
    rng = random.Random(3)
    begin = time.monotonic()
    imported(plain, wide)
    whole = time.monotonic() - begin
    for i in range(rounds):
        # A changed tree each time, so that there is something to store.
        (wide / "large").write_bytes(rng.randbytes(5 << 20))
        (wide / f"d{i}/e/f0").write_text(f"round {i}\n")
        args = ["--rescan"] if i % 2 else []
        child = plain.spawn(["cowfs", "import", str(wide), *args])
        time.sleep(rng.uniform(0, whole * 1.2))
        child.send_signal(signal.SIGINT if i % 3 == 0 else signal.SIGKILL)
        plain.finish(child, 30)
        if i % 8 == 0:
            settle()
            want = new_store().load(wide)
            assert plain.load(wide) == want
            assert imported(plain, wide)["id"] == want
    plain.run("snapshots")
    # Nothing stands beside the store, nor in it but what it is made of.
    beside = [n for n in os.listdir(plain.path.parent) if ".new-" in n]
    assert not beside, beside
    known = {"format", "lock", "index", "index.clean", "segments", "copies",
             "envs", "trash", "scans"}
    assert set(os.listdir(plain.path)) <= known
    assert imported(plain, wide)["id"] == new_store().load(wide)
