# SPDX-License-Identifier: MIT
"""A store with a bit of everything, and copies of it to be damaged."""
import os
import random
import shutil

import pytest


@pytest.fixture
def full(cowfs, tmp_path):
    """A store with all kinds of objects, two names for two snapshots, an
    index of several levels with long values, and a kept environment."""
    top = tmp_path / "top"
    (top / "d").mkdir(parents=True)
    for i in range(250):
        (top / "d" / f"f{i:03}").write_text(f"file {i}\n" * (i % 9 + 1))
    rng = random.Random(4)
    (top / "big").write_bytes(rng.randbytes(300000))
    with open(top / "sparse", "wb") as f:
        f.truncate(1 << 20)
        f.seek(300000)
        f.write(b"middle")
    os.link(top / "d/f001", top / "hard")
    (top / "sym").symlink_to("d/f002")
    os.setxattr(top / "d/f003", "user.k", b"value")
    cowfs.load(top, "one", "--message", "m" * 9000)
    (top / "second").write_bytes(rng.randbytes(5000))
    (top / "d/f004").unlink()
    cowfs.load(top, "two")
    cowfs.run("tag", "one", "also:v1")
    cowfs.run("settings", "--grace", "9")
    point = cowfs.mount("one", "e")
    cowfs.sh(point, "echo hi > new; rm d/f005; mv d/f006 g; mkdir n; "
                    "ln new twin; chmod 600 d/f007; setfattr -n user.z -v q "
                    "new; ln -s x y")
    cowfs.run("umount", "e", "--keep")
    cowfs.run("daemon", "stop")
    shutil.rmtree(cowfs.path / "mnt", ignore_errors=True)
    assert cowfs.run("fsck").out == "0 problems\n"
    return cowfs


class Copy:
    """A copy of a store, to be damaged."""

    def __init__(self, store):
        self.store = store
        self.pristine = store.folder / "pristine"
        shutil.copytree(store.path, self.pristine, symlinks=True)
        self.snapshots = self.run("snapshots", "--json").out

    def fresh(self):
        shutil.rmtree(self.store.path)
        # Sockets and locks are not part of it; times are.
        shutil.copytree(self.pristine, self.store.path, symlinks=True)

    def run(self, *args):
        return self.store.run(*args, expect=None, limit=60)


def files_of(folder):
    """{name: size} of the files that have bytes."""
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            if os.path.isfile(path) and os.path.getsize(path):
                found[os.path.relpath(path, folder)] = os.path.getsize(path)
    return found


def flip(path, offset, bit):
    with open(path, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ 1 << bit]))


def check_reads(store, names):
    """Mounts snapshots; each file has its bytes or EIO. Returns listings."""
    out = {}
    for name in names:
        mounted = store.run("mount", name, "probe", expect=None)
        assert mounted.code in (0, 3, 4), mounted
        if mounted.code:
            out[name] = None
            continue
        out[name] = store.py(mounted.out.strip(), """
            import hashlib
            def fail(e):
                if e.errno != errno.EIO: raise e
                print('EIO')
            for d, ds, fs in os.walk('.', onerror=fail):
                ds.sort()
                for n in sorted(fs):
                    p = os.path.join(d, n)
                    try:
                        if os.path.islink(p):
                            print(p, os.readlink(p))
                        else:
                            with open(p, 'rb') as f:
                                print(p, hashlib.sha256(f.read()).hexdigest())
                    except OSError as e:
                        fail(e)
            """).out.splitlines()
        store.run("umount", "probe", "--discard")
    return out


def copy_and_look(full):
    """A copy to break, and what is in each snapshot."""
    copy = Copy(full)
    rows = full.run("snapshots", "--json").json()
    full.ids = {ref: r["id"] for r in rows for ref in r["refs"]
                if ref != "also:v1"}
    originals = check_reads(full, full.ids)
    full.run("daemon", "stop")
    return copy, originals
