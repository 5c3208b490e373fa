# SPDX-License-Identifier: MIT
"""Fixtures: a store of its own for each test, and trees to import."""
import os
import pathlib
import shutil
import stat
import sys
import tempfile

import pytest

LONG_TABLE = 6  # rows
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import mountpoint  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "long: more than two minutes")
    config.addinivalue_line("markers", "tree: a real project from npm")
    config.addinivalue_line("markers", "measures: not what a sanitizer's is")


def pytest_collection_modifyitems(config, items):
    """A sanitizer looks at code, not at rows: of a long table every third.
    What it measures is its own."""
    if not os.environ.get("COWFS_SANITIZE"):
        return
    tables = {}
    for item in items:
        tables.setdefault((item.path, item.originalname), []).append(item)
    left = [item for rows in tables.values() if len(rows) >= LONG_TABLE
            for i, item in enumerate(rows) if i % 3]
    left += [item for item in items if item.get_closest_marker("measures")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def skip_unless(have, what):
    if have:
        return
    if mountpoint.required(what):
        pytest.fail(f"COWFS_TESTS_REQUIRE has {what}, this machine has not")
    pytest.skip(f"needs {what}")


def user_command(store, uid=65534):
    """argv that runs cowfs as another user. The program is copied: the
    build may stand where only its owner gets to."""
    copy = store.folder / "bin/cowfs"
    if not copy.exists():
        copy.parent.mkdir()
        shutil.copy(mountpoint.binary(), copy)
        store.folder.chmod(0o777)
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid),
            "--clear-groups", "env", f"HOME={store.folder}", str(copy)]


def have_fuse():
    try:
        mode = os.stat("/dev/fuse").st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) and os.access("/dev/fuse", os.R_OK | os.W_OK)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    setattr(item, "report_" + report.when, report)


@pytest.fixture
def new_store(request):
    """Makes stores; all are closed, and must close cleanly, at the end."""
    stores = []

    def make():
        stores.append(mountpoint.Store())
        return stores[-1]

    yield make
    report = getattr(request.node, "report_call", None)
    failed = report is not None and report.failed
    wrong = []
    for store in stores:
        wrong += store.close(keep=failed)
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def plain(new_store):
    """A store for tests that never mount."""
    return new_store()


@pytest.fixture
def cowfs(new_store):
    """A store for tests that mount."""
    skip_unless(have_fuse(), "fuse")
    return new_store()


@pytest.fixture
def small_disk(as_root, cowfs):
    """The store is on a disk of 48 MiB of its own."""
    cowfs.path.mkdir()
    mount = cowfs.spawn(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs",
                         cowfs.path])
    assert cowfs.finish(mount, 10).code == 0
    yield cowfs
    cowfs.run("umount", "--all", "--discard")
    cowfs.run("daemon", "stop")
    # Its removal by the server's end: nothing else holds it.
    assert cowfs.finish(cowfs.spawn(["umount", cowfs.path]), 10).code == 0
    cowfs.path.rmdir()


@pytest.fixture
def as_root():
    skip_unless(os.geteuid() == 0, "root")


@pytest.fixture
def tmp_path():
    """In place of pytest's: open to other users, and always removed."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cowfs-t-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def tree(tmp_path):
    """A small tree with a bit of everything; returns its path."""
    top = tmp_path / "tree"
    make_tree(top)
    return top


@pytest.fixture
def at_home(cowfs):
    """A store whose user has a HOME of its own, for commands in sandboxes."""
    skip_unless(shutil.which("bwrap"), "bwrap")
    cowfs.home = cowfs.folder / "home"
    cowfs.home.mkdir()
    cowfs.env["HOME"] = str(cowfs.home)
    return cowfs


@pytest.fixture
def loaded(at_home, tree):
    """The same with a snapshot of the tree."""
    at_home.tree = tree
    at_home.load(tree)
    return at_home


@pytest.fixture
def box(loaded):
    """The same with an environment e."""
    loaded.point = loaded.mount("base", "e")
    return loaded


def make_tree(top):
    top.mkdir(parents=True)
    (top / "a.txt").write_text("alpha\n")
    (top / "b.txt").write_text("beta\n" * 1000)
    (top / "empty").write_text("")
    (top / "run.sh").write_text("#!/bin/sh\necho hi\n")
    (top / "run.sh").chmod(0o755)
    (top / "link").symlink_to("a.txt")
    (top / "dangling").symlink_to("no/such/file")
    for d in ("src", "src/deep/er", "gone", "moved"):
        (top / d).mkdir(parents=True)
    for i in range(20):
        (top / "src" / f"f{i:02}.c").write_text(f"int f{i};\n" * (i + 1))
    (top / "src/deep/er/leaf").write_bytes(bytes(range(256)) * 40)
    (top / "gone/one").write_text("1")
    (top / "moved/x").write_text("x")
    (top / "moved/y").write_text("y")
    os.link(top / "a.txt", top / "src/hard")
    with open(top / "sparse", "wb") as f:
        f.truncate(3 << 20)
        f.seek(1 << 20)
        f.write(b"middle")
    with open(top / "big", "wb") as f:
        for i in range(700):
            f.write(bytes([i % 251]) * 1013)
