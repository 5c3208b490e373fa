# SPDX-License-Identifier: MIT
"""mount --branch and --new-branch: the environment's own HEAD."""
import subprocess

import pytest
from gitrepo import env, git  # noqa: F401
from helpers import one_line_error


@pytest.fixture
def repo(tmp_path):
    top = tmp_path / "repo"
    git(tmp_path, "init", "-q", "-b", "main", top)
    for i in range(10):
        (top / f"f{i}").write_text(f"{i}\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "one")
    git(top, "branch", "same")
    git(top, "switch", "-q", "-c", "other")
    (top / "f1").write_text("other\n")
    (top / "new").write_text("new\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "two")
    git(top, "switch", "-q", "main")
    return top


def branch_of(env, point):
    return env.sh(point, "git symbolic-ref HEAD").out.strip()


def rows(env, name):
    return [r for r in env.run("diff", name).lines() if "\t.git" not in r]


def test_new_branch_touches_no_file(env, repo):
    env.load(repo)
    point = env.mount("base", "e", "--new-branch", "agent/one")
    assert branch_of(env, point) == "refs/heads/agent/one"
    assert rows(env, "e") == []
    assert "\t.git/index" not in env.run("diff", "e").out
    assert env.sh(point, "git status --porcelain").out == ""
    assert "moving from main to agent/one" in \
        env.sh(point, "git reflog -1").out
    assert git(repo, "branch", "--list", "agent/*") == ""
    assert git(repo, "symbolic-ref", "HEAD") == "refs/heads/main\n"


def test_branch_with_the_same_files(env, repo):
    env.load(repo)
    point = env.mount("base", "e", "--branch", "same")
    assert branch_of(env, point) == "refs/heads/same"
    assert "\t.git/index" not in env.run("diff", "e").out
    assert rows(env, "e") == []


def test_branch_with_other_files(env, repo):
    (repo / "f2").write_text("not committed\n")
    env.load(repo)
    point = env.mount("base", "e", "--branch", "other")
    assert branch_of(env, point) == "refs/heads/other"
    assert env.sh(point, "cat f1 f2 new").out == \
        "other\nnot committed\nnew\n"
    assert rows(env, "e") == ["M\tf1", "A\tnew"]
    assert env.sh(point, "git status --porcelain").out == " M f2\n"
    assert git(repo, "symbolic-ref", "HEAD") == "refs/heads/main\n"


def test_a_path_is_imported_and_switched(env, repo):
    point = env.run("mount", repo, "e", "--new-branch", "work").out.strip()
    assert branch_of(env, point) == "refs/heads/work"
    (repo / "f3").write_text("changed\n")
    point = env.run("mount", ".", "--new-branch", "work2",
                    cwd=repo).out.strip()
    assert branch_of(env, point) == "refs/heads/work2"
    assert env.sh(point, "git status --porcelain").out == " M f3\n"


def test_an_environment_that_exists_is_switched(env, repo):
    env.load(repo)
    point = env.mount("base", "e")
    env.sh(point, "echo x >f5")
    env.run("umount", "e", "--keep")
    assert env.run("mount", "e", "--new-branch", "late").out.strip() == point
    assert branch_of(env, point) == "refs/heads/late"
    assert env.run("mount", "e", "--branch", "nowhere", expect=3).out == ""
    assert env.sh(point, "cat f5").out == "x\n"


@pytest.mark.parametrize("option, name, code, says", [
    ("--branch", "nowhere", 3, "there is no branch nowhere"),
    ("--new-branch", "same", 3, "there is a branch same already"),
    ("--new-branch", "a..b", 2, "not a name for a branch"),
    ("--new-branch", "-x", 2, "not a name for a branch"),
    ("--new-branch", "", 2, "not a name for a branch"),
    ("--new-branch", "a\nb", 2, "not a name for a branch"),
    ("--new-branch", "HEAD", 2, "not a name for a branch"),
    ("--new-branch", "same/below", 3, "same"),
])
def test_refusals_leave_nothing(env, repo, option, name, code, says):
    env.load(repo)
    result = env.run("mount", "base", "e", f"{option}={name}", expect=code)
    assert one_line_error(result) and says in result.err, result
    assert env.run("ps", "--json").out == ""


@pytest.mark.parametrize("name", ["ä/ö", "a'b\"c", "a$b;c", "@", "x.y",
                                  "--double" + "x" * 5])
def test_odd_names(env, repo, name):
    env.load(repo)
    legal = subprocess.run(["git", "check-ref-format", "--branch", name],
                           capture_output=True, cwd="/").returncode == 0
    result = env.run("mount", "base", "e", f"--new-branch={name}",
                     expect=0 if legal else 2)
    if legal:
        assert branch_of(env, result.out.strip()) == f"refs/heads/{name}"


def test_local_changes_are_not_overwritten(env, repo):
    (repo / "f1").write_text("mine\n")
    env.load(repo)
    result = env.run("mount", "base", "e", "--branch", "other", expect=3)
    assert one_line_error(result) and "local changes" in result.err, result
    assert env.run("ps").out.count("\n") <= 1


def test_no_repository(env, tree):
    env.load(tree)
    result = env.run("mount", "base", "e", "--branch", "x", expect=3)
    assert one_line_error(result) and "not a git repository" in result.err


def test_an_unborn_branch(env, tmp_path):
    top = tmp_path / "repo"
    git(tmp_path, "init", "-q", "-b", "main", top)
    env.load(top)
    point = env.mount("base", "e", "--new-branch", "first")
    assert branch_of(env, point) == "refs/heads/first"


def test_a_merge_in_progress_is_refused(env, repo):
    git(repo, "switch", "-q", "-c", "third")
    (repo / "f1").write_text("third\n")
    git(repo, "commit", "-q", "-a", "-m", "three")
    with pytest.raises(subprocess.CalledProcessError):
        git(repo, "merge", "other")
    env.load(repo)
    result = env.run("mount", "base", "e", "--branch", "main", expect=4)
    assert "merge, rebase" in result.err


def test_somebody_elses_repository(env, as_root, repo):
    subprocess.run(["chown", "-R", "1000:1000", repo], check=True)
    env.load(repo)
    result = env.run("mount", "base", "e", "--new-branch", "x", expect=3)
    assert one_line_error(result) and "safe.directory" in result.err, result
    env.env.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory",
                   GIT_CONFIG_VALUE_0="*")
    point = env.mount("base", "e", "--new-branch", "x")
    assert branch_of(env, point) == "refs/heads/x"


def test_a_hook_of_git_may_call(env, repo):
    """Its variables name the repository that it runs in."""
    env.load(repo)
    env.env.update(GIT_DIR=str(repo / ".git"), GIT_WORK_TREE=str(repo),
                   GIT_INDEX_FILE=str(repo / ".git/index"))
    env.mount("base", "e", "--branch", "other")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        del env.env[name]
    assert git(repo, "status", "--porcelain", "-b") == "## main\n"
