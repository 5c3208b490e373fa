# SPDX-License-Identifier: MIT
"""save: what git itself would commit arrives in the origin, and nothing else
there changes."""
import hashlib
import os

import gitrepo
import pytest
from gitrepo import env  # noqa: F401


def git(repo, *args, **kw):
    return gitrepo.git(repo, *args, **kw).strip()


def make_repo(top):
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    for d in ("src", "src/deep", "doc"):
        (top / d).mkdir()
        for i in range(8):
            (top / d / f"f{i}").write_text(f"{d} {i}\n" * (i + 1))
    (top / "src-x").write_text("sorts between src and src/\n")
    (top / "run").write_text("#!/bin/sh\n")
    (top / "run").chmod(0o755)
    (top / "link").symlink_to("src/f1")
    (top / "lines").write_text("".join(f"line {i}\n" for i in range(9)))
    (top / ".gitignore").write_text("*.o\n/build/\n!keep.o\n")
    (top / "src/.gitignore").write_text("tmp*\n!tmp-not\n")
    (top / "forced.o").write_text("tracked, and ignored\n")
    git(top, "add", "-A")
    git(top, "add", "-f", "forced.o")
    git(top, "commit", "-q", "-m", "first")
    git(top, "branch", "side")
    (top / "lines").write_text("".join(f"line {i}!\n" for i in range(9)))
    git(top, "commit", "-q", "-a", "-m", "second")
    git(top, "switch", "-q", "side")
    (top / "lines").write_text("".join(f"line {i}?\n" for i in range(9)))
    (top / "doc/side").write_text("of the side\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "other")
    git(top, "switch", "-q", "main")
    (top / ".git/info/exclude").write_text("*.excluded\n")
    return top


@pytest.fixture
def repo(tmp_path):
    return make_repo(tmp_path / "repo")


def fingerprint(repo):
    """All of the origin but objects and the branches that are saved to."""
    found = {}
    for top, dirs, names in os.walk(repo):
        inside = os.path.relpath(top, repo)
        if inside == ".git":
            dirs.remove("objects")
        for name in names:
            path = os.path.join(top, name)
            key = os.path.relpath(path, repo)
            if key.startswith((".git/refs/heads/cowfs",
                               ".git/logs/refs/heads/cowfs",
                               ".git/refs/heads/saved",
                               ".git/logs/refs/heads/saved")):
                continue
            st = os.lstat(path)
            data = (os.readlink(path).encode() if os.path.islink(path)
                    else open(path, "rb").read())
            found[key] = (st.st_mode, st.st_mtime_ns, st.st_ino,
                          hashlib.sha256(data).hexdigest())
    return found


def what_git_adds(env, point, place):
    """The tree that git itself makes of a copy of the environment."""
    env.sh(env.folder, f"rm -rf {place} && cp -a {point} {place}")
    env.sh(place, "git add -A 2>/dev/null")
    return env.sh(place, "git write-tree").out.strip()


STATES = {
    "modified": "echo more >> src/f1; echo more >> lines",
    "same size": "sed -i s/doc/cod/ doc/f3",
    "staged": "echo more >> src/f1; git add src/f1",
    "staged then modified": "echo a >> run; git add run; echo b >> run",
    "staged then restored": "echo a >> run; git add run; git show HEAD:run > run",
    "deleted": "rm src/f2; git rm -q src/f3",
    "directory deleted": "rm -r src/deep",
    "all deleted": "rm -r src doc lines run link src-x forced.o",
    "renamed": "git mv src/f4 doc/moved; mv src/f5 src/f55",
    "directory renamed": "mv src/deep doc/deeper",
    "mode": "chmod +x src/f1; chmod -x run; chmod 600 doc/f1",
    "symlink": "ln -s nowhere new-link; ln -sfn src/f2 link",
    "file to symlink": "rm src/f1; ln -s f2 src/f1",
    "symlink to file": "rm link; echo file > link",
    "file to directory": "rm lines; mkdir -p lines/a/b; echo x > lines/a/b/c",
    "directory to file": "rm -r src/deep; echo flat > src/deep",
    "untracked": "echo n > new; echo n > src/deep/new",
    "untracked directory": "mkdir -p n/e/w; echo 1 > n/e/w/f; echo 2 > n/x",
    "sorting": "mkdir a a-b a.c; for f in a/f a-b/f a.c/f a0 a-; do "
               "echo $f > $f; done",
    "ignored": "echo o > x.o; mkdir build; echo b > build/b; echo t > src/tmp1;"
               "echo e > a.excluded; echo k > keep.o; echo n > src/tmp-not",
    "ignored by a new rule": "echo 'doc2' >> .gitignore; mkdir doc2; "
                             "echo 1 > doc2/x; echo y > doc/y",
    "tracked and ignored": "echo more >> forced.o",
    "forced": "echo o > x.o; git add -f x.o; mkdir build; echo > build/b; "
              "git add -f build/b",
    "intent to add": "echo i > intent; git add -N intent",
    "only in the index": "echo c | git hash-object -w --stdin > .git/id; "
                         "git update-index --add --cacheinfo "
                         "100644,$(cat .git/id),lines",
    "removed from the index": "git rm -q --cached src/f6 doc/f6",
    "conflict": "git merge side || true",
    "conflict resolved": "git merge side || true; echo both > lines; "
                         "git add lines",
    "conflict of kinds": "git rm -q lines; git commit -qm gone; "
                         "git merge side || true",
    "rebase": "git rebase side || true",
    "cherry-pick": "git cherry-pick side || true",
    "revert": "git revert --no-edit HEAD~1 || true",
    "detached": "git checkout -q --detach; echo d > d; git add d; "
                "git commit -qm detached; echo e >> d",
    "new branch": "git switch -qc own; echo b > b; git add b; "
                  "git commit -qm own; echo u > u",
    "other branch": "git switch -q side; echo u >> lines",
    "amended": "echo a > a; git add a; git commit -q --amend -m amended",
    "orphan": "git switch -q --orphan born; echo o > o; git add o",
    "reset soft": "git reset -q --soft HEAD~1",
    "reset mixed": "git reset -q HEAD~1",
    "index made anew": "git read-tree HEAD; echo m >> run",
    "index without cache": "rm .git/index; git read-tree HEAD; "
                           "git update-index -q --refresh; echo m >> src/f7",
    "index version 4": "git update-index --index-version 4; echo m >> doc/f7;"
                       "git add doc/f7; echo n > n",
    "stash": "echo s >> run; git stash -q; echo t >> run; git stash -q; "
             "echo left > left",
    "names": "echo 1 > 'a b'; echo 2 > \"$(printf 'new\\nline')\"; "
             "echo 3 > \"$(printf 'latin-\\351')\"; echo 4 > 'quote\"'; "
             "mkdir -p \"$(printf 'd\\351')\"; "
             "echo 5 > \"$(printf 'd\\351/x')\"; echo 6 > -dash",
    "empty directory": "mkdir -p empty/er; echo x > y",
    "hard link": "ln src/f1 src/hard",
    "special": "mkfifo pipe; echo x >> run",
    "line ends": "git config core.autocrlf input; printf 'a\\r\\nb\\r\\n' > crlf;"
                 "printf 'a\\r\\nb\\0' > binary",
    "attributes": "printf '*.txt text eol=lf\\n*.id ident\\n' > .gitattributes;"
                  "printf 'a\\r\\n' > a.txt; printf '$Id: abc$\\n' > a.id;"
                  "printf 'a\\r\\n' > a.raw",
    "attributes below": "printf 'f* text\\n' > doc/.gitattributes; "
                        "printf 'x\\r\\ny\\r\\n' > doc/f1; "
                        "printf 'x\\r\\n' > src/f1",
    "assume unchanged": "git update-index --assume-unchanged run; "
                        "echo hidden >> run; echo seen >> lines",
    "file mode off": "git config core.fileMode false; chmod +x src/f1; "
                     "chmod -x run; echo x >> run; echo n > n; chmod +x n",
    "sparse": "git sparse-checkout set doc; echo s >> doc/f1",
    "nested repository": "git init -q nest/ed; echo n > nest/ed/n; "
                         "git -C nest/ed add n; git -C nest/ed commit -qm n; "
                         "echo more >> nest/ed/n; echo beside > nest/b",
    "big": "head -c 20000000 /dev/urandom > big; "
           "head -c 3000000 /dev/zero > zero; cp big big2",
    "touched": "touch src/f1 src/f2 src/f3; git status -s",
    "undone": "echo x >> src/f1; git show HEAD:src/f1 > src/f1; echo y > y",
}


def entries(text):
    return set(text.splitlines())


def test_what_git_would_commit(env, repo):
    env.load(repo)
    before = fingerprint(repo)
    base = git(repo, "rev-parse", "HEAD")
    wrong = []
    for i, (state, script) in enumerate(STATES.items()):
        name, copy = f"e{i}", env.folder / "copy"
        point = env.mount("base", name)
        env.sh(point, script)
        want = what_git_adds(env, point, copy)
        head = env.sh(copy, "git rev-parse -q --verify HEAD || true") \
            .out.strip()
        lines = env.run("save", name, "-m", state).lines()
        saved = lines[0].split()[0] if lines else base
        assert lines[:1] == [f"{saved} cowfs/{name}"][:len(lines)]
        if saved != base:
            assert git(repo, "rev-parse", f"cowfs/{name}") == saved
        if git(repo, "rev-parse", f"{saved}^{{tree}}") != want:
            wrong.append((state, entries(git(repo, "ls-tree", "-r", saved))
                          ^ entries(git(copy, "ls-tree", "-r", want))))
        parents = git(repo, "show", "-s", "--format=%P", saved)
        if saved != head and parents != head:
            wrong.append((state, parents, head))
        env.run("umount", name, "--discard")
    assert not wrong, wrong
    assert fingerprint(repo) == before
    assert git(repo, "fsck", "--full", "--strict") == ""
    assert not [n for n in os.listdir(repo / ".git/objects/pack")
                if not n.endswith((".pack", ".idx"))]
