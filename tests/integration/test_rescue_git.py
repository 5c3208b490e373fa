# SPDX-License-Identifier: MIT
"""Rescues of git repositories: the ref in the origin, what is left out, and an
origin that cannot take its part.
"""
import os
import subprocess

import pytest
from helpers import listing
from test_rescue import envs, rescue_of, rescues

GIT_ENV = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER")
           for what in ("NAME", "EMAIL")}


def git(folder, *args):
    done = subprocess.run(["git", "-C", str(folder), *args], text=True,
                          env={**os.environ, **GIT_ENV}, check=True,
                          capture_output=True)
    return done.stdout


@pytest.fixture
def origin(tmp_path):
    top = tmp_path / "origin"
    (top / "src").mkdir(parents=True)
    for i in range(5):
        (top / f"src/f{i}").write_text(f"{i}\n" * 10)
    (top / ".gitignore").write_text("node_modules\n*.log\nbuild/\n")
    git(tmp_path, "init", "-q", "-b", "main", "origin")
    git(top, "add", ".")
    git(top, "commit", "-qm", "one")
    return top


def start(store, origin, script="", name="e"):
    if not rescues(store) and not envs(store):
        store.env.update(GIT_ENV)
        store.load(origin)
    point = store.mount("base", name)
    store.sh(point, script or "true")
    return point


WORK = """
echo committed > src/f0; git commit -qam two
git branch side; git tag mark
echo stashed > src/f1; git stash -q
echo staged > src/f2; git add src/f2
echo more >> src/f2; rm src/f3; echo new > new; mkdir empty
echo secret > my.log
"""


def state(store, point):
    """What git says of a work tree."""
    return store.sh(point, "git for-each-ref; git ls-files -s; cat .git/HEAD; "
                           "git stash list; git reflog; git fsck --full; "
                           "git --no-optional-locks status --porcelain").out


def refs(origin):
    return {line.split("\t")[1]: line.split(" ")[0] for line in
            git(origin, "for-each-ref", "refs/cowfs").splitlines()}


def test_restored_it_is_the_same_and_the_origin_has_a_ref(cowfs, origin):
    before_origin = listing(cowfs, origin / "src", "--content")
    point = start(cowfs, origin, WORK)
    git_before, before = state(cowfs, point), listing(cowfs, point, "--content")
    head = cowfs.sh(point, "git rev-parse HEAD").out.strip()
    stash = cowfs.sh(point, "git rev-parse stash@{0}").out.strip()
    rescue = rescue_of(cowfs, "e")
    ref = "refs/cowfs/rescue/" + rescue["rescue"]
    assert rescue["where"] == "origin" and rescue["git_ref"] == ref
    assert refs(origin) == {ref: rescue["git_commit"]}
    assert git(origin, "show", ref + ":src/f2") == "staged\nmore\n"
    assert git(origin, "show", ref + ":new") == "new\n"
    files = git(origin, "ls-tree", "-r", "--name-only", ref).split()
    assert "src/f3" not in files and "my.log" not in files
    git(origin, "gc", "-q", "--prune=now")
    for commit in (head, stash):
        assert git(origin, "cat-file", "-t", commit) == "commit\n"
        git(origin, "merge-base", "--is-ancestor", commit, ref)
    assert git(origin, "fsck", "--full", "--strict") == ""
    assert git(origin, "status", "--porcelain") == ""
    assert listing(cowfs, origin / "src", "--content") == before_origin
    cowfs.run("rescue", "restore", rescue["rescue"], "again")
    point = cowfs.mount("again")
    assert listing(cowfs, point, "--content") == before
    assert state(cowfs, point) == git_before


def test_dropped_its_ref_goes(cowfs, origin):
    start(cowfs, origin, "echo x > new")
    rescue = rescue_of(cowfs, "e")["rescue"]
    cowfs.run("rescue", "drop", rescue, "--dry-run")
    assert len(refs(origin)) == 1
    cowfs.run("rescue", "drop", rescue)
    assert not refs(origin) and not rescues(cowfs)


def test_a_ref_that_somebody_moved_stays(cowfs, origin):
    start(cowfs, origin, "echo x > new")
    rescue = rescue_of(cowfs, "e")
    git(origin, "update-ref", rescue["git_ref"], "HEAD")
    result = cowfs.run("rescue", "drop", rescue["rescue"])
    assert "left alone" in result.err, result
    assert rescue["git_ref"] in refs(origin) and not rescues(cowfs)


def test_pruned_their_refs_go(cowfs, origin):
    for name in ("a", "b"):
        start(cowfs, origin, "echo x > new", name)
        rescue_of(cowfs, name)
    assert len(refs(origin)) == 2
    cowfs.run("rescue", "prune", "--older-than", "0")
    assert not refs(origin)


IGNORED = """
mkdir -p node_modules/x build src/deep/node_modules
seq 9999 > node_modules/x/a; seq 99 > node_modules/b
echo d > src/deep/node_modules/d
echo note > notes.log
head -c 12000000 /dev/zero | tr '\\0' z > build/huge
echo small > build/small
echo real > real
"""


def restored_files(store, rescue):
    store.run("rescue", "restore", rescue["rescue"], "look")
    point = store.mount("look")
    found = store.sh(point, "find . -path ./.git -prune -o -type f -print "
                            "-o -type d -print | sort").out.split()
    store.run("umount", "look", "--discard")
    return found


def test_dependencies_and_huge_files_are_left_out(cowfs, origin):
    start(cowfs, origin, IGNORED)
    rescue = rescue_of(cowfs, "e")
    assert rescue["left"] == ["build/huge", "node_modules/",
                              "src/deep/node_modules/"]
    found = restored_files(cowfs, rescue)
    assert {"./notes.log", "./build/small", "./real"} <= set(found)
    assert not [f for f in found if "node_modules" in f or "huge" in f]


@pytest.mark.parametrize("how, left", [
    ("all", []),
    ("none", ["build/", "node_modules/", "notes.log",
              "src/deep/node_modules/"]),
    ("20M", ["node_modules/", "src/deep/node_modules/"]),
    ("5", ["build/huge", "build/small", "node_modules/",
           "src/deep/node_modules/"]),
])
def test_rescue_ignored(cowfs, origin, how, left):
    start(cowfs, origin, IGNORED)
    rescue = rescue_of(cowfs, "e", "--rescue-ignored", how)
    if how == "5":  # "note\n" has five bytes
        left = ["build/"] + left[2:]
    assert rescue["left"] == left
    found = restored_files(cowfs, rescue)
    assert "./real" in found
    assert ("./node_modules/x/a" in found) == (how == "all")


def test_what_the_base_has_comes_back_where_it_is_left_out(cowfs, origin):
    (origin / "node_modules").mkdir()
    (origin / "node_modules/dep").write_text("1")
    start(cowfs, origin, "echo 2 > node_modules/dep; echo 3 > node_modules/n; "
                         "echo x > real")
    rescue = rescue_of(cowfs, "e")
    assert rescue["left"] == ["node_modules/"]
    cowfs.run("rescue", "restore", rescue["rescue"], "f")
    found = cowfs.sh(cowfs.mount("f"), "ls node_modules; cat node_modules/dep")
    assert found.out == "dep\n1"


def broken_head(origin):
    (origin / ".git/HEAD").write_text("nonsense\n")


def gone(origin):
    origin.rename(origin.parent / "elsewhere")


def no_repository(origin):
    (origin / ".git").rename(origin / "git")


@pytest.mark.parametrize("harm", [gone, no_repository, broken_head])
def test_an_origin_that_cannot_take_it(cowfs, origin, harm):
    point = start(cowfs, origin, WORK)
    before = listing(cowfs, point, "--content")
    harm(origin)
    result = cowfs.run("umount", "e")
    rescue, = rescues(cowfs)
    assert rescue["where"] == "store" or harm is broken_head
    if rescue["where"] == "store":
        assert "store alone" in result.err, result
    cowfs.run("rescue", "restore", rescue["rescue"], "f")
    assert listing(cowfs, cowfs.mount("f"), "--content") == before
    cowfs.run("rescue", "drop", rescue["rescue"])


def test_a_repository_that_is_no_more(cowfs, origin):
    point = start(cowfs, origin, "rm -rf .git; echo x > new")
    before = listing(cowfs, point, "--content")
    rescue = rescue_of(cowfs, "e")
    cowfs.run("rescue", "restore", rescue["rescue"], "f")
    assert listing(cowfs, cowfs.mount("f"), "--content") == before


def test_a_corrupt_index(cowfs, origin):
    point = start(cowfs, origin, "echo x > new; echo nonsense > .git/index")
    before = listing(cowfs, point, "--content")
    rescue = rescue_of(cowfs, "e")
    cowfs.run("rescue", "restore", rescue["rescue"], "f")
    assert listing(cowfs, cowfs.mount("f"), "--content") == before
