# SPDX-License-Identifier: MIT
"""States that an agent may leave an environment in, made by git itself: each
is rescued, restored, and compared with what a program without any code of
cowfs saw before (tests/support/gitprint.py). The origin must be as it was, but
for the ref, which keeps alive what it is of."""
import json
import os
import pathlib
import shutil

import mountpoint
import pytest
from conftest import skip_unless
from helpers import one_line_error
from rescue_states import GIT_ENV, ORIGIN, SHORT, STATES

SUPPORT = pathlib.Path(__file__).resolve().parent.parent / "support"

def git(store, folder, *args, expect=0):
    child = store.spawn(["git", "-C", str(folder), *args],
                        env=dict(store.env, GIT_OPTIONAL_LOCKS="0",
                                 **GIT_ENV))
    result = store.finish(child, 120)
    assert expect is None or result.code == expect, result
    return result.out


def sh(store, folder, script):
    return store.sh(folder, script, env=dict(store.env, **GIT_ENV),
                    limit=120)


def make_origin(store, folder):
    folder.mkdir()
    sh(store, folder, ORIGIN)


def gitprint(store, folder, *args):
    return json.loads(store.inside(
        folder, [mountpoint.PYTHON, SUPPORT / "gitprint.py", *args],
        limit=240, env=dict(store.env, **GIT_ENV)).out)


def origin_state(store, folder):
    """Everything but objects and rescues."""
    told = gitprint(store, folder, "--no-git")["tree"]
    told = {k: v for k, v in told.items()
            if not k.startswith((".git/objects", ".git/refs/cowfs",
                                 ".git/logs/refs/cowfs"))
            and k not in (".git", ".git/refs", ".git/logs/refs",
                          ".git/logs")}
    status = git(store, folder, "status", "--porcelain=v2", "--ignored")
    refs = [r for r in git(store, folder, "for-each-ref").splitlines()
            if "refs/cowfs/" not in r]
    return {"tree": told, "git": {"status": status, "refs": refs}}


def without(told, left):
    """A print without the paths that are left out, nor what shows of them in
    git's words about ignored files."""
    told = json.loads(json.dumps(told))
    left = [name.rstrip("/") for name in left]
    for name in left:
        for path in list(told["tree"]):
            if path == name or path.startswith(name + "/"):
                del told["tree"][path]
    if left:
        for words in told["git"].values():
            words[1] = "".join(
                line for line in words[1].splitlines(True)
                if not (line.startswith("! ") and
                        line[2:].strip().rstrip("/") in left))
    told.pop("work", None)
    return told


def differences(a, b):
    found = []
    for part in a:
        for key in sorted(a[part].keys() | b[part].keys()):
            if a[part].get(key) != b[part].get(key):
                found.append(f"{part} {key}: {a[part].get(key)} -> "
                             f"{b[part].get(key)}")
    return found


def tips(store, point):
    """Commits of the environment that have names. (Of an annotated tag the
    origin has the bytes, as a file of the rescue.)"""
    script = ("git for-each-ref --format='%(refname)' | while read -r n; do "
              "git rev-parse -q --verify \"$n^{}\" || :; done; "
              "git rev-parse -q --verify HEAD || :; "
              "git stash list --format=%H; "
              "for f in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD; do "
              "git rev-parse -q --verify $f || :; done")
    return sorted(set(store.sh(point, script).out.split()))


def umount(store, name, *args, **kw):
    known = {r["rescue"] for r in store.run("--json", "rescue", "ls").json()}
    result = store.run("umount", name, *args, **kw)
    new = [r for r in store.run("--json", "rescue", "ls").json()
           if r["rescue"] not in known]
    return result, new


def check_ref(store, origin, rescue, before, names):
    """The ref in the origin, after its gc."""
    ref = "refs/cowfs/rescue/" + rescue["rescue"]
    git(store, origin, "fsck", "--full", "--strict")
    git(store, origin, "gc", "-q", "--prune=now")
    git(store, origin, "fsck", "--full")
    commit = git(store, origin, "rev-parse", ref).strip()
    assert commit == rescue["git_commit"]
    git(store, origin, "rev-list", "--objects", "--quiet", ref)
    for name in names:
        git(store, origin, "cat-file", "-e", name)
    if before.get("work") is not None:
        assert git(store, origin, "ls-tree", "-rz", ref) == before["work"]


def check_restored(store, rescue, before):
    left = rescue["left"]
    name = "back" + rescue["env"]
    store.run("rescue", "restore", rescue["rescue"], name)
    point = store.mount(name)
    after = gitprint(store, point)
    where = differences(without(before, left), without(after, left))
    assert not where, "\n".join(where[:20])
    store.run("umount", name, "--discard")
    store.run("rescue", "drop", rescue["rescue"])


def check_state(store, origin, name, want):
    """From an environment in some state to its end."""
    point = store.run("--json", "show", name).json()[0]["path"]
    scratch = store.folder / f"scratch-{name}"
    scratch.mkdir()
    ask = [] if want.get("tree") is False else [str(scratch)]
    before = gitprint(store, point, *ask)
    # git stamps a shared index, and objects, when it reads them
    before["tree"] = gitprint(store, point, "--no-git")["tree"]
    names = [] if want.get("git", True) is None else tips(store, point)
    shutil.rmtree(scratch)
    origin_before = origin_state(store, origin)
    result, new = umount(store, name)
    if want.get("changed") is None and "changed" in want and not new:
        return  # times alone are no change
    rescue, = new
    assert rescue["env"] == name, result
    assert sorted(rescue["left"]) == sorted(want.get("left", [])), result
    assert name not in [r["name"] for r in store.run("--json", "ps").json()]
    where = differences(origin_before, origin_state(store, origin))
    assert not where, "\n".join(where[:20])
    if want.get("git", True) is True:
        assert rescue["where"] == "origin", result
    if rescue["where"] == "origin":
        check_ref(store, origin, rescue, before, names)
    check_restored(store, rescue, before)
    if rescue["where"] == "origin":
        assert "refs/cowfs" not in git(store, origin, "for-each-ref")
    git(store, origin, "fsck", "--full")


counter = iter(range(10**6))


@pytest.fixture
def origin(cowfs):
    """A repository, imported as "base"."""
    folder = cowfs.folder / "origin"
    make_origin(cowfs, folder)
    cowfs.load(folder)
    return folder


def run_state(store, origin, what):
    script, want = STATES[what]
    name = f"e{next(counter)}"
    point = store.mount("base", name)
    sh(store, point, script)
    check_state(store, origin, name, want)


@pytest.mark.parametrize("what", SHORT)
def test_state(cowfs, origin, what):
    run_state(cowfs, origin, what)


@pytest.mark.long
@pytest.mark.parametrize("what", [s for s in STATES if s not in SHORT])
def test_more_states(cowfs, origin, what):
    run_state(cowfs, origin, what)


# --- an origin that is not as it should be -----------------------------------

def change(store, name="e"):
    point = store.mount("base", name)
    sh(store, point, "echo c > c; git add c; git commit -qm c; echo u > u; "
                     "echo s >> a; git stash -q; echo m >> b")
    return gitprint(store, point)


def only_in_store(store, before, name="e"):
    result, (rescue,) = umount(store, name)
    assert rescue["where"] == "store", result
    assert result.code == 0 and "origin" in result.err, result
    check_restored(store, rescue, before)
    return result


def test_origin_deleted(cowfs, origin):
    before = change(cowfs)
    shutil.rmtree(origin)
    only_in_store(cowfs, before)
    assert not origin.exists()


def test_origin_is_something_else_now(cowfs, origin):
    before = change(cowfs)
    shutil.rmtree(origin)
    origin.mkdir()
    (origin / "file").write_text("x")
    only_in_store(cowfs, before)
    assert [p.name for p in origin.iterdir()] == ["file"]


@pytest.fixture
def disk(as_root, cowfs):
    """Mounts a small disk, and remounts it."""
    folder = cowfs.folder / "disk"
    folder.mkdir()

    def mount(*args):
        child = cowfs.spawn(["mount", *args, folder])
        assert cowfs.finish(child, 20).code == 0

    mount("-t", "tmpfs", "-o", "size=8m", "tmpfs")
    yield folder, lambda: mount("-o", "remount,ro")
    cowfs.finish(cowfs.spawn(["umount", folder]), 20)


def disk_origin(store, folder):
    origin = folder / "origin"
    make_origin(store, origin)
    store.load(origin)
    return origin


def test_origin_read_only(cowfs, disk):
    folder, read_only = disk
    origin = disk_origin(cowfs, folder)
    before = change(cowfs)
    read_only()
    state = origin_state(cowfs, origin)
    only_in_store(cowfs, before)
    assert origin_state(cowfs, origin) == state


def test_origin_s_disk_full(cowfs, disk):
    folder, _ = disk
    origin = disk_origin(cowfs, folder)
    point = cowfs.mount("base", "e")
    sh(cowfs, point, "head -c 6000000 /dev/urandom > random; git add random; "
                     "git commit -qm random; echo u > u")
    before = gitprint(cowfs, point)
    fill = folder / "fill"
    with open(fill, "wb") as f:
        try:
            while True:
                f.write(bytes(65536))
                f.flush()
        except OSError:
            pass
    state = origin_state(cowfs, origin)
    only_in_store(cowfs, before)
    assert origin_state(cowfs, origin) == state
    git(cowfs, origin, "fsck", "--full")
    fill.unlink()


@pytest.mark.long
def test_origin_busy_with_gc(cowfs, origin):
    """gc of the origin all the time; ten environments are rescued."""
    loop = cowfs.spawn(["sh", "-c", "while :; do git gc -q --prune=now; done"],
                       cwd=origin, env=dict(cowfs.env, **GIT_ENV))
    try:
        rescues = []
        for i in range(10):
            before = change(cowfs, f"g{i}")
            result, (rescue,) = umount(cowfs, f"g{i}")
            assert rescue["where"] == "origin", result
            rescues.append((rescue, before))
    finally:
        os.killpg(loop.pid, 9)
        loop.communicate(timeout=20)
    for lock in origin.glob(".git/*.pid"):
        lock.unlink()
    for lock in origin.glob(".git/**/*.lock"):
        lock.unlink()
    for rescue, before in rescues:
        assert rescue["where"] == "origin"
        check_ref(cowfs, origin, rescue, {}, [])
        check_restored(cowfs, rescue, before)


@pytest.mark.long
def test_a_file_of_1_gib(cowfs, origin):
    point = cowfs.mount("base", "e")
    sh(cowfs, point, "truncate -s 1G big; printf end | dd of=big bs=1 "
                     "seek=1000000000 conv=notrunc status=none")
    before = gitprint(cowfs, point)
    result, (rescue,) = umount(cowfs, "e", limit=600)
    assert rescue["left"] == [], result
    check_restored(cowfs, rescue, before)


def test_somebody_writes_until_the_last_moment(cowfs, origin):
    """Busy while it lasts, and named; then everything that was written."""
    point = cowfs.mount("base", "e")
    child = cowfs.start_inside(point, [mountpoint.PYTHON, "-uc", """
import mmap, sys
with open('m', 'wb') as f:
    f.truncate(1 << 20)
with open('m', 'r+b') as f:
    m = mmap.mmap(f.fileno(), 0)
w = open('w', 'w')
print('go', flush=True)
n = 0
while True:
    n += 1
    m[n * 37 % (1 << 20)] = n & 255
    w.write(f'{n}\\n')
"""], stdout=-1)
    assert child.stdout.readline() == b"go\n"
    try:
        result = cowfs.run("umount", "e", expect=4)
        assert str(point) in result.err and "python" in result.err
    finally:
        os.killpg(child.pid, 9)
        child.communicate(timeout=20)
    check_state(cowfs, origin, "e", {"tree": False})


def test_no_repository(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo x >> a.txt; mkdir e; rm -r gone")
    before = gitprint(cowfs, point, "--no-git")
    result, (rescue,) = umount(cowfs, "e")
    assert rescue["where"] == "store" and len(result.err.splitlines()) <= 2
    cowfs.run("rescue", "restore", rescue["rescue"], "f")
    after = gitprint(cowfs, cowfs.mount("f"), "--no-git")
    assert differences(before, after) == []


def test_ignored_by_policy(cowfs, origin):
    script = ("mkdir -p node_modules/m; echo j > node_modules/m/j; "
              "echo 1 > small.log; head -c 3000000 /dev/zero > big.log; "
              "echo u > u")
    for policy, left in (("all", []), ("none", ["big.log", "node_modules/",
                                                "small.log"]),
                         ("1M", ["big.log", "node_modules/"])):
        name = f"p{policy}"
        point = cowfs.mount("base", name)
        sh(cowfs, point, script)
        before = gitprint(cowfs, point)
        _, (rescue,) = umount(cowfs, name, "--rescue-ignored", policy)
        assert sorted(rescue["left"]) == left
        check_restored(cowfs, rescue, before)
    cowfs.mount("base", "q")
    result = cowfs.run("umount", "q", "--rescue-ignored", "5x", expect=2)
    assert one_line_error(result)


# --- random states -------------------------------------------------------------

def random_round(store, origin, seed):
    name = f"r{seed}"
    point = store.mount("base", name)
    source = (f"import sys; sys.path[:0] = [{str(SUPPORT.parent)!r} + "
              f"'/integration', {str(SUPPORT)!r}]\n"
              "import rescue_states as t\n"
              f"w = t.Walk({seed})\n"
              f"for _ in range({4 + seed % 40}): w.step()")
    store.inside(point, [mountpoint.PYTHON, "-c", source], limit=300,
                 env=dict(store.env, **GIT_ENV))
    if not store.run("diff", name).out:
        store.run("umount", name)
        return
    check_state(store, origin, name, {"tree": None})


@pytest.mark.parametrize("seed", range(5))
def test_random_states(cowfs, origin, seed):
    random_round(cowfs, origin, seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 300, 10))
def test_many_random_states(cowfs, origin, first):
    for seed in range(first, first + 10):
        random_round(cowfs, origin, seed)


def test_enough_states():
    """The matrix has forty states at least, and all run somewhere."""
    assert len(STATES) + 8 >= 48 and set(SHORT) <= set(STATES)
    skip_unless(shutil.which("git"), "git")
