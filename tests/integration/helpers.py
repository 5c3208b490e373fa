# SPDX-License-Identifier: MIT
"""What several integration tests need."""
import hashlib
import os
import pathlib
import stat
import sys

HERE = pathlib.Path(__file__).resolve().parent
SUPPORT = HERE.parent / "support"
sys.path.insert(0, str(SUPPORT))
from mountpoint import PYTHON, wait_until  # noqa: E402,F401


def listing(store, folder, *args):
    """The listing of a tree, made by a child (the tree may be a mount)."""
    return store.inside(
        folder, [PYTHON, SUPPORT / "listing.py", ".", *args],
        limit=300).lines()


def assert_same_tree(store, a, b, content=True):
    args = ["--content"] if content else []
    left, right = listing(store, a, *args), listing(store, b, *args)
    differ = sorted(set(left) ^ set(right))
    assert left == right, "\n".join(differ[:10])


def fewer(count):
    """Of what is done again and again, a fifth under a sanitizer."""
    return count // 5 if os.environ.get("COWFS_SANITIZE") else count


def sh(box, script, *options, **kw):
    """In the sandbox of the environment e."""
    return box.run("run", *options, "e", "--", "sh", "-c", script, **kw)


def one_line_error(result):
    """One line on stderr that starts with cowfs, a second one at most for
    what to do, nothing on stdout."""
    lines = result.err.splitlines()
    return (1 <= len(lines) <= 2 and lines[0].startswith("cowfs ")
            and not result.out)


# Files that any command may make or touch.
RUNTIME = ("lock.mdb", "server.log", "index.clean", "server.lock", "ctl.sock")


def store_state(folder):
    """What must not change: names, kinds and bytes of everything but mounts
    and trash, which is emptied a little later."""
    found = {}
    for top, dirs, names in os.walk(folder):
        dirs[:] = [d for d in dirs if d not in ("mnt", "trash")]
        for name in dirs + names:
            path = os.path.join(top, name)
            if name in RUNTIME:
                continue
            st = os.lstat(path)
            found[os.path.relpath(path, folder)] = (
                stat.S_IFMT(st.st_mode),
                hashlib.sha256(open(path, "rb").read()).hexdigest()
                if stat.S_ISREG(st.st_mode) else None)
    return found
