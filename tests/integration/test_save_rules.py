# SPDX-License-Identifier: MIT
"""save: what stood uncommitted in the origin, options, what is refused, and
several at once."""
import os
import shutil
import threading

import pytest
from gitrepo import env  # noqa: F401
from helpers import one_line_error
from test_save import (entries, fingerprint, git, make_repo, repo,  # noqa: F401
                       what_git_adds)


def assert_saved(env, point, repo, branch):
    """The branch has what git itself would make of the environment."""
    copy = env.folder / "copy"
    want = what_git_adds(env, point, copy)
    assert entries(git(repo, "ls-tree", "-r", branch)) == \
        entries(git(copy, "ls-tree", "-r", want))
    assert saved_tree(repo, branch) == want


def saved_tree(repo, branch):
    return git(repo, "rev-parse", f"{branch}^{{tree}}")


def test_what_stood_in_the_origin(env, repo):
    """Not in the list of changes, and part of the work all the same."""
    (repo / "src/f1").write_text("not committed\n")
    (repo / "doc/f0").write_text("DOC 0\n")  # of the same size
    (repo / "staged").write_text("staged\n")
    git(repo, "add", "staged")
    (repo / "src/f3").unlink()
    (repo / "src/f4").unlink()  # as many names as before
    (repo / "src/untracked").write_text("untracked\n")
    (repo / "run").chmod(0o644)
    shutil.rmtree(repo / "src/deep")
    (repo / "src/deep").write_text("a file now\n")
    for d in ("build/a", "plain/sub", "own"):
        (repo / d).mkdir(parents=True)
        (repo / d / "x").write_text(d)
    git(repo / "own", "init", "-q")
    git(repo / "own", "add", "x")
    git(repo / "own", "commit", "-q", "-m", "own")
    env.load(repo)
    before = fingerprint(repo)
    point = env.mount("base", "e")
    result = env.run("save", "e")
    assert_saved(env, point, repo, "cowfs/e")
    assert "own: a repository of its own" in result.err
    env.sh(point, "git add -A; git commit -qm all; git rm -q --cached doc/f1;"
                  "rm plain/sub/x; echo more >> staged")
    env.run("save", "e")
    assert_saved(env, point, repo, "cowfs/e")
    assert fingerprint(repo) == before


def test_only_what_is_tracked(env, repo):
    env.load(repo)
    point = env.mount("base", "e")
    env.sh(point, "echo u > u; echo s > s; git add s; echo m >> run; "
                  "rm src/f1")
    env.run("save", "e", "--tracked")
    env.sh(point, "git add -u; git commit -qm want")
    assert saved_tree(repo, "cowfs/e") == \
        env.sh(point, "git rev-parse HEAD^{tree}").out.strip()


def test_message_author_and_what_is_said(env, repo):
    env.load(repo)
    point = env.mount("base", "e")
    assert "nothing to save" in env.run("save", "e").err
    assert git(repo, "branch", "--list", "cowfs/*") == ""
    env.sh(point, "printf 'a\\nb\\nc\\n' > new; sed -i 2d lines; "
                  "git commit -qam one; git mv run ran; echo x >> src/f7")
    row, = env.run("--json", "save", "e", "-b", "saved/x", "-m", "Why\n\nBody",
                   "--author", "Ann Other <ann@example.org>").json()
    assert {k: row[k] for k in ("env", "branch", "updated", "commits", "files",
                                "insertions", "deletions")} == {
        "env": "e", "branch": "saved/x", "updated": True, "commits": 2,
        "files": 4, "insertions": 4, "deletions": 1}
    assert git(repo, "show", "-s", "--format=%H|%an|%ae|%cn|%B", "saved/x") \
        .strip() == (f"{row['commit']}|Ann Other|ann@example.org|t|"
                     "Why\n\nBody")
    assert git(repo, "log", "--format=%s", "main..saved/x") == "Why\none"
    assert "cowfs save: e " in git(repo, "reflog", "saved/x")
    for bad in (["--author", "nobody"], ["--branch", "a..b"],
                ["--branch", "-x"], ["--all", "--tracked"]):
        assert one_line_error(env.run("save", "e", *bad, expect=2))


def test_saving_again(env, repo):
    env.load(repo)
    point = env.mount("base", "e")
    env.sh(point, "echo 1 > new")
    first = env.run("save", "e").lines()[0]
    assert env.run("save", "e").lines()[0] == first
    env.sh(point, "echo 2 > new")
    second = env.run("save", "e").lines()[0]
    assert second != first
    assert git(repo, "rev-list", "--count", "main..cowfs/e") == "1"
    env.sh(point, "git add new; git commit -qm mine")
    head = env.sh(point, "git rev-parse HEAD").out.strip()
    assert env.run("save", "e").lines()[0] == f"{head} cowfs/e"
    assert len(git(repo, "reflog", "cowfs/e").splitlines()) == 3


def refused(env, *args, code=4):
    result = env.run("save", *args, expect=code)
    assert one_line_error(result), result
    return result.err


def test_branches_that_must_not_move(env, repo, tmp_path):
    env.load(repo)
    point = env.mount("base", "e")
    env.sh(point, "echo 1 > new")
    git(repo, "worktree", "add", "-q", "-b", "linked", tmp_path / "linked")
    git(repo, "branch", "cowfs-dir")
    git(repo, "branch", "saved/deep/er")
    before = git(repo, "for-each-ref")
    objects = sorted(os.listdir(repo / ".git/objects"))
    assert "checked out" in refused(env, "e", "--branch", "main")
    assert "checked out" in refused(env, "e", "--branch", "linked")
    assert "commits that" in refused(env, "e", "--branch", "side")
    assert "below" in refused(env, "e", "--branch", "cowfs-dir/x")
    assert "below" in refused(env, "e", "--branch", "saved/deep")
    assert git(repo, "for-each-ref") == before
    assert sorted(os.listdir(repo / ".git/objects")) == objects
    # a branch that only has to go forwards
    env.run("save", "e", "--branch", "cowfs-dir")
    # somebody works on what was saved
    env.run("save", "e")
    tree = git(repo, "rev-parse", "cowfs/e^{tree}")
    commit = git(repo, "commit-tree", "-p", "cowfs/e", "-m", "theirs", tree)
    git(repo, "update-ref", "-m", "theirs", "refs/heads/cowfs/e", commit)
    env.sh(point, "echo 2 > new")
    assert "commits that" in refused(env, "e")
    assert git(repo, "rev-parse", "cowfs/e") == commit
    # another environment of that name
    env.run("save", "e", "--branch", "saved/e")
    env.run("umount", "e", "--discard")
    point = env.mount("base", "e")
    env.sh(point, "echo 3 > new")
    refused(env, "e", "--branch", "saved/e")
    # in a rebase HEAD names no branch
    git(tmp_path / "linked", "checkout", "-q", "--detach")
    (repo / ".git/worktrees/linked/rebase-merge").mkdir()
    (repo / ".git/worktrees/linked/rebase-merge/head-name").write_text(
        "refs/heads/linked\n")
    assert "checked out" in refused(env, "e", "--branch", "linked")


def test_origins_that_cannot_be_saved_to(env, repo, tmp_path):
    env.load(repo)
    point = env.mount("base", "e")
    env.sh(point, "echo 1 > new")
    away = tmp_path / "away"
    repo.rename(away)
    assert str(repo) in refused(env, "e", code=3)
    away.rename(repo)
    other = tmp_path / "plain"
    other.mkdir()
    (other / "f").write_text("f")
    env.load(other, "plain")
    env.mount("plain", "p")
    assert "git repository" in refused(env, "p", code=3)
    assert "unknown environment" in refused(env, "nobody", code=3)
    if os.geteuid() == 0:
        os.chown(repo, 65534, 65534)
        os.chown(repo / ".git", 65534, 65534)
        assert "safe.directory" in refused(env, "e", code=3)
        os.chown(repo, 0, 0)
        os.chown(repo / ".git", 0, 0)
    # a ref of the origin is damaged, another is not our business
    (repo / ".git/refs/heads/broken").write_text("nonsense\n")
    env.run("save", "e")
    (repo / ".git/refs/heads/cowfs/e").write_text("nonsense\n")
    refused(env, "e", code=3)


def test_environments_that_cannot_be_saved(env, repo):
    env.load(repo)
    before = fingerprint(repo)
    damage = {
        "index": "printf 'DIRCjunkjunkjunkjunkjunkjunkjunk' > .git/index",
        "version": "printf 'DIRC\\0\\0\\0\\011\\0\\0\\0\\0aaaaaaaaaaaaaaaaaaaa'"
                   " > .git/index",
        "object": "echo c > c; git add c; git commit -qm c; "
                  "o=$(git rev-parse HEAD:c | sed 's|^..|&/|'); "
                  "rm -f .git/objects/$o; echo x > .git/objects/$o",
        "missing": "echo c > c; git add c; git commit -qm c; "
                   "rm -f .git/objects/$(git rev-parse HEAD:c | "
                   "sed 's|^..|&/|')",
        "head": "echo nonsense > .git/HEAD; echo x > x",
        "file": "mv .git git2; echo 'gitdir: git2' > .git",
        "gone": "rm -rf .git",
    }
    for i, (kind, script) in enumerate(damage.items()):
        point = env.mount("base", f"e{i}")
        env.sh(point, script)
        refused(env, f"e{i}", code=3)
        env.run("umount", f"e{i}", "--discard")
    assert fingerprint(repo) == before
    assert git(repo, "for-each-ref", "refs/heads/cowfs") == ""


def test_repositories_of_other_forms(env, repo, tmp_path):
    """Without some blobs, cut off, sparse, linked, bare, with other names."""
    made = {}
    url = f"file://{repo}"
    git(repo, "config", "uploadpack.allowFilter", "true")
    for name, args in {"blobless": ["--filter=blob:none"],
                       "shallow": ["--depth=1"], "shared": ["--shared"]}.items():
        made[name] = tmp_path / name
        git(tmp_path, "clone", "-q", *args,
            repo if name == "shared" else url, made[name])
    made["sparse"] = tmp_path / "sparse"
    git(tmp_path, "clone", "-q", repo, made["sparse"])
    git(made["sparse"], "sparse-checkout", "set", "doc")
    git(repo, "worktree", "add", "-q", "-b", "linked", tmp_path / "linked")
    made["linked"] = tmp_path / "linked"
    for name, top in made.items():
        env.load(top, name)
        point = env.mount(name, name)
        env.sh(point, "echo more >> doc/f1; git add doc; git commit -qm one; "
                      "echo u > doc/u")
        env.run("save", name)
        assert_saved(env, point, top, f"cowfs/{name}")
        assert git(top, "status", "--porcelain") == ""
        git(top, "fsck")
    other = tmp_path / "sha256"
    git(tmp_path, "init", "-q", "--object-format=sha256", other)
    (other / "f").write_text("f")
    git(other, "add", "f")
    git(other, "commit", "-q", "-m", "f")
    env.load(other, "sha256")
    env.sh(env.mount("sha256", "s"), "echo n > n")
    assert "sha256" in refused(env, "s", code=3).lower()


def test_what_git_has_no_form_for(env, repo, tmp_path):
    sub = make_repo(tmp_path / "sub")
    git(repo, "submodule", "add", "-q", sub, "mod")
    git(repo, "commit", "-q", "-m", "with a submodule")
    env.load(repo)
    point = env.mount("base", "e")
    env.sh(point, "mkdir .GIT Git~1 x; echo 1 > .GIT/config; echo 2 > Git~1/f;"
                  "echo 3 > x/.gIt; git init -q empty; echo e > empty/e; "
                  "mkfifo pipe; cd mod; echo m > m; git add m; "
                  "git commit -qm moved; echo not-committed >> m")
    moved = env.sh(point, "git -C mod rev-parse HEAD").out.strip()
    err = env.run("save", "e").err
    assert git(repo, "rev-parse", "cowfs/e:mod") == moved
    assert git(repo, "diff", "--name-only", "main", "cowfs/e") == "mod"
    for part in ("refuses", "without a commit", "another commit",
                 "no form for"):
        assert part in err
    assert all(line.startswith("cowfs save: ") for line in err.splitlines())


def test_programs_run_only_for_who_may_say_so(env, repo):
    """Filters and hooks of the environment are an agent's words."""
    proof = env.folder / "proof"
    env.load(repo)
    point = env.mount("base", "e")
    env.sh(point, f"echo '*.big filter=up' > .gitattributes; "
                  f"git config filter.up.clean 'touch {proof}; cat'; "
                  f"git config core.fsmonitor 'touch {proof}'; "
                  f"printf '#!/bin/sh\\ntouch {proof}\\n' > "
                  f".git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; "
                  f"echo low > x.big")
    proof.unlink(missing_ok=True)
    env.run("save", "e", "--hooks")
    assert not proof.exists()
    assert git(repo, "show", "cowfs/e:x.big") == "low"
    git(repo, "config", "filter.up.clean", "tr a-z A-Z")
    env.sh(point, "echo lower > x.big")
    env.run("save", "e")
    assert git(repo, "show", "cowfs/e:x.big") == "LOWER"
    hooks = repo / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").write_text(
        "#!/bin/sh\ngit diff --cached --name-only main > "
        f"{env.folder}/staged\n")
    (hooks / "commit-msg").write_text("#!/bin/sh\necho by-hook >> $1\n")
    for name in ("pre-commit", "commit-msg"):
        (hooks / name).chmod(0o755)
    env.sh(point, "echo n > n")
    env.run("save", "e", "-m", "subject")
    assert not (env.folder / "staged").exists()
    env.sh(point, "echo n2 > n")
    env.run("save", "e", "-m", "subject", "--hooks")
    assert "n\n" in (env.folder / "staged").read_text()
    assert git(repo, "show", "-s", "--format=%B", "cowfs/e").split() == \
        ["subject", "by-hook"]
    (hooks / "pre-commit").write_text("#!/bin/sh\necho no way >&2; exit 1\n")
    env.sh(point, "echo n3 > n")
    before = git(repo, "rev-parse", "cowfs/e")
    assert "pre-commit" in refused(env, "e", "--hooks", code=3)
    assert git(repo, "rev-parse", "cowfs/e") == before


def test_without_hooks_none_runs(env, repo):
    """Neither those around a commit nor that of refs, by save, a filter, rescue
    or its end."""
    proof = env.folder / "proof"
    hooks = repo / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("reference-transaction", "pre-commit", "post-commit",
                 "commit-msg", "post-index-change", "post-rewrite", "update"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {proof}\n")
        (hooks / name).chmod(0o755)
    git(repo, "branch", "probe")
    assert "reference-transaction" in proof.read_text()
    proof.unlink()
    git(repo, "config", "filter.up.clean", "tr a-z A-Z")
    env.load(repo)
    point = env.mount("base", "e")
    env.sh(point, "git config core.hooksPath /dev/null; echo 1 > new; "
                  "git add new; git commit -qm one; git stash list; "
                  "echo '*.big filter=up' > .gitattributes; echo b > x.big; "
                  "echo 2 >> new")
    env.run("save", "e")
    assert git(repo, "show", "cowfs/e:x.big") == "B"
    env.run("umount", "e")
    (rescue,) = env.run("--json", "rescue", "ls").json()
    assert rescue["where"] == "origin"
    env.run("rescue", "drop", rescue["rescue"])
    assert not proof.exists(), proof.read_text()


def test_a_kept_environment_is_saved(env, repo):
    """Through a view of the command's own; it stays as it is."""
    env.load(repo)
    point = env.mount("base", "e")
    env.sh(point, "echo c > c; git add c; git commit -qm c; echo u > u; "
                  "echo m >> lines; rm run")
    want = what_git_adds(env, point, env.folder / "copy")
    env.run("umount", "e", "--keep")
    before = fingerprint(repo)
    row, = env.run("--json", "save", "e").json()
    assert row["branch"] == "cowfs/e" and row["commits"] == 2
    assert saved_tree(repo, "cowfs/e") == want
    assert fingerprint(repo) == before
    shown, = env.run("--json", "show", "e").json()
    assert shown["state"] == "kept"
    assert not [n for n in os.listdir(env.path / "mnt")
                if n.startswith(".view")]
    row, = env.run("--json", "save", "e").json()
    assert not row["updated"]
    point = env.mount("e")
    assert_saved(env, point, repo, "cowfs/e")


@pytest.mark.long
def test_five_at_once_beside_a_user_and_gc(env, repo):
    env.load(repo)
    points = {f"e{i}": env.mount("base", f"e{i}") for i in range(5)}
    end = threading.Event()
    problems = []

    def user():
        n = 0
        while not end.is_set():
            (repo / "user").write_text(f"{n}\n")
            git(repo, "add", "user")
            git(repo, "commit", "-q", "-m", f"user {n}")
            n += 1

    def collector():
        while not end.is_set():
            git(repo, "gc", "-q")

    def saver(name, point):
        for n in range(8):
            env.sh(point, f"echo {n} > {name}; git add {name}; "
                          f"git commit -qm {n}; echo {n} > loose-{n}")
            result = env.run("save", name, expect=None)
            if result.code:
                problems.append(result)

    threads = [threading.Thread(target=t) for t in (user, collector)]
    savers = [threading.Thread(target=saver, args=a) for a in points.items()]
    for t in threads + savers:
        t.start()
    for t in savers:
        t.join()
    end.set()
    for t in threads:
        t.join()
    assert not problems
    for name, point in points.items():
        assert git(repo, "rev-list", "--count", f"main..cowfs/{name}") == "9"
        assert_saved(env, point, repo, f"cowfs/{name}")
    git(repo, "gc", "-q", "--prune=now")
    assert git(repo, "fsck", "--full", "--strict") == ""
    assert not [n for n in os.listdir(repo / ".git/objects/pack")
                if n.endswith(".keep")]


@pytest.mark.long
def test_a_file_of_one_gib(env, repo):
    env.load(repo)
    point = env.mount("base", "e")
    env.sh(point, "head -c 1073741824 /dev/zero | tr '\\0' 'x' > huge",
           limit=600)
    env.run("save", "e", limit=600)
    assert git(repo, "cat-file", "-s", "cowfs/e:huge") == "1073741824"
    want = env.sh(point, "git hash-object huge", limit=600).out.strip()
    assert git(repo, "rev-parse", "cowfs/e:huge") == want
