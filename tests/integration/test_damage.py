# SPDX-License-Identifier: MIT
"""Whatever happens to a file of a store: no command crashes, hangs or returns
wrong bytes, and a repair brings back what is whole.

Each file and folder of a small store is zeroed, cut, emptied, deleted, swapped
with another, lengthened, and replaced by what is no file. Then every command
is tried on one copy, and fsck and its repair on another.
"""
import os
import random
import shutil

import mountpoint
import pytest
from damage import check_reads, copy_and_look, full  # noqa: F401

LIMIT = 30  # seconds for a command that needs one at most

# Of a server's log: of an end that nobody asked for.
CRASH = "was killed by signal"


def zero(store, path, rng):
    at = rng.randrange(path.stat().st_size)
    write_at(path, at, bytes(rng.randrange(1, 40)))


def zero_page(store, path, rng):
    pages = (path.stat().st_size + 4095) // 4096
    write_at(path, rng.randrange(pages) * 4096, bytes(4096))


def write_at(path, at, data):
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(data[:path.stat().st_size - at])


def cut(store, path, rng):
    os.truncate(path, rng.randrange(path.stat().st_size))


def empty(store, path, rng):
    os.truncate(path, 0)


def garbage(store, path, rng):
    with open(path, "ab") as f:
        f.write(rng.randbytes(rng.randrange(1, 9000)))


def swap(store, path, rng):
    files = [store / n for n in names_of(store)]
    other = rng.choice([p for p in files if p.is_file() and p != path])
    path.rename(store / "aside")
    other.rename(path)
    (store / "aside").rename(other)


def delete(store, path, rng):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def instead(make):
    def change(store, path, rng):
        delete(store, path, rng)
        make(path)
    return change


OF_BYTES = {"zero": zero, "page": zero_page, "cut": cut}
OF_FILES = {"empty": empty, "garbage": garbage, "swap": swap}
OF_ALL = {
    "delete": delete,
    "folder": instead(lambda p: p.mkdir()),
    "file": instead(lambda p: p.write_bytes(b"no folder")),
    "nowhere": instead(lambda p: p.symlink_to("nowhere")),
    "endless": instead(lambda p: p.symlink_to("/dev/zero")),
    "fifo": instead(os.mkfifo),
}
WAYS = {**OF_BYTES, **OF_FILES, **OF_ALL}


def names_of(store):
    """Every file and folder of a store, by name."""
    return sorted(str(p.relative_to(store)) for p in store.rglob("*")
                  if p.is_file() or p.is_dir())


def attacks(store, seed):
    """(name, way) for everything that can be done, shuffled."""
    found = []
    for name in names_of(store):
        path = store / name
        ways = set(OF_ALL) - {"file" if path.is_file() else "folder"}
        if path.is_file():
            ways |= set(OF_FILES)
            ways |= set(OF_BYTES) if path.stat().st_size else set()
        found += [(name, way) for way in sorted(ways)]
    random.Random(seed).shuffle(found)
    return found


def damage(copy, attack):
    name, way = attack
    copy.fresh()
    WAYS[way](copy.store.path, copy.store.path / name,
              random.Random(f"{name} {way}"))


def check(attack, result):
    """A command has ended by itself, with a line when it failed."""
    assert result.code in (0, 1, 2, 3, 4), (attack, result)
    if result.code > 1:
        lines = result.err.splitlines()
        assert 1 <= len(lines) <= 3 and lines[0].startswith("cowfs "), \
            (attack, result)


def no_crash(store, attack):
    log = store.path / "server.log"
    if log.is_symlink() or not log.is_file():
        return  # endless, or one that waits for a writer
    bad = [line for line in store.log().splitlines()
           if CRASH in line]
    assert not bad, (attack, bad)


def try_commands(copy, attack, originals, tree):
    """Every command, in an order that leaves the next something to do."""
    store = copy.store

    def run(*args):
        result = store.run(*args, expect=None, limit=LIMIT)
        check(attack, result)
        return result

    for args in (["fsck"], ["snapshots"], ["df"], ["gc", "--dry-run"],
                 ["settings"], ["mount", "one", "m"], ["ps"], ["show", "m"],
                 ["diff", "m"], ["umount", "m"], ["mount", "e"],
                 ["diff", "e"], ["umount", "e", "--keep"]):
        run(*args)
    for tag, rows in check_reads(store, originals).items():
        wrong = set(rows or []) - set(originals[tag]) - {"EIO"}
        assert not wrong, (attack, wrong)
    for args in (["import", tree, "-t", "more"], ["tag", "more", "again"],
                 ["rm", "more", "one"], ["gc"], ["doctor"],
                 ["daemon", "stop"]):
        run(*args)
    no_crash(store, attack)
    ended(store, attack)


def ended(store, attack):
    """After "daemon stop" nothing of the store may be there."""
    left = mountpoint.processes_of(store.path)
    mounts = mountpoint.mounts_below(store.folder)
    assert not left and not mounts, (attack, left, mounts)


def may_lose(name):
    """Whether bytes of snapshots or environments are at stake."""
    return name.split("/")[0] in ("segments", "envs")


def lost_of(result):
    """The snapshots that a repair names as hit or gone."""
    rows = result.json()
    return ({r["snapshot"] for r in rows if r["kind"] == "hit"} |
            {r["where"] for r in rows
             if r["kind"] == "note" and "lost" in r["text"]})


def try_repair(copy, attack, originals):
    """What is whole is there again afterwards, with its id."""
    store, (name, way) = copy.store, attack
    damage(copy, attack)
    found = copy.run("--json", "fsck")
    check(attack, found)
    mended = copy.run("--json", "fsck", "--repair")
    again = copy.run("--json", "fsck")
    check(attack, mended)
    check(attack, again)
    if name == "format" and mended.code == 3:
        return  # it would be a guess what the store is
    hit = lost_of(mended) | lost_of(again)
    swapped = way == "swap"  # with what, only the seed knows
    if not may_lose(name) and not swapped:
        assert again.code == 0, (attack, found, mended, again)
        assert not hit, (attack, mended)
    have = {r["id"]: r for r in copy.run("snapshots", "--json").json()}
    whole = {t: originals[t] for t, i in store.ids.items() if i not in hit}
    if not may_lose(name) and not swapped:
        assert set(whole) == set(originals)
    for tag in whole:
        row = have.get(store.ids[tag])
        assert row and (tag in row["refs"] or swapped), (attack, mended, have)
    whole = {store.ids[t]: rows for t, rows in whole.items()}
    assert check_reads(store, whole) == whole, attack
    if not may_lose(name) and not swapped:
        point = store.mount("e")
        assert store.sh(point, "cat new twin").out == "hi\nhi\n", attack
        store.run("umount", "e", "--keep")
    store.run("daemon", "stop")
    ended(store, attack)


def attack_all(full, tmp_path, pick):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("text\n" * 100)
    copy, originals = copy_and_look(full)
    full.log_skip = [r"inode \d+: ", "damaged", "server: ", "keeper: "]
    for attack in pick(attacks(copy.pristine, 1)):
        damage(copy, attack)
        try_commands(copy, attack, originals, tree)
        try_repair(copy, attack, originals)
    copy.fresh()


def test_whatever_happens_to_a_file(full, tmp_path):
    attack_all(full, tmp_path, lambda all_of: all_of[:5])


@pytest.mark.long
def test_whatever_happens_to_any_file(full, tmp_path):
    attack_all(full, tmp_path, lambda all_of: all_of)


# --- under a running server -------------------------------------------------

LIVE = ["index/data.mdb", "index/lock.mdb", "segments/00000001.seg",
        "copies/log", "settings", "envs/m/journal"]


def use(store, point, tree):
    """Works with a server whose store was damaged; nothing may hang."""
    store.sh(point, "ls -R . > list; cat big d/* > all; sync", expect=None)
    for args in (["mount", "two", "o"], ["ps"], ["show", "m"], ["diff", "m"],
                 ["snapshots"], ["import", tree, "-t", "q"],
                 ["tag", "q", "z"], ["df"], ["umount", "o"], ["fsck"],
                 ["rm", "q"], ["gc"]):
        check(args, store.run(*args, expect=None, limit=LIMIT))


def damage_live(full, tmp_path, name, change):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("text\n" * 100)
    point = full.mount("one", "m")
    full.sh(point, "echo hi > new; cat d/f010 > /dev/null")
    server = full.server_pid()
    change(full.path / name)
    full.log_skip = ["damaged", r"inode \d+: "]
    use(full, point, tree)
    use(full, point, tree)
    no_crash(full, name)
    assert full.server_pid() == server
    full.run("umount", "m", "--discard")


@pytest.mark.parametrize("size", [0, 100, 4096, 8192, 20480])
def test_an_index_that_is_cut_under_the_server(full, tmp_path, size):
    """LMDB maps it: a read beyond the end is SIGBUS, which is caught."""
    damage_live(full, tmp_path, "index/data.mdb",
                lambda path: os.truncate(path, size))


def test_a_lock_file_that_is_cut_under_the_server(full, tmp_path):
    damage_live(full, tmp_path, "index/lock.mdb",
                lambda path: os.truncate(path, 0))


@pytest.mark.long
@pytest.mark.parametrize("way", sorted(set(WAYS) - {"file", "swap"}))
@pytest.mark.parametrize("name", LIVE)
def test_whatever_happens_under_the_server(full, tmp_path, name, way):
    damage_live(full, tmp_path, name,
                lambda path: WAYS[way](full.path, path, random.Random(5)))
