# SPDX-License-Identifier: MIT
"""gc, df, settings: by the command line, with mounts and imports at work."""
import os
import random
import shutil
import threading
import time

import pytest

from conftest import make_tree
from damage import flip, full  # noqa: F401
from helpers import PYTHON, assert_same_tree, one_line_error, store_state

# Works in a mount and in a plain mirror of it, and compares all the time.
WRITER = r"""
import os, random, shutil, sys, time
mirror, seconds, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
end = time.monotonic() + seconds

def both(fn):
    fn("."); fn(mirror)

def files(top):
    return sorted(os.path.relpath(os.path.join(d, f), top)
                  for d, _, names in os.walk(top) for f in names)

n = 0
while time.monotonic() < end:
    n += 1
    names = files(mirror)
    name = rng.choice(names)
    data = rng.randbytes(rng.randrange(1, 200000))
    op = rng.randrange(4)
    if op == 0:
        at = rng.randrange(300000)
        def write(top):
            with open(os.path.join(top, name), "r+b") as f:
                f.seek(at)
                f.write(data)
        both(write)
    elif op == 1:
        def make(top):
            with open(os.path.join(top, f"new-{n}"), "wb") as f:
                f.write(data)
        both(make)
    elif op == 2 and len(names) > 40:
        both(lambda top: os.unlink(os.path.join(top, name)))
    for name in rng.sample(names, 5):
        paths = [os.path.join(top, name) for top in (".", mirror)]
        if os.path.lexists(paths[1]):
            a, b = (open(p, "rb").read() for p in paths)
            assert a == b, name
assert files(".") == files(mirror)
for name in files(mirror):
    assert open(name, "rb").read() == \
        open(os.path.join(mirror, name), "rb").read(), name
"""


def flat(folder, rng, files=40):
    """A tree of plain files, large and small."""
    folder.mkdir(parents=True)
    for i in range(files):
        (folder / f"d{i % 5}").mkdir(exist_ok=True)
        size = rng.choice([10, 1000, 20000, 300000])
        (folder / f"d{i % 5}/f{i}").write_bytes(rng.randbytes(size))
    return folder


def segment_bytes(store):
    return sum(f.stat().st_size for f in (store.path / "segments").iterdir())


class Load:
    """Imports, mounts, rm and gc, all at once; errors are collected."""

    def __init__(self, store, top, seconds):
        self.store, self.top = store, top
        self.end = time.monotonic() + seconds
        self.lock = threading.Lock()
        self.origins = {}  # name of a snapshot that rm may take: its tree
        self.errors, self.counts = [], {}

    def run(self, *args):
        self.counts[args[0]] = self.counts.get(args[0], 0) + 1
        return self.store.run(*args, limit=120)

    def importer(self, me):
        rng = random.Random(me)
        tree = flat(self.top / f"tree-{me}-0", rng)
        k = 0
        while time.monotonic() < self.end:
            name = f"t{me}-{k}"
            self.run("import", tree, "-t", name)
            k += 1
            last, tree = tree, self.top / f"tree-{me}-{k}"
            shutil.copytree(last, tree)
            with self.lock:  # from here on rm may take it
                self.origins[name] = last
            # All that are left are looked at in the end: not too many.
            time.sleep(0.02 * len(self.origins))
            for _ in range(4):
                victim = rng.choice([p for p in sorted(tree.rglob("*"))
                                     if p.is_file()])
                victim.write_bytes(rng.randbytes(rng.randrange(100000)))

    def take(self, rng):
        with self.lock:
            names = sorted(self.origins)
            if len(names) < 6:
                return None, None
            name = rng.choice(names)
            return name, self.origins.pop(name)

    def mounter(self, me):
        rng = random.Random(100 + me)
        k = 0
        while time.monotonic() < self.end:
            name, tree = self.take(rng)
            if not name:
                time.sleep(0.05)
                continue
            env, k = f"env{me}-{k}", k + 1
            path = self.store.mount(name, env)
            mirror = self.top / f"mirror-{env}"
            shutil.copytree(tree, mirror)
            with self.lock:  # rm may take what it stands on now
                self.origins[name] = tree
            left = max(1, min(4, self.end - time.monotonic()))
            self.store.inside(path, [PYTHON, "-c", WRITER, mirror,
                                     str(left), str(me)], limit=120)
            self.run("umount", env, "--discard")
            shutil.rmtree(mirror)

    def remover(self, _):
        rng = random.Random(7)
        while time.monotonic() < self.end:
            time.sleep(0.3)
            count = max(1, len(self.origins) - 50)
            some = [x for x in (self.take(rng) for _ in range(count)) if x[0]]
            if some:
                self.run("rm", *(name for name, _ in some))
            for _, tree in some:
                shutil.rmtree(tree)

    def collector(self, _):
        k = 0
        while time.monotonic() < self.end:
            self.run("gc", *(["--compress"] if k % 4 == 3 else []))
            k += 1

    def guarded(self, fn, me):
        try:
            fn(me)
        except BaseException as e:  # noqa: B902 - told by the test
            self.errors.append(f"{fn.__name__} {me}: {e!r}")
            self.end = 0

    def go(self):
        jobs = [(self.importer, i) for i in range(4)]
        jobs += [(self.mounter, i) for i in range(4)]
        jobs += [(self.remover, 0), (self.collector, 0)]
        threads = [threading.Thread(target=self.guarded, args=job)
                   for job in jobs]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not self.errors, "\n".join(self.errors)


def check_load(cowfs, new_store, tmp_path, seconds):
    cowfs.load(flat(tmp_path / "first", random.Random(99)), "first")
    load = Load(cowfs, tmp_path, seconds)
    load.go()
    print(load.counts)
    assert all(load.counts.get(v, 0) > 3
               for v in ("import", "umount", "rm", "gc")), load.counts
    for name, tree in sorted(load.origins.items()):
        path = cowfs.mount(name, "check")
        assert_same_tree(cowfs, path, tree)
        cowfs.run("umount", "check")
    # The last names go but for some; as much as a new store needs is left.
    fresh = new_store()
    for i, (name, tree) in enumerate(sorted(load.origins.items())):
        if i % 2:
            cowfs.run("rm", name)
        else:
            fresh.load(tree, name)
    cowfs.run("rm", "first")
    cowfs.run("gc", "--grace", "0")
    assert segment_bytes(cowfs) <= segment_bytes(fresh) * 1.1


def test_gc_beside_imports_mounts_and_rm(cowfs, new_store, tmp_path):
    check_load(cowfs, new_store, tmp_path, 8)


@pytest.mark.long
def test_gc_beside_imports_mounts_and_rm_for_two_minutes(cowfs, new_store,
                                                         tmp_path):
    check_load(cowfs, new_store, tmp_path, 120)


def test_rm_and_gc_free_the_space(plain, tmp_path):
    flat(tmp_path / "a", random.Random(1))
    flat(tmp_path / "b", random.Random(2))
    plain.load(tmp_path / "a", "a")
    before = segment_bytes(plain)
    plain.load(tmp_path / "b", "b")
    would = plain.run("--json", "gc", "--dry-run").json()[0]
    assert would["objects"] == 0 and would["dry_run"]
    plain.run("rm", "b")
    would = plain.run("--json", "gc", "--dry-run").json()[0]
    did = plain.run("--json", "gc").json()[0]
    assert would["objects"] == did["objects"] > 40
    assert segment_bytes(plain) == pytest.approx(before, rel=0.01)
    assert "0 B freed" in plain.run("gc").out


def test_a_mounted_environment_keeps_its_snapshot(cowfs, tree):
    snapshot = cowfs.load(tree, "base")
    path = cowfs.mount("base", "e")
    cowfs.run("rm", "base")
    cowfs.run("gc", "--grace", "0")
    assert_same_tree(cowfs, path, tree)
    cowfs.sh(path, "echo changed > a.txt")
    cowfs.run("umount", "e", "--keep")
    cowfs.run("gc", "--grace", "0")
    path = cowfs.mount("e")
    assert cowfs.sh(path, "cat a.txt b.txt | wc -l").out.strip() == "1001"
    cowfs.run("umount", "e", "--discard")
    cowfs.run("gc", "--grace", "0")
    assert cowfs.run("--json", "gc").json()[0]["live_objects"] == 0
    assert cowfs.run("mount", snapshot, expect=3).code == 3


def test_a_server_lets_go_of_removed_segments(cowfs, tree, tmp_path):
    cowfs.load(tree, "base")
    flat(tmp_path / "b", random.Random(2))
    cowfs.load(tmp_path / "b", "b")
    path = cowfs.mount("base", "e")
    cowfs.sh(path, "cat b.txt sparse big > /dev/null")
    cowfs.run("rm", "b")
    cowfs.run("gc")
    fds = f"/proc/{cowfs.server_pid()}/fd"
    links = [os.readlink(f"{fds}/{n}") for n in os.listdir(fds)]
    assert not [n for n in links if n.endswith(".seg (deleted)")]
    assert_same_tree(cowfs, path, tree)


def test_a_snapshot_without_a_name_has_its_days(plain, tree):
    snapshot = plain.run("import", tree).out.strip()
    plain.run("gc")
    assert snapshot in plain.run("--json", "snapshots").out
    plain.run("settings", "--grace", "0")
    plain.run("gc", "--grace", "1")
    assert snapshot in plain.run("--json", "snapshots").out
    assert plain.run("--json", "gc").json()[0]["snapshots"] == 1
    assert not plain.run("snapshots").out


def test_compressed_content_is_the_same(cowfs, tree, tmp_path):
    text = tmp_path / "text"
    shutil.copytree(tree, text, symlinks=True)
    for i in range(30):
        (text / f"long{i}").write_text(f"the same line {i}\n" * 3000)
    cowfs.load(text, "base")
    before = segment_bytes(cowfs)
    assert cowfs.run("--json", "gc", "--compress").json()[0]["compressed"]
    assert segment_bytes(cowfs) < before * 0.7
    path = cowfs.mount("base", "e")
    cowfs.sh(path, "for i in $(seq 0 29); do"
             f" cmp long$i {text}/long$i; done; cmp sparse {text}/sparse")


def test_df_tells_what_each_snapshot_has_alone(plain, tree):
    plain.load(tree, "one")
    (tree / "more").write_bytes(os.urandom(500000))
    plain.load(tree, "two")
    top, *rows = plain.run("--json", "df").json()
    assert top["kind"] == "store"
    own = {row["refs"][0]: row["own_bytes"] for row in rows}
    assert own["one:latest"] < 10000
    assert 500000 < own["two:latest"] < 520000
    assert top["stored_bytes"] == top["shared_bytes"] + sum(own.values())
    text = plain.run("df").out
    assert "one:latest" in text and "OWN" in text


def test_an_import_beyond_the_limit_is_refused(plain, tree):
    plain.load(tree, "one")
    plain.run("settings", "--max-store", "3M")
    (tree / "more").write_bytes(os.urandom(4000000))
    result = plain.run("import", tree, "-t", "two", expect=3)
    assert one_line_error(result) and "3.0 MiB" in result.err
    assert plain.run("--json", "snapshots").out.count('"v":1') == 1
    plain.run("settings", "--max-store", "0")
    plain.load(tree, "two")


def test_wrong_numbers_are_usage_errors(plain, tree):
    plain.load(tree)
    for args in (("settings", "--max-store", "12xyz"),
                 ("settings", "--grace", "-1"),
                 ("settings", "--grace", "40000"),
                 ("gc", "--grace", "x"), ("gc", "extra"), ("df", "extra")):
        assert one_line_error(plain.run(*args, expect=2)), args
    assert plain.run("--json", "settings").json()[0]["grace_days"] == 7


def test_without_a_store_it_says_so(plain):
    for verb in ("gc", "df", "settings"):
        assert one_line_error(plain.run(verb, expect=3)), verb


def test_a_damaged_environment_stops_gc(plain, tree):
    plain.load(tree)
    (plain.path / "envs/bad").mkdir()
    (plain.path / "envs/bad/env").write_text("rubbish")
    assert one_line_error(plain.run("gc", expect=3))
    shutil.rmtree(plain.path / "envs/bad")
    plain.run("gc")


def test_an_old_tree_is_gone_on_with(plain, tmp_path):
    """What an import finds again while gc works is not lost."""
    make_tree(tmp_path / "t")
    for _ in range(5):
        plain.load(tmp_path / "t", "x")
        plain.run("rm", "x")
        collector = plain.spawn(["cowfs", "gc", "--grace", "0"])
        plain.load(tmp_path / "t", "y")
        assert plain.finish(collector, 60).code == 0
        assert plain.run("gc").code == 0
        plain.run("rm", "y")


def test_an_import_leaves_room_for_environments(small_disk, tmp_path):
    cowfs = small_disk
    rng = random.Random(1)
    tree = tmp_path / "t"
    tree.mkdir()
    for i in range(30):
        (tree / f"f{i}").write_bytes(rng.randbytes(1 << 20))
    cowfs.load(tree, "fits")
    path = cowfs.mount("fits", "e")
    big = tmp_path / "big"
    big.mkdir()
    for i in range(30):
        (big / f"g{i}").write_bytes(rng.randbytes(1 << 20))
    result = cowfs.run("import", big, "-t", "big", expect=3)
    assert one_line_error(result) and "full" in result.err
    # The environment has its reserve; the import left nothing.
    cowfs.sh(path, "head -c 3000000 /dev/urandom > new && sync new")
    assert cowfs.run("--json", "snapshots").out.count('"v":1') == 1
    cowfs.run("umount", "e", "--discard")
    cowfs.run("rm", "fits")
    freed = cowfs.run("--json", "gc").json()[0]["freed_bytes"]
    assert freed > 30 << 20
    cowfs.load(big, "big")
    assert_same_tree(cowfs, cowfs.mount("big", "e"), big)


# --- after a repair ----------------------------------------------------------

def test_gc_and_what_is_in_quarantine(full, tmp_path):
    """It stops at what a repair found lost, and takes nothing that was put
    aside, not even when its snapshot is gone."""
    data = next((full.path / "segments").iterdir())
    at = data.read_bytes().rindex((tmp_path / "top/second").read_bytes())
    flip(data, at + 100, 3)
    flip(full.path / "envs/e/journal", 300, 0)
    full.run("fsck", "--repair", expect=1)
    aside = store_state(full.path / "quarantine")
    assert any("segments-" in n for n in aside), aside
    assert any("envs-e" in n for n in aside), aside
    # "two" has lost a file: nothing below what cannot be read is known.
    before = store_state(full.path)
    result = full.run("gc", expect=3)
    assert one_line_error(result), result
    assert "is not there: cowfs fsck tells more" in result.err, result
    assert store_state(full.path) == before
    full.run("rm", "two")
    full.run("gc")
    assert store_state(full.path / "quarantine") == aside
    assert full.run("fsck").out == "0 problems\n"
    assert full.sh(full.mount("one", "f"), "cat d/f010").out == \
        "file 10\n" * 2
    full.run("umount", "f")
    # The bytes come back by an import, not out of the quarantine.
    full.load(tmp_path / "top", "again")
    assert full.sh(full.mount("again", "f"),
                   f"cmp second {tmp_path}/top/second").code == 0
    full.run("umount", "f")
    full.run("rm", "one", "also:v1", "again")
    full.run("gc")
    assert segment_bytes(full) < 1000
    assert store_state(full.path / "quarantine") == aside
    assert full.run("fsck").out == "0 problems\n"


def test_gc_when_an_import_has_healed_what_was_lost(full, tmp_path):
    data = next((full.path / "segments").iterdir())
    at = data.read_bytes().rindex((tmp_path / "top/second").read_bytes())
    flip(data, at + 100, 3)
    full.run("fsck", "--repair", expect=1)
    full.run("gc", expect=3)
    full.load(tmp_path / "top", "again")
    full.run("gc")
    assert full.run("fsck").out == "0 problems\n"
    assert full.sh(full.mount("two", "f"),
                   f"cmp second {tmp_path}/top/second").code == 0
