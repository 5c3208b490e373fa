# SPDX-License-Identifier: MIT
"""A seeded random walk: cowfs against a plain folder, step by step.

COWFS_MODEL_SEED and COWFS_MODEL_STEPS set the walk; the seed is printed. On
failure the store is kept with repro.sh and the last steps are shown.
support/oracle.py says what is compared, model_kills.py what a death may leave.
"""
import os
import pathlib
import random
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import tempfile

import pytest
from helpers import PYTHON, SUPPORT
from model_kills import kill_in_batch
from oracle import receive, send

BATCH, FULL, RESTART = 50, 500, 2500
KILLS = 1 / 1000  # of the server, in the middle of a step
STEPS = int(os.environ.get("COWFS_MODEL_STEPS", 0))
NAMES = ["a", "b", "c", "d1", "d2", "new", "x y", "ü", "tab\t", ".wh.a",
         "n" * 255, "f1", "f2", "f3", "Makefile", "LICENSE"]
EXCHANGE, NOREPLACE, WHITEOUT = 2, 1, 4
KEEP_SIZE, PUNCH = 1, 2


def make_base(top, rng):
    """Some 150 files, all with old times."""
    top.mkdir()
    folders = [top]
    for i in range(14):
        d = rng.choice(folders) / f"dir{i}"
        d.mkdir()
        folders.append(d)
    files = []
    for i in range(130):
        f = rng.choice(folders) / f"file{i}"
        size = rng.choice([0, 1, 100, 4095, 4096, 4097, 20000, 70000,
                           262144, 400001])
        f.write_bytes(rng.randbytes(size) if i % 9 else b"\0" * size)
        files.append(f)
        if i % 10 == 0:
            os.link(f, rng.choice(folders) / f"hard{i}")
        if i % 8 == 0:
            (rng.choice(folders) / f"sym{i}").symlink_to(f"file{i}")
        if i % 7 == 0:
            os.setxattr(f, "user.base", b"value %d" % i)
        if i % 11 == 0:
            f.chmod(0o6755)
    with open(top / "sparse", "wb") as f:
        f.truncate(500000)
        f.seek(300000)
        f.write(b"data")
    os.mkfifo(top / "fifo")
    for i, (d, ds, fs) in enumerate(os.walk(top, topdown=False)):
        for j, n in enumerate(sorted(ds + fs)):
            t = (10**9 + i * 1000 + j) * 10**9 + 123456789
            os.utime(os.path.join(d, n), ns=(t, t), follow_symlinks=False)
    os.utime(top, ns=(10**18, 10**18))


class Worker:
    """An oracle process in a folder; every answer has a time limit."""

    def __init__(self, store, folder):
        self.child = store.start_inside(
            folder, [PYTHON, "-u", SUPPORT / "oracle.py"], 3600,
            stdin=subprocess.PIPE, stderr=None)

    def ask(self, batch):
        send(self.child.stdin, batch)

    def answer(self, limit=120):
        ready, _, _ = select.select([self.child.stdout], [], [], limit)
        assert ready, f"no answer within {limit} s"
        result = receive(self.child.stdout)
        assert result is not None, "the worker died"
        return result

    def close(self):
        self.child.stdin.close()
        self.child.wait(30)


class Walk:
    """Makes steps; knows roughly what exists, which is all it needs."""

    def __init__(self, rng, root):
        self.rng, self.root = rng, root
        self.files, self.folders = [], ["."]

    def learn(self, tree):
        self.files = sorted(p for p, r in tree.items()
                            if not r[0].startswith("0o4"))
        self.folders = sorted(p for p, r in tree.items()
                              if r[0].startswith("0o4"))

    def any_file(self):
        if self.files and self.rng.random() < 0.9:
            return self.rng.choice(self.files)
        return self.any_path()

    def any_folder(self):
        return self.rng.choice(self.folders)

    def any_path(self):
        return self.rng.choice(self.files + self.folders)

    def new_path(self):
        path = self.any_folder() + "/" + self.rng.choice(NAMES)
        if self.rng.random() < 0.5:
            path += str(self.rng.randrange(100))
        return path

    def made(self, path):
        self.files.append(path)
        return path

    def offset(self):
        r = self.rng.random()
        if r < 0.3:
            return 4096 * self.rng.randrange(100)
        return self.rng.randrange(5000 if r < 0.6 else 450000)

    def size(self):
        return self.rng.choice([0, 1, 7, 100, 4096, 5000, 65536,
                                self.rng.randrange(20000)])

    def seed(self):
        return self.rng.randrange(1, 10**9)

    def old_time(self):
        return self.rng.choice([-1, 0, 1, -(2**31) * 10**9,
                                self.rng.randrange(10**18)])

    def step(self):
        """Removes more when there is much, and little when there is not."""
        names = [n for n, w in self.WEIGHTS for _ in range(w)]
        if len(self.files) > 500:
            names += ["rmtree"] + ["unlink"] * 60
        name = self.rng.choice(names)
        if len(self.files) < 120 and name in ("unlink", "rmtree"):
            name = "create"
        touched, args = getattr(self, "do_" + name)()
        user = 0
        if self.root and self.rng.random() < 0.1:
            user = 1234
        return user, touched, METHOD.get(name, name), args

    WEIGHTS = [("create", 6), ("rewrite", 4), ("pwrite", 10), ("append", 5),
               ("pread", 3), ("truncate", 6), ("fallocate", 5),
               ("unlink", 6), ("mkdir", 4), ("rmdir", 2), ("rename", 6),
               ("rename_folder", 3), ("rename_flags", 3), ("link", 4),
               ("symlink", 2), ("mknod", 2), ("chmod", 4), ("chown", 3),
               ("utimens", 4), ("setxattr", 4), ("getxattr", 1),
               ("removexattr", 2), ("access", 1), ("rmtree", 1),
               ("tmpfile", 2), ("map_write", 4), ("copy_range", 3),
               ("seek_data", 2), ("churn", 0), ("hold", 5), ("drop", 2),
               ("held_write", 6), ("held_read", 3), ("held_stat", 4),
               ("held_truncate", 3), ("held_chmod", 1), ("held_sync", 1),
               ("held_lock", 1)]

    def do_create(self):
        p = self.made(self.new_path())
        mode = self.rng.choice([0o644, 0o600, 0o777, 0o4755, 0o000])
        return [p, os.path.dirname(p)], (p, mode, self.seed(), self.size())

    def do_rewrite(self):
        p = self.any_file()
        return [p], (p, self.seed(), self.size())

    def do_pwrite(self):
        p = self.any_file()
        return [p], (p, self.offset(), self.seed(), self.size())

    def do_append(self):
        p = self.any_file()
        return [p], (p, self.seed(), self.size())

    def do_pread(self):
        p = self.any_file()
        return [], (p, self.offset(), self.size())

    def do_truncate(self):
        p = self.any_file()
        return [p], (p, self.offset())

    def do_fallocate(self):
        p = self.any_file()
        mode = self.rng.choice([0, KEEP_SIZE, KEEP_SIZE | PUNCH,
                                KEEP_SIZE | PUNCH, PUNCH])
        return [p], (p, mode, self.offset(), self.size())

    def do_unlink(self):
        p = self.any_file()
        return [p, os.path.dirname(p)], (p,)

    def do_mkdir(self):
        p = self.new_path()
        self.folders.append(p)
        return [p, os.path.dirname(p)], (
            p, self.rng.choice([0o755, 0o700, 0o2775, 0o1777]))

    def do_rmdir(self):
        p = self.any_folder()
        return [p, os.path.dirname(p) or "."], (p,)

    def do_rename(self):
        a = self.any_file()
        b = self.any_file() if self.rng.random() < 0.3 else self.new_path()
        self.made(b)
        return [a, b, os.path.dirname(a), os.path.dirname(b)], (a, b, 0)

    def do_rename_folder(self):
        a = self.any_folder()
        b = self.any_folder() if self.rng.random() < 0.2 else self.new_path()
        self.folders.append(b)
        return [a, b], (a, b, 0)

    def do_rename_flags(self):
        a, b = self.any_path(), self.any_path()
        flags = self.rng.choice([EXCHANGE, NOREPLACE, EXCHANGE | NOREPLACE])
        if self.rng.random() < 0.4:
            b = self.new_path()
        return [a, b], (a, b, flags)

    def do_link(self):
        a, b = self.any_file(), self.made(self.new_path())
        return [a, b], (a, b)

    def do_symlink(self):
        p = self.made(self.new_path())
        return [p], (self.rng.choice(NAMES), p)

    def do_mknod(self):
        p = self.made(self.new_path())
        mode, dev = self.rng.choice([
            (stat.S_IFIFO | 0o640, 0), (stat.S_IFSOCK | 0o755, 0),
            (stat.S_IFREG | 0o600, 0),
            (stat.S_IFCHR | 0o600, os.makedev(1, 3)),
            (stat.S_IFBLK | 0o600, os.makedev(7, 99))])
        return [p], (p, mode, dev)

    def do_chmod(self):
        p = self.any_path()
        return [p], (p, self.rng.choice(
            [0o644, 0o600, 0o755, 0o4755, 0o2755, 0o6777, 0o777, 0o1777]))

    def do_chown(self):
        p = self.any_path()
        ids = [-1, 0, 1234, 77]
        return [p], (p, self.rng.choice(ids), self.rng.choice(ids))

    def do_utimens(self):
        p = self.any_path()
        return [p], (p, self.old_time(), self.old_time())

    def xattr_name(self):
        return self.rng.choice(["user.a", "user.b", "user.base",
                                "trusted.t", "security.x"])

    def do_setxattr(self):
        p = self.any_path()
        return [p], (p, self.xattr_name(),
                     b"v" * self.rng.choice([0, 1, 50, 1000]),
                     self.rng.choice([0, 0, os.XATTR_CREATE,
                                      os.XATTR_REPLACE]))

    def do_getxattr(self):
        return [], (self.any_path(), self.xattr_name())

    def do_removexattr(self):
        p = self.any_path()
        return [p], (p, self.xattr_name())

    def do_access(self):
        return [], (self.any_path(), self.rng.randrange(8))

    def do_rmtree(self):
        p = max(self.rng.sample(self.folders, min(4, len(self.folders))),
                key=lambda f: f.count("/"))
        if p.count("/") < 2:
            p = "./none"
        return [p, os.path.dirname(p)], (p,)

    def do_tmpfile(self):
        p = self.made(self.new_path())
        return [p], (self.any_folder(), p, self.seed(), self.size())

    def do_map_write(self):
        p = self.any_file()
        return [p], (p, self.offset(), self.seed(), self.size())

    def do_copy_range(self):
        a, b = self.any_file(), self.any_file()
        return [a, b], (a, b, self.offset(), self.offset(), self.size())

    def do_seek_data(self):
        return [], (self.any_file(),)

    def do_churn(self):
        p = self.any_folder() + f"/churn{self.seed()}"
        self.folders.append(p)
        return [p], (p,)

    def slot(self):
        return self.rng.randrange(8)

    def do_hold(self):
        p = self.any_file()
        flags = self.rng.choice([os.O_RDWR, os.O_RDWR, os.O_RDONLY,
                                 os.O_RDWR | os.O_APPEND,
                                 os.O_RDWR | os.O_TRUNC,
                                 os.O_RDWR | os.O_CREAT])
        return [p], (self.slot(), p, flags)

    def do_drop(self):
        return [], (self.slot(),)

    def do_held_write(self):
        return [], (self.slot(), self.offset(), self.seed(), self.size())

    def do_held_read(self):
        return [], (self.slot(), self.offset(), self.size())

    def do_held_stat(self):
        return [], (self.slot(),)

    def do_held_truncate(self):
        return [], (self.slot(), self.offset())

    def do_held_chmod(self):
        return [], (self.slot(), 0o640)

    def do_held_sync(self):
        return [], (self.slot(),)

    def do_held_lock(self):
        return [], (self.slot(),)


METHOD = {"rename_folder": "rename", "rename_flags": "rename"}


class Model:
    def __init__(self, store, base, plain, seed):
        self.store, self.plain = store, plain
        self.rng = random.Random(seed)
        self.point = store.mount("base", "e")
        self.done = self.deaths = 0
        self.history = []
        self.start()
        self.base_tree = self.full()
        assert len(self.base_tree) > 100

    def start(self):
        self.workers = [Worker(self.store, self.point),
                        Worker(self.store, self.plain)]

    def stop(self):
        for w in self.workers:
            w.close()

    def restart_worker(self, i):
        self.workers[i].close()
        self.workers[i] = Worker(self.store, (self.point, self.plain)[i])

    def kill(self):
        """After a failure: nothing may hold the mount."""
        for w in self.workers:
            try:
                os.killpg(w.child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def both(self, batch):
        for w in self.workers:
            w.ask(batch)
        return [w.answer() for w in self.workers]

    def differ(self):
        """Our tree, and the paths in which the trees differ."""
        ours, theirs = self.both([(0, [], "tree", ())])
        ours, theirs = ours[0][0], theirs[0][0]
        assert isinstance(ours, dict) and isinstance(theirs, dict), (
            ours, theirs)
        return ours, [(p, ours.get(p), theirs.get(p))
                      for p in sorted(set(ours) | set(theirs))
                      if ours.get(p) != theirs.get(p)]

    def full(self):
        """Compares the whole trees; returns the tree."""
        ours, differ = self.differ()
        assert not differ, self.say("trees differ", differ[:3])
        return ours

    def say(self, what, detail):
        last = "\n".join(re.sub("n{99,}", "nnn~", repr(h))[:300]
                         for h in self.history[-40:])
        return (f"{what} after {self.done} steps:\n{str(detail)[:3000]}\n"
                f"last:\n{last}")

    def run_batch(self, walk):
        batch = [walk.step() for _ in range(BATCH)]
        if self.rng.random() < 0.1:
            touched, args = walk.do_churn()
            batch.append((0, touched, "churn", args))
        if self.rng.random() < BATCH * KILLS:
            kill_in_batch(self, batch)
            return
        for step, a, b in zip(batch, *self.both(batch)):
            self.compare(step, a, b)

    def compare(self, step, a, b):
        self.history.append((step, b[0]))
        self.done += 1
        assert a == b, self.say(
            "differs", f"{step}\ncowfs: {str(a)[:900]}\n"
            f"plain: {str(b)[:900]}")
        del self.history[:-200]

    def restart(self, how):
        store = self.store
        if how == "kill":
            # No answer is outstanding: everything done is acknowledged.
            store.kill_server()
            for w in self.workers:
                w.child.stdin.close()
                w.child.wait(30)
        else:
            self.both([(0, [], "drop_all", ())])
            self.stop()
            store.run("umount", "e", "--keep")
            if how == "stop":
                store.run("daemon", "stop")
        assert store.mount("e") == self.point
        self.start()
        tree = self.full()
        self.check_diff(tree)

    def check_diff(self, tree):
        """diff lists what an independent comparison finds."""
        want = independent(self.base_tree, tree)
        out = self.store.run("diff", "e", "-z", limit=120).out
        got, moved = parse(out)
        for path, kind in want.items():
            if path in moved and kind in "AMT":
                continue
            assert got.get(path) == kind or (
                kind == "D" and path in moved.values()), self.say(
                    "diff", f"{path}: want {kind}, got {got.get(path)}")
        for path in got:
            assert path in want, self.say(
                "diff", f"{path}: {got[path]}, but it is as in the base")


def plain_row(row):
    """Mode, owner, size, device, xattrs, content: what diff goes by."""
    return (row[0], *row[2:5], row[6], row[8], row[9])


def independent(base, now):
    want = {}
    for path in set(base) | set(now):
        a, b = base.get(path), now.get(path)
        name = path[2:]
        if a and b and a[0][:-4] != b[0][:-4]:
            want[name] = "T"
        elif (a or b)[0].startswith("0o4"):
            continue
        elif a is None or b is None:
            want[name] = "A" if a is None else "D"
        elif plain_row(a) != plain_row(b):
            want[name] = "M"
    return want


def parse(out):
    """{path: letter} without folders, and {new: old} of renames."""
    fields = iter(out.split("\0")[:-1])
    got, moved = {}, {}
    for kind in fields:
        path = next(fields)
        if kind.startswith("R"):
            new = next(fields)
            if not new.endswith("/"):
                moved[new] = path
        elif not path.endswith("/") and kind != "T":
            got[path] = kind
        elif kind == "T":
            got[path.rstrip("/")] = kind
    return got, moved


@pytest.fixture
def plain_folder():
    """On tmpfs, where an inode number is never used again."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cowfs-t-", dir=where))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def random_walk(store, tmp_path, plain_folder, steps):
    seed = int(os.environ.get("COWFS_MODEL_SEED", 0)) or \
        struct.unpack("<I", os.urandom(4))[0]
    steps = STEPS or steps
    print(f"COWFS_MODEL_SEED={seed} COWFS_MODEL_STEPS={steps}")
    rng = random.Random(seed)
    base = tmp_path / "base"
    make_base(base, rng)
    store.load(base)
    plain = plain_folder / "plain"
    subprocess.run(["cp", "-a", "--sparse=always", base, plain], check=True)
    model = Model(store, base, plain, seed)
    walk = Walk(model.rng, root=True)
    walk.learn(model.base_tree)
    try:
        walk_on(model, walk, steps)
    finally:
        model.kill()


def walk_on(model, walk, steps):
    restarts = ["keep", "stop", "kill"]
    next_full, next_restart = FULL, RESTART
    while model.done < steps:
        model.run_batch(walk)
        if model.done >= next_full:
            next_full += FULL
            walk.learn(model.full())
        if model.done >= next_restart:
            next_restart += RESTART
            model.restart(restarts[next_restart // RESTART % 3])
    walk.learn(model.full())
    model.both([(0, [], "drop_all", ())])
    model.stop()
    print(f"{model.done} steps, {model.deaths} deaths")


def test_random_walk(cowfs, as_root, tmp_path, plain_folder):
    random_walk(cowfs, tmp_path, plain_folder, 20000)


@pytest.mark.long
def test_long_random_walk(cowfs, as_root, tmp_path, plain_folder):
    random_walk(cowfs, tmp_path, plain_folder, 200000)
