# SPDX-License-Identifier: MIT
"""Repositories of every kind become environments that stand alone."""
import os
import pathlib
import shutil
import subprocess

import pytest
from gitrepo import env, git  # noqa: F401
from helpers import one_line_error


def fill(top, name="file", count=20):
    for d in range(3):
        (top / f"d{d}").mkdir(exist_ok=True)
        for i in range(count):
            (top / f"d{d}/{name}{i}").write_text(f"{name} {d} {i}\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", f"with {name}")


def make_repo(top):
    git(top.parent, "init", "-q", "-b", "main", top)
    fill(top)
    (top / "d0/file1").write_text("stashed\n")
    git(top, "stash")
    git(top, "branch", "side")
    return top


def make_plain(tmp):
    return make_repo(tmp / "repo"), "."


def make_linked(tmp):
    main = make_repo(tmp / "main")
    git(main, "worktree", "add", "-q", "-b", "topic", tmp / "linked")
    fill(tmp / "linked", "more")
    return tmp / "linked", "."


def make_shared(tmp):
    main = make_repo(tmp / "main")
    git(tmp, "clone", "-q", "--shared", main, tmp / "middle")
    git(tmp, "clone", "-q", "--shared", tmp / "middle", tmp / "shared")
    fill(tmp / "shared", "own")
    (tmp / "shared/d0/file1").write_text("stashed\n")
    git(tmp / "shared", "stash")
    return tmp / "shared", "."


def make_submodule(tmp):
    inner = make_repo(tmp / "inner")
    outer = make_repo(tmp / "outer")
    git(outer, "submodule", "-q", "add", inner, "sub")
    git(outer, "commit", "-q", "-m", "sub")
    return outer, "sub"


def make_lone_submodule(tmp):
    outer, _ = make_submodule(tmp)
    return outer / "sub", "."


def make_separate(tmp):
    top = tmp / "work"
    git(tmp, "init", "-q", "-b", "main", "--separate-git-dir",
        tmp / "elsewhere.git", top)
    fill(top)
    (top / "d0/file1").write_text("stashed\n")
    git(top, "stash")
    return top, "."


def make_symlinked(tmp):
    make_repo(tmp / "real")
    top = tmp / "work"
    top.mkdir()
    (top / ".git").symlink_to(tmp / "real/.git")
    git(top, "checkout", "-q", "-f", "main")
    return top, "."


KINDS = {f.__name__[5:]: f for f in (
    make_plain, make_linked, make_shared, make_submodule,
    make_lone_submodule, make_separate, make_symlinked)}

# Files of a repository that git follows to other places. Not: remotes' URLs,
# messages of reflogs, hooks.
FOLLOWED = r"""
set -e
find . -name .git \( -type f -o -type l \) -exec cat {} +
find . \( -name alternates -o -name commondir -o -name gitdir \) -exec cat {} +
find . -name .git -type l -exec readlink {} +
find . -path '*.git*' \( -name config -o -name config.worktree \) \
    -exec git config --file {} --get-all core.worktree \; || true
"""


def state(sh):
    """What git says of a repository, beside the files."""
    return [sh(f"git {what}").out for what in (
        "for-each-ref", "log --format=%H --all -g", "status --porcelain=v2",
        "ls-files -s", "stash list", "rev-parse HEAD",
        "symbolic-ref -q HEAD")]


@pytest.mark.parametrize("kind", KINDS)
def test_stands_alone(env, tmp_path, kind):
    origin = tmp_path / "origin"
    origin.mkdir()
    top, inner = KINDS[kind](origin)
    places = [top] if inner == "." else [top, top / inner]
    before = [state(lambda c, p=p: env.sh(p, c)) for p in places]
    env.load(top)
    point = pathlib.Path(env.mount("base", "e"))
    shutil.rmtree(origin)
    for place, was in zip(places, before):
        view = point / place.relative_to(top)
        assert state(lambda c, v=view: env.sh(v, c)) == was
        assert str(origin) not in env.sh(view, FOLLOWED).out
        env.sh(view, "git fsck --full --strict && git diff-files --quiet")
        assert env.sh(view, "git config gc.auto; git config "
                            "maintenance.auto").out == "0\nfalse\n"
        toplevel = env.sh(view, "git rev-parse --show-toplevel").out.strip()
        assert toplevel == str(view)
        env.sh(view, "echo x >x && git add x && git commit -q -m x && "
                     "git gc -q --prune=now && git worktree prune && "
                     "git fsck --full --strict")


@pytest.mark.parametrize("kind", KINDS)
def test_id_is_the_same_again(env, tmp_path, kind):
    top, _ = KINDS[kind](tmp_path)
    assert len({env.load(top), env.load(top),
                env.load(top, "base", "--rescan")}) == 1


def test_a_copy_has_the_same_id(env, tmp_path):
    top = make_repo(tmp_path / "repo")
    (top / "d1/file2").write_text("changed\n")
    subprocess.run(["cp", "-a", top, tmp_path / "copy"], check=True)
    assert env.load(top, "a") == env.load(tmp_path / "copy", "b")


def test_work_trees_of_the_origin_are_left_out(env, tmp_path):
    top = make_repo(tmp_path / "repo")
    git(top, "worktree", "add", "-q", tmp_path / "one")
    git(top, "worktree", "add", "-q", tmp_path / "two")
    told = env.run("import", top, "-t", "base").err
    assert "left out 2 other work trees of the repository" in told
    point = env.mount("base", "e")
    assert len(env.sh(point, "git worktree list").lines()) == 1
    env.sh(point, "git worktree prune && git worktree add -q wt && "
                  "git -C wt status --porcelain")
    assert len(git(top, "worktree", "list").splitlines()) == 3


def test_a_linked_work_tree_in_the_tree(env, tmp_path):
    """Agents put work trees below the main one."""
    top = make_repo(tmp_path / "repo")
    git(top, "worktree", "add", "-q", "-b", "topic", top / ".trees/a")
    (top / ".trees/a/d0/file0").write_text("dirty\n")
    env.load(top)
    point = pathlib.Path(env.mount("base", "e"))
    shutil.rmtree(top)
    assert env.sh(point / ".trees/a", "git status --porcelain -b").out == \
        "## topic\n M d0/file0\n"
    env.sh(point / ".trees/a", "git fsck --full --strict")


def test_a_bare_repository_with_work_trees(env, tmp_path):
    top = make_repo(tmp_path / "first")
    bare, work = tmp_path / "bare.git", tmp_path / "work"
    git(tmp_path, "clone", "-q", "--bare", top, bare)
    git(bare, "worktree", "add", "-q", work, "side")
    env.load(work)
    point = env.mount("base", "e")
    shutil.rmtree(bare)
    assert env.sh(point, "git status --porcelain -b").out == "## side\n"


def test_a_merge_in_a_linked_work_tree_goes_on(env, tmp_path):
    top, _ = make_linked(tmp_path)
    for branch, place in (("main", tmp_path / "main"), ("topic", top)):
        (place / "d0/file0").write_text(branch)
        git(place, "commit", "-q", "-a", "-m", branch)
    with pytest.raises(subprocess.CalledProcessError):
        git(top, "merge", "main")
    env.load(top)
    point = env.mount("base", "e")
    assert env.sh(point, "git status --porcelain").out == \
        git(top, "status", "--porcelain") == "UU d0/file0\n"
    env.sh(point, "git checkout -q --ours d0/file0 && git add -A && "
                  "git commit -q --no-edit && git log -1 --format=%P | "
                  "grep -q ' '")


def test_config_changes_in_nothing_else(env, tmp_path):
    top = make_repo(tmp_path / "repo")
    config = top / ".git/config"
    text = config.read_text() + (
        '[remote "origin"]\n\turl = /some/where # kept\n'
        "[alias]\n\tx = \"!f() { echo \\\"a;b\\\"; }; f\"\n; the end")
    config.write_text(text)
    hook = top / ".git/hooks/post-commit"
    hook.write_text("#!/bin/sh\necho /some/path\n")
    env.load(top)
    point = env.mount("base", "e")
    assert env.sh(point, "cat .git/config").out == \
        text + "\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
    assert env.sh(point, "cat .git/hooks/post-commit").out == \
        hook.read_text()
    # An environment that is imported again has them already.
    env.run("import", point, "-t", "second")
    second = env.mount("second", "f")
    assert env.sh(second, "cat .git/config").out.count("auto") == 2


def test_a_git_file_that_leads_nowhere(env, tmp_path):
    top, _ = make_linked(tmp_path)
    shutil.rmtree(tmp_path / "main")
    told = env.run("import", top, "-t", "base").err
    assert ".git leads out of the tree to no repository" in told
    assert env.sh(env.mount("base", "e"), "cat d0/more0").out == "more 0 0\n"


def test_missing_alternates_are_told(env, tmp_path):
    top, _ = make_shared(tmp_path)
    shutil.rmtree(tmp_path / "main")
    told = env.run("import", top, "-t", "base").err
    assert "borrows objects" in told and "missing" in told
    point = env.mount("base", "e")
    assert env.sh(point, "cat d0/own0").out == "own 0 0\n"


def test_somebody_elses_repository_is_not_followed(env, as_root, tmp_path):
    top, _ = make_linked(tmp_path)
    os.lchown(top / ".git", 1000, 1000)
    result = env.run("import", top, "-t", "base", expect=3)
    assert one_line_error(result) and "safe.directory" in result.err
    assert env.run("snapshots").out.count("base") == 0
    env.env.update(GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*")
    env.load(top)


def test_blobless_clone(env, tmp_path):
    top = make_repo(tmp_path / "repo")
    for i in range(3):
        (top / "d0/file0").write_text(f"round {i}\n")
        git(top, "commit", "-q", "-a", "-m", f"round {i}")
    git(top, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{top}",
        partial)
    env.load(partial)
    point = env.mount("base", "e")
    assert env.sh(point, "git status --porcelain").out == ""
    env.sh(point, "git fsck && git show HEAD~2:d0/file0")


@pytest.mark.parametrize("cone", ["--cone", "--no-cone", "--sparse-index"])
def test_sparse_checkout(env, tmp_path, cone):
    top = make_repo(tmp_path / "repo")
    git(top, "sparse-checkout", "set", cone, "d1")
    assert not (top / "d0").exists() and (top / "d1").exists()
    env.load(top)
    point = env.mount("base", "e")
    for what in ("status --porcelain=v2", "ls-files -t --sparse",
                 "sparse-checkout list"):
        assert env.sh(point, f"git {what}").out == git(top, *what.split())
    env.sh(point, "git sparse-checkout disable && git diff --quiet HEAD")


def test_worktree_config(env, tmp_path):
    top, _ = make_linked(tmp_path)
    git(top, "config", "extensions.worktreeConfig", "true")
    git(top, "config", "--worktree", "user.name", "alone")
    git(tmp_path / "main", "config", "--worktree", "user.name", "main")
    env.load(top)
    point = env.mount("base", "e")
    assert env.sh(point, "git config user.name").out == "alone\n"


def test_an_old_submodule_with_absolute_paths(env, tmp_path):
    """As git before 1.7.10 made them."""
    top, _ = make_submodule(tmp_path)
    place = top / ".git/modules/sub"
    (top / "sub/.git").write_text(f"gitdir: {place}\n")
    git(place, "config", "core.worktree", top / "sub")
    env.load(top)
    point = pathlib.Path(env.mount("base", "e"))
    shutil.rmtree(top)
    assert env.sh(point / "sub", "git status --porcelain").out == ""
    assert env.sh(point, "cat sub/.git; git -C sub config core.worktree").out \
        == "gitdir: ../.git/modules/sub\n../../../sub\n"


def test_an_unknown_extension_is_told(env, tmp_path):
    top = make_repo(tmp_path / "repo")
    git(top, "config", "core.repositoryFormatVersion", "1")
    git(top, "config", "extensions.refStorage", "reftable")
    told = env.run("import", top, "-t", "base").err
    assert "uses refStorage=reftable" in told and "cannot save" in told
    result = env.run("mount", "base", "e", "--branch", "side", expect=3)
    assert one_line_error(result) and "extension" in result.err
    assert env.sh(env.mount("base", "e"), "cat d0/file0").out == "file 0 0\n"


def test_sha256_is_told(env, tmp_path):
    top = tmp_path / "repo"
    git(tmp_path, "init", "-q", "--object-format=sha256", top)
    fill(top)
    told = env.run("import", top, "-t", "base").err
    assert "objectformat=sha256" in told and "cannot save" in told
    point = env.mount("base", "e")
    assert env.sh(point, "git status --porcelain").out == ""
    env.sh(point, "git fsck --full --strict")
    result = env.run("mount", "base", "f", "--new-branch", "x", expect=3)
    assert one_line_error(result)


def test_odd_names_are_names(env, tmp_path):
    top = make_repo(tmp_path / "repo")
    (top / ".GIT").write_text("a file\n")
    (top / "git~1").write_text("another\n")
    (top / "d0/.Git").mkdir()
    (top / "d0/.Git/config").write_text("[core]\n\tworktree = /nowhere\n")
    env.load(top)
    point = env.mount("base", "e")
    assert env.sh(point, "cat .GIT git~1 d0/.Git/config").out == \
        "a file\nanother\n[core]\n\tworktree = /nowhere\n"


def damage(top, what):
    if what == "index":
        data = bytearray((top / ".git/index").read_bytes())
        data[60] ^= 1
        (top / ".git/index").write_bytes(data)
    elif what == "ref":
        (top / ".git/refs/heads/side").write_bytes(b"\0\xff no ref")
    elif what == "head":
        (top / ".git/HEAD").write_bytes(b"\0\xff no head")
    elif what == "config":
        (top / ".git/config").write_bytes(b"[core\n\0 = = \xff")
    elif what == "object":
        name = git(top, "rev-parse", "HEAD:d0/file0").strip()
        path = top / ".git/objects" / name[:2] / name[2:]
        path.chmod(0o644)
        path.write_bytes(b"no object")


@pytest.mark.parametrize("what", ["index", "ref", "head", "config", "object"])
def test_damage_of_the_origin_is_taken_as_it_is(env, tmp_path, what):
    top = make_repo(tmp_path / "repo")
    damage(top, what)
    told = env.run("import", top, "-t", "base").err
    assert ("index is left as it is" in told) == (what == "index"), told
    point = env.mount("base", "e")
    assert env.sh(point, "cat d0/file0").out == "file 0 0\n"
    if what == "index":
        assert env.sh(point, "md5sum <.git/index").out == \
            env.sh(top, "md5sum <.git/index").out


def test_branch_and_commit_are_recorded(env, tmp_path):
    top = make_repo(tmp_path / "repo")
    env.load(top)
    row = env.run("--json", "snapshots").json()[0]
    commit = git(top, "rev-parse", "HEAD").strip()
    assert (row["git_head"], row["git_commit"], row["git_dir"]) == \
        ("refs/heads/main", commit, str(top / ".git"))
    git(top, "pack-refs", "--all")
    env.load(top)
    assert env.run("--json", "snapshots").json()[0]["git_commit"] == commit
    git(top, "checkout", "-q", "--detach")
    env.load(top, "detached")
    rows = env.run("--json", "snapshots").json()
    row, = [r for r in rows if "detached:latest" in r["refs"]]
    assert (row["git_head"] or "", row["git_commit"]) == ("", commit)
