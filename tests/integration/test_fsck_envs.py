# SPDX-License-Identifier: MIT
"""Environments whose files break a rule of docs/format.md, with checksums that
fit: what a program with a fault would write."""
import ctypes
import os
import shutil
import stat
import struct

import pytest
from damage import full  # noqa: F401

HEADER = 48
BIG, FOLDER, SYMLINK, NOBODY = 2, 3, 256, 100000  # inodes of the snapshot


def xxh3_64(data, seed):
    lib = ctypes.CDLL("libxxhash.so.0")
    lib.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    lib.XXH3_64bits_withSeed.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return lib.XXH3_64bits_withSeed(data, len(data), seed)


def frame(folder, items):
    """Makes a journal of one frame; the header stays."""
    path = folder / "journal"
    head = path.read_bytes()[:HEADER]
    salt = int.from_bytes(head[32:40], "little")
    path.write_bytes(head + struct.pack(
        "<4sIQQ", b"CWJ1", len(items), 0,
        xxh3_64(items, salt ^ len(items))) + items)


def block(data):
    return struct.pack("<I", len(data)) + data


def inode(ino, mode, parent=0, links=1):
    return struct.pack("<B4Q4I", 1, ino, parent, 0, 0, mode, 0, 0,
                       links) + struct.pack("<qI", 1, 1) * 4


def times(ino, size=1, nsec=1):
    return struct.pack("<BQQqI", 2, ino, size, 1, nsec)


def dent(folder, ino, cookie, name):
    return struct.pack("<BQQQ", 3, folder, ino, cookie) + block(name)


def gone(folder, name):
    return struct.pack("<BQ", 4, folder) + block(name)


def placed(ino, first=0, count=1, data=2):
    return struct.pack("<BQQQQ", 5, ino, first, count, data)


def cut(ino, size=1):
    return struct.pack("<BQQ", 6, ino, size)


def xattr(ino, name, value=b"v"):
    return struct.pack("<BQ", 7, ino) + block(name) + block(value)


def target(ino, text):
    return struct.pack("<BQ", 9, ino) + block(text)


REGULAR = stat.S_IFREG | 0o644

KNOWN = inode(BIG, REGULAR)  # for what needs one before

# What is right: the changes below are told for what they break only.
RIGHT = [
    times(BIG), KNOWN + dent(1, BIG, 9999999, b"two"), gone(1, b"big"),
    placed(BIG), cut(BIG), xattr(BIG, b"user.k"), inode(BIG, REGULAR),
]

WRONG = [
    ("E13", b"\x0b" + bytes(8)),
    ("E13", b"\xff"),
    ("E13", times(BIG)[:-1]),
    ("E14", times(0)),
    ("E14", inode(1 << 53, REGULAR)),
    ("E14", xattr(NOBODY, b"user.k")),
    ("E15", times(BIG, nsec=10**9)),
    ("E15", times(BIG, size=(1 << 42) + 1)),
    ("E16", inode(BIG, stat.S_IFDIR | 0o755, parent=1)),
    ("E16", inode(NOBODY, 0o644)),
    ("E16", inode(NOBODY, stat.S_IFDIR | 0o755)),
    ("E17", KNOWN + dent(1, BIG, 9999999, b"a/b")),
    ("E17", KNOWN + dent(1, BIG, 0, b"two")),
    ("E17", KNOWN + dent(BIG, BIG, 9999999, b"two")),
    ("E17", gone(1, b"never")),
    ("E17", inode(1, stat.S_IFDIR | 0o755, parent=1) +
     dent(1, 1, 9999999, b"root")),
    ("E17", inode(FOLDER, stat.S_IFDIR | 0o755, parent=FOLDER) +
     gone(1, b"d") + dent(FOLDER, FOLDER, 9999999, b"self")),
    ("E18", times(FOLDER)),
    ("E18", cut(FOLDER)),
    ("E18", placed(BIG, count=(1 << 19) + 1)),
    ("E18", placed(BIG, first=1 << 30)),
    ("E18", placed(BIG, data=0)),
    ("E18", placed(BIG, data=1 << 50)),
    ("E19", xattr(BIG, b"")),
    ("E19", xattr(BIG, b"a\0b")),
    ("E19", xattr(BIG, b"user.k", bytes((1 << 16) + 1))),
    ("E19", target(BIG, b"x")),
    ("E20", KNOWN + struct.pack("<BQ", 10, BIG)),
    ("E21", placed(BIG, data=7) + placed(BIG, first=5, data=7)),
    ("E13", struct.pack("<BQQB", 14, 0, 0, 2)),
    ("E13", struct.pack("<BQ", 16, 1)),
]


def told(full):
    return [(r["rule"], r["where"]) for r in
            full.run("--json", "fsck", expect=None).json()
            if r["kind"] == "damage"]


@pytest.fixture
def env(full):
    return full.path / "envs/e"


def test_items_that_break_a_rule(full, env):
    for item in RIGHT:
        frame(env, item)
        assert told(full) == [], item
    for rule, item in WRONG:
        frame(env, item)
        assert told(full) == [("E11", "envs/e")], (rule, item)
        frame(env, times(BIG) + item)
        assert told(full) == [("E11", "envs/e")], (rule, item)
    full.run("fsck", "--repair")
    assert full.run("--json", "ps").out == ""


def seal_env(path, raw):
    path.write_bytes(raw + xxh3_64(bytes(raw), 0).to_bytes(8, "little"))


@pytest.mark.parametrize("change", [
    lambda raw: raw.__setitem__(8 + 22, 3),  # E4: the name of a tree
    lambda raw: raw.__setitem__(46, 0xff),   # E4: the first block's length
    lambda raw: raw.__delitem__(slice(-35, None)),  # no limits, and less
    lambda raw: raw.__setitem__(40, 2),  # an owner, and it is not there
], ids=["E4-kind", "E4-length", "E4-short", "E4-owner"])
def test_a_file_env_that_makes_no_sense(full, env, change):
    raw = bytearray((env / "env").read_bytes()[:-8])
    change(raw)
    seal_env(env / "env", raw)
    assert told(full) == [("E4", "envs/e")]
    full.run("fsck", "--repair")
    assert list((full.path / "quarantine").glob("*/envs-e"))


@pytest.mark.parametrize("size", [0, 20, 47])
def test_a_journal_killed_in_the_making_is_none(full, env, size):
    (env / "journal").write_bytes((env / "journal").read_bytes()[:size])
    assert told(full) == []
    point = full.mount("e")
    full.sh(point, "! test -e new; echo again > new")
    full.run("umount", "e", "--keep")
    full.run("daemon", "stop")
    assert full.sh(full.mount("e"), "cat new").out == "again\n"


@pytest.mark.parametrize("name", ["env", "journal"])
def test_a_fifo_that_nobody_writes_to_holds_nobody_up(full, env, name):
    (env / name).unlink()
    os.mkfifo(env / name)
    assert [where for _, where in told(full)] == ["envs/e"]
    full.run("fsck", "--repair")
    assert told(full) == []
    assert list((full.path / "quarantine").glob("*/envs-e"))


def test_no_folder_of_environments(full, env):
    shutil.move(full.path / "envs", full.path.parent / "away")
    (full.path / "envs").symlink_to("/dev/zero")
    assert told(full) == [("S27", "envs")]
    full.run("fsck", "--repair")
    assert told(full) == []
    full.mount("one:latest", "n")
