# SPDX-License-Identifier: MIT
"""Damage is found, named and repaired: single bits all over a store, an index
that is gone, segments that are; and a server does not start on it.

Which bits may flip without a word: those that nobody reads. In the index
tests/support/lmdb_layout.py lists them from the layout of LMDB's pages; the
other files below have a reason beside their names.
"""
import fcntl
import json
import os
import random
import shutil

import mountpoint
import pytest
from damage import (  # noqa: F401
    check_reads, copy_and_look, files_of, flip, full)
from helpers import fewer, listing, one_line_error, wait_until
from test_fsck_envs import xxh3_64

import lmdb_layout

UNUSED_FILES = {
    "index/lock.mdb": "made anew by the first who opens the index",
    "index.clean": "one that does not fit only costs a check of the index",
    "server.log": "for people",
    "scans": "a cache that is not used unless its checksum fits",
    "data": "content of environments has no checksum (format.md)",
}


def places(files, regions, count):
    """Places to flip: each file has its share, and of the index three in
    four are where something is."""
    rng = random.Random(count)
    wanted = [n for n in sorted(files)
              if n not in UNUSED_FILES and not n.endswith("/data")
              and not n.startswith("scans/")]
    for i in range(count):
        # The index has a third of them.
        name = "index/data.mdb" if i % 3 == 0 else wanted[i % len(wanted)]
        offset = rng.randrange(files[name])
        while name == "index/data.mdb" and i % 4 and \
                lmdb_layout.why_unused(regions, offset):
            offset = rng.randrange(files[name])
        yield name, offset, rng.randrange(8)


def hits_of(result):
    rows = result.json()
    return {r["snapshot"] for r in rows if r["kind"] == "hit"}


def check_flip(copy, place, regions, originals, deep):
    store, (name, offset, bit) = copy.store, place
    copy.fresh()
    flip(store.path / name, offset, bit)
    found = copy.run("--json", "fsck")
    assert found.code in (0, 1), (place, found)
    if found.code == 0:
        why = name == "index/data.mdb" and \
            lmdb_layout.why_unused(regions, offset)
        assert why, f"nothing was found: {place}"
    else:
        assert any(r["kind"] == "damage" and r["rule"][0] in "SOE"
                   for r in found.json()), (place, found)
    seen = copy.run("snapshots", "--json")
    assert seen.code in (0, 3), (place, seen)
    assert seen.code or seen.out == copy.snapshots, (place, seen)
    if deep:
        for tag, rows in check_reads(store, originals).items():
            wrong = set(rows or []) - set(originals[tag]) - {"EIO"}
            assert not wrong, (place, wrong)
        copy.run("daemon", "stop")
        store.log_skip = [r"inode \d+: ", "damaged", "server: ", "keeper: "]
    if found.code == 0:
        return
    mended = copy.run("--json", "fsck", "--repair")
    again = copy.run("--json", "fsck")
    assert mended.code == again.code, (place, found, mended, again)
    assert again.code == 0 or name.startswith("segments/"), (place, again)
    lost = hits_of(again)
    kept = copy.run("snapshots", "--json").json()
    for row in map(json.loads, copy.snapshots.splitlines()):
        assert row in kept or row["id"] in hits_of(mended), (place, mended)
    if deep:
        whole = {t: originals[t] for t, i in store.ids.items()
                 if i not in lost | hits_of(mended)}
        assert check_reads(store, whole) == whole, place
        copy.run("daemon", "stop")


def flip_everywhere(full, count, deep_every):
    copy, originals = copy_and_look(full)
    files = files_of(copy.pristine)
    regions = lmdb_layout.unused(
        (copy.pristine / "index/data.mdb").read_bytes())
    for i, place in enumerate(places(files, regions, count)):
        check_flip(copy, place, regions, originals, i % deep_every == 0)


def test_a_flipped_bit_is_found_and_repaired(full):
    flip_everywhere(full, fewer(120), 30)


@pytest.mark.long
def test_a_flipped_bit_is_found_and_repaired_long(full):
    flip_everywhere(full, 1500, 15)


def test_without_an_index_everything_comes_back(full):
    before = full.run("snapshots", "--json").out
    shutil.rmtree(full.path / "index")
    result = full.run("snapshots", expect=3)
    assert one_line_error(result) and "fsck --repair" in result.err, result
    assert "S25" in full.run("fsck", expect=1).out
    result = full.run("fsck", "--repair")
    assert result.out.endswith("0 problems\n"), result
    assert full.run("snapshots", "--json").out == before
    point = full.mount("e")
    assert full.sh(point, "cat new twin g; readlink y").out == \
        "hi\nhi\n" + "file 6\n" * 7 + "x\n"
    assert full.sh(full.mount("two", "f"), "wc -c < second").out == "5000\n"


def test_without_index_and_copies_the_snapshots_come_back(full):
    ids = {r["id"] for r in full.run("snapshots", "--json").json()}
    shutil.rmtree(full.path / "index")
    shutil.rmtree(full.path / "copies")
    full.run("fsck", "--repair")
    assert {r["id"] for r in full.run("snapshots", "--json").json()} == ids
    full.mount("e")


def test_a_damaged_object_names_snapshots_and_paths(full, tmp_path):
    data = next((full.path / "segments").iterdir())
    rows = full.run("snapshots", "--json").json()
    two = next(r["id"] for r in rows if "two:latest" in r["refs"])
    whole = data.read_bytes()
    # The bytes of a file that only the second snapshot has.
    at = whole.rindex((tmp_path / "top/second").read_bytes())
    flip(data, at + 4096, 3)
    result = full.run("fsck", expect=1)
    assert f"hit: two:latest {two}: second: content is lost" in \
        result.out.splitlines(), result
    assert "one:latest" not in result.out
    full.run("fsck", "--fast", expect=0)
    # A read gives EIO and a line in the log that names the object.
    point = full.mount("two", "f")
    assert full.py(point, """
        try:
            open('second', 'rb').read()
        except OSError as e:
            print(errno.errorcode[e.errno])
        """).out == "EIO\n"
    full.log_skip = [r"inode \d+: request \d+"]
    hexes = [r["object"] for r in full.run(
        "--json", "fsck", expect=1).json() if r["kind"] == "hit"]
    assert any(h in full.log() for h in hexes), full.log()
    full.run("umount", "f")
    full.run("daemon", "stop")
    # Repaired as far as can be: the file is lost, all else stays.
    result = full.run("fsck", "--repair", expect=1)
    assert "moved to quarantine/" in result.out
    assert list((full.path / "quarantine").glob("*/segments-*"))
    point = full.mount("one", "f")
    assert full.sh(point, "cat d/f010").out == "file 10\n" * 2


def test_importing_again_heals(full, tmp_path):
    data = next((full.path / "segments").iterdir())
    flip(data, data.stat().st_size // 2, 1)
    full.run("fsck", expect=1)
    full.run("fsck", "--repair", expect=None)
    before = {r["id"] for r in full.run("snapshots", "--json").json()}
    (tmp_path / "top/second").unlink()
    (tmp_path / "top/d/f004").write_text("file 4\n" * 5)
    full.load(tmp_path / "top", "healed")
    assert before <= {r["id"] for r in
                      full.run("snapshots", "--json").json()}


def test_a_missing_segment_is_damage_and_the_rest_stays(full, tmp_path):
    for file in (full.path / "segments").iterdir():
        file.unlink()
    result = full.run("fsck", expect=1)
    assert "the file is missing" in result.out
    full.run("fsck", "--repair", expect=None)
    assert full.run("snapshots", "--json").out == ""
    full.load(tmp_path / "top", "again")
    # The kept environment finds its snapshot again when it is imported.
    result = full.run("fsck", expect=1)
    assert "E5: envs/e" in result.out and "1 problems" in result.out


def test_nothing_is_changed_without_repair(full):
    flip(next((full.path / "segments").iterdir()), 5000, 0)
    flip(full.path / "envs/e/journal", 300, 0)
    flip(full.path / "copies/log", 100, 0)

    def state():
        return {n: (full.path / n).read_bytes()
                for n in files_of(full.path) if n != "index/lock.mdb"}

    before = state()
    result = full.run("fsck", expect=1)
    assert state() == before
    for rule in ("S6", "E10", "S26"):
        assert f"\n{rule}: " in "\n" + result.out, result


def test_a_damaged_journal_goes_to_the_quarantine(full):
    flip(full.path / "envs/e/journal", 300, 0)
    result = full.run("fsck", "--repair")
    assert "envs/e: moved to quarantine/" in result.out, result
    assert full.run("--json", "ps").out == ""
    kept = list((full.path / "quarantine").glob("*/envs-e/journal"))
    assert kept and kept[0].stat().st_size


def spoil(name, at, data):
    def change(folder):
        with open(folder / name, "r+b") as f:
            f.seek(at)
            f.write(data)
    return change


def seal_journal(frame, at, data):
    """Changes an item of a frame and mends the checksum: what a program with
    a fault would write. Frame 0 has the boot id."""
    def change(folder):
        raw = bytearray((folder / "journal").read_bytes())
        pos = 48
        for _ in range(frame):
            pos += 24 + int.from_bytes(raw[pos + 4:pos + 8], "little")
        length = int.from_bytes(raw[pos + 4:pos + 8], "little")
        items = pos + 24
        raw[items + at:items + at + len(data)] = data
        body = bytes(raw[items:items + length])
        salt = int.from_bytes(raw[32:40], "little")
        raw[pos + 16:pos + 24] = xxh3_64(
            body, salt ^ length ^ frame).to_bytes(8, "little")
        (folder / "journal").write_bytes(raw)
    return change


def seal_limits(data, back=32):
    """Likewise the limits, at the end of `env`; with 8, what follows them."""
    def change(folder):
        raw = (folder / "env").read_bytes()
        body = raw[:-8 - back] + data
        (folder / "env").write_bytes(
            body + xxh3_64(body, 0).to_bytes(8, "little"))
    return change


@pytest.mark.parametrize("rule, change", [
    ("E1", lambda e: (e / "env").unlink()),
    ("E3", spoil("env", 30, b"\x99")),
    ("E7", spoil("journal", 9, b"\x99")),
    ("E10", spoil("journal", 100, b"\x99\x98")),
    ("E11", seal_journal(1, 0, b"\x7f")),
    ("E11", seal_journal(1, 1, b"\xff" * 8)),
    ("E11", seal_journal(0, 38, b"\x01")),
    ("E30", seal_limits(b"\xff" * 24)),
    ("E30", seal_limits(b"short")),
    ("E31", seal_limits(b"\4" + bytes(7), 8)),
    ("E31", seal_limits(bytes(4) + b"\1" + bytes(5), 8)),
    ("E31", seal_limits(bytes(4) + b"\2\0\0\0" + b"\1\2" * 2, 8)),
], ids=["E1", "E3", "E7", "E10", "E11-type", "E11-inode", "E11-epoch", "E30",
        "E30-short", "E31-net", "E31-zero", "E31-twice"])
def test_rules_of_environments(full, rule, change):
    change(full.path / "envs/e")
    result = full.run("fsck", expect=1)
    assert result.out.startswith(f"{rule}: envs/e: "), result
    result = full.run("fsck", "--repair")
    assert "envs/e: moved to quarantine/" in result.out, result
    assert full.run("fsck").out == "0 problems\n"


def test_a_torn_journal_is_cut_and_kept(full):
    with open(full.path / "envs/e/journal", "ab") as f:
        f.write(b"torn")
    result = full.run("fsck", expect=1)
    assert result.out.startswith("E10: envs/e: "), result
    full.run("fsck", "--repair")
    assert full.sh(full.mount("e"), "cat new").out == "hi\n"
    assert list((full.path / "quarantine").glob("*/envs-e-journal"))


def test_repair_wants_the_store_alone(full):
    full.run("daemon", "start")
    result = full.run("fsck", "--repair", expect=4)
    assert one_line_error(result) and "daemon stop" in result.err, result
    assert full.run("fsck").out == "0 problems\n"
    full.run("daemon", "stop")
    with open(full.path / "lock") as lock:  # as an import holds it
        fcntl.flock(lock, fcntl.LOCK_SH)
        full.run("fsck", "--repair", expect=4)
    full.run("fsck", "--repair")


def test_a_server_does_not_start_on_a_damaged_index(full):
    layout = lmdb_layout.unused((full.path / "index/data.mdb").read_bytes())
    rng = random.Random(1)
    size = (full.path / "index/data.mdb").stat().st_size
    at = next(o for o in iter(lambda: rng.randrange(8192, size), None)
              if not lmdb_layout.why_unused(layout, o))
    flip(full.path / "index/data.mdb", at, 2)
    for args in (["mount", "one", "f"], ["daemon", "start"], ["ps"]):
        result = full.run(*args, expect=3)
        assert one_line_error(result), result
        assert 'cowfs fsck --repair' in result.err, result
    full.log_skip = ["index of"]
    wait_until(lambda: not mountpoint.processes_of(full.path), 10,
               "the keeper has ended")
    full.run("fsck", "--repair")
    full.mount("one", "f")


def mark(store):
    return (store.path / "index.clean").read_bytes()


def test_commits_keep_the_mark_of_a_clean_index(full, tmp_path):
    """So that a start after an import reads nothing but the mark."""
    stat = os.stat(full.path / "index/data.mdb")
    full.run("snapshots")
    fits = mark(full)
    assert f"{stat.st_size:020}".encode() in fits
    (tmp_path / "top/another").write_text("x")
    full.load(tmp_path / "top", "three")
    after = mark(full)
    stat = os.stat(full.path / "index/data.mdb")
    nano = f"{stat.st_ctime_ns // 10**9:020}.{stat.st_ctime_ns % 10**9:09}"
    assert after != fits and nano.encode() in after
    # One that did not fit before is not made to fit by a commit: opening
    # checks the index first.
    os.utime(full.path / "index/data.mdb")
    full.run("rm", "three")
    stat = os.stat(full.path / "index/data.mdb")
    nano = f"{stat.st_ctime_ns // 10**9:020}.{stat.st_ctime_ns % 10**9:09}"
    assert nano.encode() in mark(full)


def test_a_store_without_copies_gets_them(full):
    shutil.rmtree(full.path / "copies")
    assert "S26: copies/log: it is missing" in full.run("fsck", expect=1).out
    full.run("snapshots")
    assert full.run("fsck").out == "0 problems\n"


def test_fsck_beside_a_server_and_writers(full, tmp_path):
    point = full.mount("one", "f")
    writer = full.start_inside(point, ["sh", "-c", """
        i=0; while [ $i -lt 300 ]; do echo $i > w$i; i=$((i+1)); done"""])
    imports = [full.spawn(["cowfs", "import", str(tmp_path / "top"), "-t",
                           f"p{i}"]) for i in range(3)]
    for _ in range(5):
        result = full.run("fsck")
        assert result.out.endswith("0 problems\n"), result
    for child in [writer, *imports]:
        assert full.finish(child, 60).code == 0


def test_no_store_is_no_damage(plain, tmp_path):
    assert one_line_error(plain.run("fsck", expect=3))
    plain.path.mkdir()
    assert one_line_error(plain.run("fsck", expect=3))
    (plain.path / "letter").write_text("dear")
    assert one_line_error(plain.run("fsck", "--repair", expect=3))
    assert listing(plain, plain.path)
