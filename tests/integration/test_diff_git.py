# SPDX-License-Identifier: MIT
"""diff in git's forms: what it prints is applied by git, to a copy of the
base, and must give the environment."""
import hashlib
import os
import pathlib
import shutil
import signal
import stat

import pytest
from diff_kinds import AS_ROOT, KINDS, Random, base_tree
from helpers import one_line_error
from many_envs import counter, env, shared  # noqa: F401

import mountpoint

LEFT_OUT = "cowfs diff: left out: "


def tree_of(folder):
    """What git can hold of a tree: kind, whether it may be executed, bytes.
    Of directories only what is in them."""
    found = {}
    for top, dirs, names in os.walk(os.fsencode(str(folder))):
        if b".git" in dirs:
            dirs.remove(b".git")
        links = [d for d in dirs if os.path.islink(os.path.join(top, d))]
        for name in names + links:
            path = os.path.join(top, name)
            st = os.lstat(path)
            rest = os.path.relpath(path, os.fsencode(str(folder)))
            if stat.S_ISLNK(st.st_mode):
                found[rest] = "link", os.readlink(path)
            elif stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    found[rest] = (bool(st.st_mode & stat.S_IXUSR),
                                   hashlib.sha256(f.read()).hexdigest())
    return found


def view_of(store, point):
    """tree_of a mount, by a child."""
    source = (f"import sys; sys.path.insert(0, {str(HERE)!r}); "
              "import test_diff_git as t; print(repr(t.tree_of('.')))")
    return eval(store.inside(  # noqa: S307 - our own child's words
        point, [mountpoint.PYTHON, "-c", source], limit=120).out)


HERE = pathlib.Path(__file__).resolve().parent


def git(store, folder, *args, expect=0, data=None):
    env = dict(store.env, GIT_CONFIG_GLOBAL="/dev/null",
               GIT_CONFIG_SYSTEM="/dev/null", HOME=str(store.folder))
    kw = {"stdin": -1} if data is not None else {}
    child = store.spawn(["git", "-C", str(folder), *args], env=env, **kw)
    result = store.finish(child, 120, data)
    assert expect is None or result.code == expect, result
    return result


def remove_empty(top):
    """Leaves what git can hold: no git apply, nor checkout, puts a file in the
    place of a directory that has empty ones in it."""
    for folder, _, _ in os.walk(os.fsencode(top), topdown=False):
        if folder != os.fsencode(top) and not os.listdir(folder):
            os.rmdir(folder)


def round_trip(store, name, base, want, *args):
    """Applies the patch to a copy of the base, which must become want."""
    result = store.run("diff", name, "--patch", *args)
    copy = store.folder / "copy"
    shutil.copytree(base, copy, symlinks=True)
    remove_empty(copy)
    try:
        patch = os.fsencode(result.out)
        if patch:
            git(store, copy, "apply", "--whitespace=nowarn", "-", data=patch)
        assert tree_of(copy) == want
    finally:
        shutil.rmtree(copy)
    return result


def left_out(result):
    if not result.err:
        return None
    line, = result.err.splitlines()
    assert line.startswith(LEFT_OUT)
    return line[len(LEFT_OUT):]


@pytest.mark.parametrize("what, script, letters, told", KINDS,
                         ids=[k[0] for k in KINDS])
def test_round_trip(shared, env, what, script, letters, told):
    name, point = env
    shared.sh(point, script)
    want = {k: v for k, v in view_of(shared, point).items()
            if not k.startswith((b".GIT/", b"git~1/"))}
    result = round_trip(shared, name, shared.folder / "tree", want)
    assert left_out(result) == told
    rows = shared.run("--json", "diff", name, "--patch").json()
    if letters is not None:
        assert sorted(r["status"] for r in rows) == letters
    assert "".join(r["patch"] for r in rows if "patch_hex" not in r) == \
        result.out or any("patch_hex" in r for r in rows)
    code = shared.run("diff", name, "-p", "--exit-code", expect=None).code
    assert code == (1 if rows or told else 0)


@pytest.mark.parametrize("what, script, letters, told", AS_ROOT,
                         ids=[k[0] for k in AS_ROOT])
def test_round_trip_as_root(as_root, shared, env, what, script, letters,
                            told):
    test_round_trip(shared, env, what, script, letters, told)


# git compares the same trees: the text must be the same. (Binary parts are
# deflated in another way, and similarity is counted in another way.)
SAME = ["line", "first and last line", "all lines", "end without a newline",
        "newline at the end", "no newline, changed", "emptied", "filled",
        "line ends", "executable", "mode and content", "new", "new empty",
        "new link", "deleted", "deleted empty", "deleted folder", "target",
        "link to file", "file to link", "file to folder", "folder to file",
        "renamed", "renamed, mode", "renamed, odd", "renamed from odd",
        "swapped", "odd names", "odd new names", "folder renamed"]


@pytest.fixture(scope="module")
def as_git(shared):
    """A repository whose HEAD is the base."""
    top = shared.folder / "repo"
    shutil.copytree(shared.folder / "tree", top, symlinks=True)
    git(shared, top, "init", "-q")
    git(shared, top, "add", "-A")
    git(shared, top, "-c", "user.name=n", "-c", "user.email=e", "commit",
        "-qm", "base")
    return top


@pytest.mark.parametrize("what", SAME)
def test_text_is_git_s_own(shared, env, as_git, what):
    name, point = env
    script, = [k[1] for k in KINDS if k[0] == what]
    shared.sh(point, script)
    shared.sh(as_git, script)
    try:
        git(shared, as_git, "add", "-A")
        diff = ["diff", "--cached", "-M", "--no-color"]
        assert shared.run("diff", name, "--patch").out == \
            git(shared, as_git, *diff, "--binary", "--full-index").out
        assert shared.run("diff", name, "--stat").out == \
            git(shared, as_git, *diff, "--stat=80").out
    finally:
        git(shared, as_git, "reset", "-q", "--hard")
        git(shared, as_git, "clean", "-qfdx")


STATS = ["binary byte", "new binary", "deleted binary", "renamed binary",
         "binary grown"]


@pytest.mark.parametrize("what", STATS)
def test_stat_of_binary_files(shared, env, as_git, what):
    test_stat_only(shared, env, as_git, [k[1] for k in KINDS
                                         if k[0] == what][0])


WIDE = {
    "long names": "mkdir -p $(printf 'verylongname/%.0s' 1 2 3 4 5 6 7 8); "
                  "echo x > $(printf 'verylongname/%.0s' 1 2 3 4 5 6 7 8)y; "
                  "echo n > n",
    "many lines": "seq 1 5000 > many; seq 1 3 > few; sed -i '1,150d' num; "
                  "head -c 9999 /dev/urandom > b",
    "long rename": "mkdir -p d/e/f; mv d/long d/e/f/long",
    "rename up": "mv d/e/x d/x",
    "rename at the top": "mv num mun",
    "one line": "echo 1 > one",
}


@pytest.mark.parametrize("script", WIDE.values(), ids=WIDE)
def test_stat_only(shared, env, as_git, script):
    name, point = env
    shared.sh(point, script)
    # the bytes of /dev/urandom are not the same, their number is
    shared.sh(as_git, script)
    try:
        git(shared, as_git, "add", "-A")
        assert shared.run("diff", name, "--stat").out == \
            git(shared, as_git, "diff", "--cached", "-M", "--stat=80").out
    finally:
        git(shared, as_git, "reset", "-q", "--hard")
        git(shared, as_git, "clean", "-qfdx")


def test_similar_files_are_renames(shared, env):
    name, point = env
    shared.sh(point, "mv num moved; sed -i '5d' moved; mv rnd other; "
                     "printf ZZ | dd of=other bs=1 conv=notrunc status=none")
    rows = shared.run("--json", "diff", name, "--stat").json()
    assert [(r["path"], r["old_path"], r["binary"]) for r in rows] == [
        ("moved", "num", False), ("other", "rnd", True)]
    assert all("R050" <= r["status"] <= "R100" for r in rows)
    round_trip(shared, name, shared.folder / "tree", view_of(shared, point))


def test_paths_limit(shared, env):
    name, point = env
    shared.sh(point, "echo n >> num; echo n > d/new; mv d/long moved; "
                     "mkdir dd; echo n > dd/x; rm d/one")

    def listed(*args):
        return shared.run("diff", name, *args).lines()

    assert listed("d") == ["D\td/long", "A\td/new", "D\td/one"]
    assert listed("./d/", "num") == ["D\td/long", "A\td/new", "D\td/one",
                                     "M\tnum"]
    assert listed("moved", "d/long") == ["R100\td/long\tmoved"]
    assert listed("moved") == ["A\tmoved"]
    assert listed("d/e") == []
    assert len(listed(".")) == 5
    assert listed("--", "nowhere") == []
    rows = shared.run("--json", "diff", name, "--patch", "d", "moved").json()
    assert [(r["status"], r["path"]) for r in rows] == [
        ("A", "d/new"), ("D", "d/one"), ("R100", "moved")]
    rows = shared.run("--json", "diff", name, "--patch", "d").json()
    assert [r["status"] for r in rows] == ["D", "A", "D"]
    result = shared.run("diff", name, "nowhere", expect=3)
    assert one_line_error(result) and "no environment" in result.err
    result = shared.run("diff", name, "-p", "nowhere", expect=3)
    assert one_line_error(result) and "no environment" in result.err
    assert one_line_error(shared.run("diff", name, "a/../b", expect=2))


def test_two_ends(shared, env, tmp_path):
    """Environments and snapshots in all pairs; patches lead from one to the
    other."""
    name, point = env
    top = tmp_path / "later"
    shutil.copytree(shared.folder / "tree", top, symlinks=True)
    (top / "num").write_text("other\n")
    (top / "snew").write_text("s\n")
    shutil.move(top / "d/long", top / "slong")
    shared.load(top, "later")
    other = f"o{next(counter)}"
    opoint = shared.mount("later", other)
    try:
        shared.sh(point, "echo e >> num; echo e > enew; rm 'a b'; mkdir en")
        shared.sh(opoint, "echo e > enew; mv d/one oone; chmod +x mode; "
                          "rm -r d/e")
        trees = {"base": tree_of(shared.folder / "tree"),
                 "later": tree_of(top), name: view_of(shared, point),
                 other: view_of(shared, opoint)}
        places = {"base": shared.folder / "tree", "later": top,
                  name: point, other: opoint}
        for a in trees:
            for b in trees:
                if a == b:
                    assert shared.run("diff", a, b, "-p").out == ""
                    assert shared.run("diff", a, b).out == ""
                    continue
                check_pair(shared, a, b, places[a], trees)
    finally:
        shared.run("umount", other, "--discard")


def check_pair(store, a, b, place, trees):
    copy = store.folder / "pair"
    store.sh(store.folder, f"cp -a {place} {copy}")
    try:
        patch = store.run("diff", a, b, "--patch").out
        git(store, copy, "apply", "-", data=os.fsencode(patch))
        assert tree_of(copy) == trees[b], (a, b)
    finally:
        shutil.rmtree(copy)
    rows = store.run("--json", "diff", a, b).json()
    old, new = set(), set()
    for r in rows:
        if r["dir"]:
            continue
        if r["status"] == "R100":
            old.add(os.fsencode(r["old_path"]))
        if r["status"] not in ("A", "R100"):
            old.add(os.fsencode(r["path"]))
        if r["status"] != "D":
            new.add(os.fsencode(r["path"]))
    differ = {k for k in trees[a] | trees[b]
              if trees[a].get(k) != trees[b].get(k)}
    assert old == differ & trees[a].keys(), (a, b)
    assert new == differ & trees[b].keys(), (a, b)


def test_two_snapshots_need_no_server(plain, tmp_path):
    top = tmp_path / "t"
    base_tree(top)
    plain.load(top, "one")
    (top / "num").write_text("1\n")
    os.rename(top / "mode", top / "mode2")
    (top / "n").mkdir()
    plain.load(top, "two")
    assert plain.run("diff", "one", "two").lines() == [
        "R100\tmode\tmode2", "A\tn/", "M\tnum"]
    assert plain.run("diff", "two", "one").lines() == [
        "R100\tmode2\tmode", "D\tn/", "M\tnum"]
    assert plain.run("diff", "one", "two", "-z", "n").out == "A\0n/\0"
    assert plain.run("diff", "one", "two", "--exit-code", expect=1).out
    assert not plain.run("diff", "one", "one", "--exit-code").out
    assert plain.run("--json", "daemon", "status", expect=None).code != 0
    result = plain.run("diff", "one", "--", "two", expect=3)
    assert one_line_error(result) and "unknown environment" in result.err


def test_wrong_usage(shared, env):
    name, _ = env
    for args in (["--patch", "--stat"], ["--patch", "-z"],
                 ["--patch", "--name-status"], ["--max-file", "x", "-p"],
                 ["--patch", "--times"]):
        assert one_line_error(shared.run("diff", name, *args, expect=2)), args


def test_time_is_that_of_the_changes(cowfs, tmp_path):
    """On a tree of 4,000 files what is asked of the server does not depend
    on what did not change."""
    top = tmp_path / "t"
    for d in range(100):
        (top / f"d{d:02}").mkdir(parents=True)
        for i in range(40):
            (top / f"d{d:02}/f{i:03}").write_text(f"{d} {i}\n")
    cowfs.load(top)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo x >> d05/f005; echo x > d77/new; rm d33/f010; "
                    "mv d44/f001 d44/g001")

    def count():
        row, = cowfs.run("--json", "show", "e").json()
        return row["requests"], row["reads"]

    cowfs.run("umount", "e", "--keep")  # the kernel remembers nothing
    cowfs.run("mount", "e")
    before = count()
    cowfs.run("diff", "e", "--patch")
    after = count()
    # two readings of three files; names on the way
    assert 3 <= after[1] - before[1] <= 8
    assert after[0] - before[0] < 120
    (top / "d05/f006").write_text("changed\n")
    cowfs.load(top, "more")
    cowfs.run("umount", "e", "--keep")
    cowfs.run("mount", "e")
    before = count()
    rows = cowfs.run("diff", "more", "e").lines()
    after = count()
    assert rows == ["M\td05/f005", "M\td05/f006", "D\td33/f010",
                    "R100\td44/f001\td44/g001", "A\td77/new"]
    assert after[0] - before[0] < 150


# A sanitizer's shadow alone is more.
LITTLE_MEMORY = [] if os.environ.get("COWFS_SANITIZE") else [
    "prlimit", "--data=150000000"]


def test_big_files_are_not_held_in_memory(cowfs, tmp_path):
    """A file of 1 GiB: said to differ; its rename is told whole. The command
    may take no more memory than a few small files need."""
    top = tmp_path / "t"
    top.mkdir()
    for name in ("big", "moves"):
        with open(top / name, "wb") as f:
            f.truncate(1 << 30)
            f.seek(12345)
            f.write(name.encode())
    (top / "small").write_text("s\n")
    cowfs.load(top)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "printf Z | dd of=big bs=1 seek=777777777 conv=notrunc "
                    "status=none; mv moves moved; echo >> small")
    child = cowfs.spawn([*LITTLE_MEMORY, "cowfs", "diff", "e", "--patch"])
    result = cowfs.finish(child, 300)
    assert result.code == 0, result
    assert "Binary files a/big and b/big differ\n" in result.out
    assert "rename from moves\nrename to moved\n" in result.out
    assert left_out(result) == "1 big file's content"
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "small").write_text("s\n")
    (copy / "moves").write_text("short here\n")
    part = cowfs.run("diff", "e", "--patch", "small", "moves", "moved").out
    git(cowfs, copy, "apply", "-", data=os.fsencode(part))
    assert sorted(os.listdir(copy)) == ["moved", "small"]
    rows = cowfs.run("--json", "diff", "e", "--stat").json()
    assert [(r["status"], r["path"], r["binary"], r["content"])
            for r in rows] == [("M", "big", True, True),
                               ("R100", "moved", True, False),
                               ("M", "small", False, True)]


def test_the_limit_can_be_set(shared, env):
    name, point = env
    shared.sh(point, "sed -i 1d num; echo > 'a b'")
    out = shared.run("diff", name, "-p", "--max-file", "100").out
    assert "Binary files a/num and b/num differ" in out
    assert "-space" in out
    out = shared.run("diff", name, "-p", "--max-file", "1M").out
    assert "Binary files" not in out


def test_a_file_that_changes_meanwhile(shared, env):
    """Somebody writes all the time: a patch, or exit 4; never a wrong one."""
    name, point = env
    child = shared.start_inside(point, [mountpoint.PYTHON, "-uc", """
import itertools
print("go", flush=True)
for i in itertools.count():
    with open('num', 'w') as f:
        f.write(f'{i}\\n' * (i % 5000))
"""], stdout=-1)
    assert child.stdout.readline() == b"go\n"
    try:
        for _ in range(5):
            result = shared.run("diff", name, "--patch", expect=None)
            assert result.code in (0, 4), result
            if result.code == 4:
                assert one_line_error(result), result
                assert "changes while it is read" in result.err
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate(timeout=20)


def test_kept_environment(shared, env):
    name, point = env
    shared.sh(point, "echo x >> num")
    live = shared.run("diff", name, "--patch").out
    shared.run("umount", name, "--keep")
    assert shared.run("diff", name, "--patch").out == live
    assert shared.run("diff", name, "base", "--stat").out.endswith(
        "1 file changed, 1 deletion(-)\n")
    state, = [r["state"] for r in shared.run("--json", "ps").json()
              if r["name"] == name]
    assert state == "kept"
    assert mountpoint.mounts_below(shared.path / "mnt") in (
        [], [str(shared.path / "mnt")])


def random_round(store, tmp_path, seed):
    top = tmp_path / f"r{seed}"
    top.mkdir()
    change = Random(seed)
    for _ in range(60):
        change.step(str(top))
    store.load(top, f"r{seed}")
    name = f"r{seed}"
    point = store.mount(f"r{seed}", name)
    source = (f"import sys; sys.path[:0] = [{str(HERE)!r}]\n"
              "import diff_kinds as t\n"
              f"c = t.Random({seed + 5000})\n"
              f"for _ in range({5 + seed % 60}): c.step('.')")
    store.inside(point, [mountpoint.PYTHON, "-c", source])
    round_trip(store, name, top, view_of(store, point))
    store.run("umount", name, "--discard")
    shutil.rmtree(top)


@pytest.mark.parametrize("seed", range(12))
def test_random_changes(shared, tmp_path, seed):
    random_round(shared, tmp_path, seed)


@pytest.mark.long
def test_many_random_changes(cowfs, tmp_path):
    first = int(os.environ.get("COWFS_DIFF_SEED", 100))
    for seed in range(first, 400):
        random_round(cowfs, tmp_path, seed)
