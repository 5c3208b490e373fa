# SPDX-License-Identifier: MIT
"""Disks that give no room, or take no writes: a repair says so in one line and
loses nothing; `rm` and `gc` make room out of none."""
import os
import shutil
import subprocess

import pytest
from damage import copy_and_look, check_reads, flip, full  # noqa: F401
from helpers import one_line_error, store_state
from test_full import free_bytes, small_disk  # noqa: F401
from test_refusals import data_gone, page_damaged, ref_damaged, set_bytes


def middle_of_a_segment(s):
    path = next((s / "segments").iterdir())
    flip(path, path.stat().st_size // 2, 1)


DAMAGES = {
    "index-gone": data_gone,
    "index-folder-gone": lambda s: shutil.rmtree(s / "index"),
    "page": page_damaged,
    "ref": lambda s: ref_damaged(s, b"two:latest"),
    "segment": middle_of_a_segment,
    "segment-header": lambda s: set_bytes(
        next((s / "segments").iterdir()), 4, b"\xff"),
    "copies": lambda s: flip(s / "copies/log", 100, 0),
    "copies-gone": lambda s: shutil.rmtree(s / "copies"),
    "journal": lambda s: flip(s / "envs/e/journal", 300, 0),
    "journal-torn": lambda s: (s / "envs/e/journal").write_bytes(
        (s / "envs/e/journal").read_bytes() + b"torn"),
    "format": lambda s: set_bytes(s / "format", 12, b"2"),
    "settings": lambda s: set_bytes(s / "settings", 0, b"\0\1\2"),
}
# What is mended by something new beside the old.
NEED_ROOM = {"index-gone", "index-folder-gone", "page", "ref"}
FAST = {"index-gone", "segment", "copies", "journal", "format"}
each_damage = pytest.mark.parametrize("kind", [
    pytest.param(k, marks=[] if k in FAST else pytest.mark.long)
    for k in DAMAGES])


def fill_the_disk(store):
    """Another's file takes every block."""
    foreign = store.path.parent / "foreign"
    with open(foreign, "wb", buffering=0) as f:
        for size in (1 << 20, 4096, 512):
            with pytest.raises(OSError):
                while True:
                    f.write(bytes(size))
        os.fsync(f.fileno())
    assert free_bytes(store) == 0
    return foreign


def look(store, originals):
    """All that a repair has brought back."""
    seen = (store.run("snapshots", "--json", expect=None).out,
            check_reads(store, originals),
            store.run("mount", "e", expect=None).code)
    if seen[2] == 0:
        seen += (store.sh(store.path / "mnt/e", "ls -la --time-style=+; cat new g; "
                          "getfattr -d new").out,)
        store.run("umount", "e", "--keep")
    store.run("daemon", "stop")
    store.log_skip = [r"inode \d+: ", "damage", "server: ", "keeper: ",
                      "cannot"]
    return seen


def repair(store):
    result = store.run("fsck", "--repair", expect=None)
    assert result.code in (0, 1), result
    return result


@each_damage
def test_a_repair_on_a_full_disk(small_disk, full, kind):
    """It may find the room it needs, or not; with room, all comes back."""
    damage = DAMAGES[kind]
    copy, originals = copy_and_look(full)
    damage(full.path)
    there = repair(full)
    wanted = look(full, originals)
    copy.fresh()
    damage(full.path)
    foreign = fill_the_disk(full)
    for _ in range(2):
        result = full.run("fsck", "--repair", expect=None)
        assert result.code in (there.code, 3), result
        assert result.code == 3 or kind not in NEED_ROOM, result
        if result.code == 3:
            lines = result.err.splitlines()
            assert len(lines) <= 2, result
            assert lines[0].startswith("cowfs fsck: "), result
            assert "No space left" in lines[0] or "full" in lines[0], result
    foreign.unlink()
    assert repair(full).code == there.code
    assert look(full, originals) == wanted
    assert full.run("fsck", expect=None).code == there.code


@each_damage
def test_a_repair_on_a_read_only_disk(small_disk, full, kind):
    DAMAGES[kind](full.path)
    point = full.path.parent
    found = full.run("fsck", expect=1)
    before = store_state(full.path)
    subprocess.run(["mount", "-o", "remount,ro", point], check=True)
    try:
        result = full.run("fsck", "--repair", expect=3)
        assert one_line_error(result), result
        assert "ead-only" in result.err, result
        assert full.run("fsck", expect=1).out == found.out
    finally:
        subprocess.run(["mount", "-o", "remount,rw", point], check=True)
    assert store_state(full.path) == before
    repair(full)


# --- rm and gc --------------------------------------------------------------

def many(folder, files, size, seed):
    """Files of which none is like another."""
    for i in range(files):
        path = folder / f"d{i % 50}" / f"f{i}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"{seed} {i}\n".encode() * size)
    return folder


@pytest.mark.parametrize("shape", [
    pytest.param((12, 200000), id="large", marks=pytest.mark.long),
    pytest.param((6000, 10), id="small", marks=pytest.mark.long),
    pytest.param((2000, 500), id="both")])
def test_room_by_rm_and_gc(small_disk, tree, tmp_path, shape):
    """Not one block is left, and what is to go lies between what stays."""
    cowfs = small_disk
    gone = many(tmp_path / "gone", *shape, "gone")
    stays = many(tmp_path / "stays", 3000, 5, "stays")
    cowfs.load(tree)
    cowfs.load(gone, "gone")
    cowfs.load(stays, "stays")
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo hello > hello; sync hello")
    cowfs.run("umount", "e", "--keep")
    cowfs.run("daemon", "stop")
    own = next(r["own_bytes"] for r in cowfs.run("--json", "df").json()
               if r.get("refs") == ["gone:latest"])
    fill_the_disk(cowfs)
    cowfs.run("rm", "gone")
    out = cowfs.run("gc")
    # What is left of it: a block here and there between what stays.
    assert free_bytes(cowfs) > own * 0.9 > 1 << 20, (out, own)
    assert cowfs.run("fsck").out == "0 problems\n"
    assert [r["name"] for r in cowfs.run("--json", "ps").json()] == ["e"]
    assert cowfs.sh(cowfs.mount("e"), "cat hello").out == "hello\n"
    cowfs.sh(cowfs.mount("stays", "s"), f"diff -r . {stays}")
    cowfs.run("umount", "--all", "--discard")
    (cowfs.path.parent / "foreign").unlink()
    cowfs.run("gc")
    assert cowfs.run("fsck").out == "0 problems\n"
    cowfs.sh(cowfs.mount("stays", "s"), f"diff -r . {stays}")


def test_many_names_go_on_a_full_disk(small_disk, tree):
    """More commits than there are blocks for: pages are used again."""
    cowfs = small_disk
    cowfs.load(tree)
    for i in range(60):
        cowfs.run("tag", "base", f"n{i}")
    fill_the_disk(cowfs)
    for i in range(60):
        cowfs.run("rm", f"n{i}")
    rows = cowfs.run("snapshots", "--json").json()
    assert [r["refs"] for r in rows] == [["base:latest"]]
    assert cowfs.run("fsck").out == "0 problems\n"


def test_a_store_without_blocks_of_its_own(small_disk, tree, tmp_path):
    """As one that earlier programs made: what fails says why, all stays."""
    cowfs = small_disk
    cowfs.load(tree)
    cowfs.load(many(tmp_path / "gone", 400, 3, "gone"), "gone")
    for name in ("index/data.mdb", "copies/log"):
        path = cowfs.path / name
        os.truncate(path, path.stat().st_size)
        assert path.stat().st_blocks * 512 < path.stat().st_size + 65536
    foreign = fill_the_disk(cowfs)
    base = next(r["id"] for r in cowfs.run("snapshots", "--json").json()
                if "base:latest" in r["refs"])
    for args in (["tag", "base", "x"], ["rm", "gone"],
                 ["gc", "--grace", "0"], ["settings", "--grace", "3"]):
        result = cowfs.run(*args, expect=None)
        assert result.code in (0, 3), result
        if result.code == 3:
            assert one_line_error(result), result
            assert "No space left" in result.err or "full" in result.err
    foreign.unlink()
    cowfs.run("tag", "base", "y")
    kept = {r["id"] for r in cowfs.run("snapshots", "--json").json()}
    assert base in kept
    assert cowfs.run("fsck").out == "0 problems\n"
    cowfs.run("rm", "gone", expect=None)
    cowfs.run("gc")
    cowfs.sh(cowfs.mount("base", "e"), f"diff -r --no-dereference . {tree}")
