# SPDX-License-Identifier: MIT
"""git in an environment, and imports of a repository that is alive."""
import threading

import pytest
from gitrepo import env, git  # noqa: F401
from helpers import assert_same_tree


@pytest.fixture
def repo(tmp_path):
    top = tmp_path / "repo"
    git(tmp_path, "init", "-q", "-b", "main", top)
    for d in range(10):
        (top / f"d{d}").mkdir()
        for i in range(30):
            (top / f"d{d}/f{i}.txt").write_text(f"{d} {i}\n" * (i + 1))
    (top / "run").write_text("#!/bin/sh\n")
    (top / "run").chmod(0o755)
    (top / "sym").symlink_to("d1/f1.txt")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "first")
    git(top, "tag", "v1")
    return top


def test_status_is_clean_and_fsck_passes(env, repo):
    env.load(repo)
    point = env.mount("base", "e")
    assert env.sh(point, "git status --porcelain").out == ""
    env.sh(point, "git fsck --full --strict")
    assert_same_tree(env, repo / "d3", point + "/d3")


def test_a_day_of_work(env, repo):
    """Branches, merges, stash, rebase, gc: and the origin sees nothing."""
    env.load(repo)
    before = git(repo, "for-each-ref") + git(repo, "status", "--porcelain")
    point = env.mount("base", "e")
    env.sh(point, """
        git switch -q -c work
        for i in 1 2 3; do echo $i >> d1/f1.txt; rm -f d2/f$i.txt
            git commit -q -a -m "w$i"; done
        git mv d3 moved; git commit -q -m moved
        git switch -q main
        echo main > new; git add new; git commit -q -m new
        git merge -q -m merged work
        echo dirty >> run; git stash -q; git stash pop -q; git checkout -q run
        git switch -q -c topic v1; echo t > topic; git add topic
        git commit -q -m topic; git rebase -q main
        git gc -q --prune=now; git repack -adq
        git fsck --full --strict""")
    assert env.sh(point, "git status --porcelain").out == ""
    assert env.sh(point, "git rev-list --count HEAD").out == "8\n"
    after = git(repo, "for-each-ref") + git(repo, "status", "--porcelain")
    assert after == before
    second = env.mount("base", "second")
    assert env.sh(second, "git log --oneline | wc -l").out == "1\n"
    rows = [r for r in env.run("diff", "e").lines() if "\t.git/" not in r]
    deleted = {f"D\td2/f{i}.txt" for i in (1, 2, 3)}
    # git wrote the moved files anew when it switched branches.
    moved = {row for i in range(30)
             for row in (f"D\td3/f{i}.txt", f"A\tmoved/f{i}.txt")}
    files = {r for r in rows if not r.endswith("/")}
    assert files == deleted | moved | {"A\tnew", "A\ttopic",
                                       "M\td1/f1.txt"}


def test_work_travels_by_git(env, repo):
    env.load(repo)
    point = env.mount("base", "e")
    env.sh(point, "git switch -q -c work; echo x > x; git add x; "
                  "git commit -q -m x")
    env.sh(repo, f"git fetch -q '{point}' work:work")
    assert git(repo, "show", "work:x") == "x\n"


@pytest.mark.parametrize("rounds", [
    8, pytest.param(20, marks=pytest.mark.long)])
def test_imports_of_a_live_repository(env, repo, rounds):
    """A loop commits and collects garbage while imports read."""
    stop = threading.Event()
    made = []

    def live():
        i = 0
        while not stop.is_set():
            i += 1
            (repo / f"d{i % 10}/f{i % 30}.txt").write_text(f"round {i}\n" * 9)
            git(repo, "commit", "-q", "-a", "-m", f"live {i}",
                "--allow-empty")
            if i % 5 == 0:
                git(repo, "gc", "-q", "--prune=now")
            made.append(i)

    worker = threading.Thread(target=live)
    worker.start()
    good = 0
    try:
        for i in range(rounds):
            result = env.run("import", repo, "-t", f"live:{i}", expect=None,
                             limit=120)
            assert result.code == 0, result
            point = env.mount(f"live:{i}", f"e{i}")
            env.sh(point, "git fsck --full --strict && git log -1 --oneline "
                          "&& git rev-parse --verify HEAD^{tree}")
            env.run("umount", f"e{i}", "--discard")
            good += 1
    finally:
        stop.set()
        worker.join()
    assert good == rounds and made
