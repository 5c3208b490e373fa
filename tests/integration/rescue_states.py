# SPDX-License-Identifier: MIT
"""What test_rescue_matrix.py does in environments: states that git makes, and
a walk at random."""
import os
import random
import subprocess

DATE = "2026-01-02T03:04:05Z"
GIT_ENV = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e@x",
    "GIT_COMMITTER_NAME": "n", "GIT_COMMITTER_EMAIL": "e@x",
    "GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE,
    "GIT_EDITOR": "true", "GIT_SEQUENCE_EDITOR": "true",
    "GIT_MERGE_AUTOEDIT": "no",
}

ORIGIN = """
git init -q -b main .
git config user.name n; git config user.email e@x
printf '*.log\\nbuild/\\nnode_modules/\\n' > .gitignore
seq 40 > a; seq 50 90 > b; mkdir -p dir/deep; echo c > dir/c
echo d > dir/deep/d; printf '#!/bin/sh\\n' > run; chmod +x run; ln -s a link
git add -A; git commit -qm one
echo second >> b; git commit -qam two; git tag v1
git checkout -qb other; sed -i 's/^20$/other/' a; git commit -qam other
git checkout -q main; sed -i 's/^20$/main/' a; git commit -qam three
git checkout -q main
"""

# name, what is done in the environment, what is expected beside the rule.
# "git": False - the origin gets nothing; None - it may; "tree": False - git's
# own idea of the work tree is not asked for; "left": names left out
STATES = {
    "modified": ("echo more >> a", {}),
    "staged": ("echo more >> a; git add a", {}),
    "staged then modified": ("echo s >> a; git add a; echo m >> a", {}),
    "deleted": ("rm b dir/c", {}),
    "deleted and staged": ("git rm -q b", {}),
    "deleted from the index alone": ("git rm -q --cached b", {}),
    "renamed": ("mv b dir/moved", {}),
    "renamed by git": ("git mv dir elsewhere", {}),
    "mode": ("chmod +x a; chmod -x run", {}),
    "symlink": ("ln -s nowhere new; ln -sfn b link", {}),
    "another kind": ("rm a; ln -s b a; rm link; echo file > link; rm b; "
                     "mkdir b; echo x > b/x", {}),
    "untracked": ("echo u > u", {}),
    "untracked directory": ("mkdir -p u/v/w; echo u > u/v/w/x; echo > u/y",
                            {}),
    "ignored": ("echo l > x.log; mkdir build; echo o > build/o", {}),
    "ignored over the limit": (
        "head -c 12000000 /dev/urandom > big.log; echo l > x.log",
        {"left": ["big.log"]}),
    "ignored dependencies": (
        "mkdir -p node_modules/m; echo j > node_modules/m/j; echo > u",
        {"left": ["node_modules/"]}),
    "intent to add": ("echo i > i; git add -N i", {}),
    "conflict": ("! git merge -q other", {}),
    "conflict half resolved": (
        "! git merge -q other; git checkout -q --ours a; echo x >> b", {}),
    "merge not committed": ("git checkout -q other; echo n > n; git add n; "
                            "git commit -qm n; git checkout -q v1; "
                            "git merge -q --no-commit --no-ff other", {}),
    "rebase": ("git checkout -q other; ! git rebase -q main", {}),
    "rebase, edit": ("GIT_SEQUENCE_EDITOR=\"sed -i 's/^pick/edit/'\" "
                     "git rebase -q -i v1; echo e >> b", {}),
    "cherry-pick": ("! git cherry-pick other", {}),
    "revert": ("sed -i 's/^20$/x/;s/^main$/y/' a; git commit -qam four; "
               "! git revert --no-edit HEAD~1", {}),
    "am": ("git format-patch -q -1 other --stdout > /dev/shm/$$.p; "
           "! git am -q /dev/shm/$$.p 2>/dev/null; rm /dev/shm/$$.p", {}),
    "bisect": ("git bisect start -q HEAD v1~1", {}),
    "detached with commits": ("git checkout -q --detach; echo 1 > n1; "
                              "git add n1; git commit -qm d1; echo 2 >> n1; "
                              "git commit -qam d2; echo 3 >> n1", {}),
    "new branch": ("git checkout -qb topic; echo t > t; git add t; "
                   "git commit -qm t; git checkout -q main", {}),
    "amended": ("echo x >> a; git commit -q --amend -am again", {}),
    "light tag": ("echo x >> a; git commit -qam x; git tag light; "
                  "git reset -q --hard v1", {}),
    "annotated tag": ("git tag -am words noted; git tag -am w outer noted",
                      {}),
    "stash": ("echo s >> a; git stash -q", {}),
    "stashes": ("echo s >> a; git stash -q; echo 2 > u; git stash -qu; "
                "echo 3 >> b; git add b; echo 4 >> b; git stash -q; echo > z",
                {}),
    "nested repository": ("mkdir n; cd n; git init -q; echo x > x; "
                          "git add x; git commit -qm x; echo y > y", {
                              "tree": False}),
    "submodule commit": (
        "git init -q /dev/shm/sub$$; git -C /dev/shm/sub$$ commit -q "
        "--allow-empty -m s; git -c protocol.file.allow=always submodule -q "
        "add /dev/shm/sub$$ sub; git commit -qm sub; cd sub; echo 1 > s; "
        "git add s; git commit -qm insub; echo 2 >> s; rm -rf /dev/shm/sub$$",
        {"tree": False}),
    "unborn branch": ("git checkout -q --orphan fresh; git rm -qrf --cached "
                      ".; echo o > o; git add o", {}),
    "not UTF-8": ("printf 1 > \"$(printf 'latin\\351')\"; git add -A; "
                  "printf 2 > \"$(printf 'nl\\n\\377')\"", {}),
    "empty directory": ("mkdir -p e/f g; rm -r dir/deep; mkdir dir/deep",
                        {}),
    "hard links": ("ln a hard; ln a dir/hard", {}),
    "fifo": ("mkfifo fifo", {}),
    "assumed unchanged": ("git update-index --assume-unchanged a; "
                          "git update-index --skip-worktree b; echo x >> a; "
                          "echo y >> b", {"tree": False}),
    "sparse checkout": ("git sparse-checkout set dir; echo x >> dir/c", {
        "tree": False}),
    "packed": ("for i in 1 2 3; do echo $i >> a; git commit -qam $i; done; "
               "git -c gc.pruneExpire=never gc -q; echo z >> a", {}),
    "commits in the reflog alone": (
        "echo lost >> a; git commit -qam lost; git reset -q --hard HEAD~1",
        {"changed": True}),
    "branch deleted": ("git branch -qD other", {"changed": True}),
    "another work tree": ("git worktree add -q wt -b wt; echo w > wt/w", {
        "tree": False}),
    "index of version 4": ("git update-index --index-version 4; echo x >> a; "
                           "git add a", {}),
    "split index": ("git update-index --split-index; echo x >> a; git add a",
                    {}),
    "notes and a replaced object": (
        "git notes add -m note; git replace HEAD v1; echo x >> a", {
            "tree": False}),
    "odd branch names": ("git branch 'x/ü@y'; git checkout -qb 'a#b$c%d'; "
                         "echo 1 >> a; git commit -qam 1", {}),
    "a lock left behind": (": > .git/index.lock; echo x >> a",
                           {"tree": False}),
    "no .git any more": ("rm -rf .git; echo x >> a", {
        "git": None, "tree": False}),
    "index corrupted": ("printf X | dd of=.git/index bs=1 seek=100 "
                        "conv=notrunc status=none; echo x >> a; echo > u",
                        {"git": None, "tree": False}),
    "no index": ("rm .git/index; echo x >> a", {"tree": False}),
    "HEAD corrupted": ("echo garbage > .git/HEAD; echo x >> a", {
        "git": None, "tree": False}),
    "a ref corrupted": ("echo garbage > .git/refs/heads/broken; echo x >> a",
                        {"git": None, "tree": False}),
    "an object is missing": (
        "echo m > m; git add m; git commit -qm m; rm -f .git/objects/"
        "$(git rev-parse HEAD:m | sed 's,^..,&/,'); echo x >> a", {
            "git": None, "tree": False}),
    "a repository of its own": ("rm -rf .git; git init -q -b other .; "
                                "git add -A; git commit -qm own; echo > u", {
                                    "git": None, "tree": False}),
    "line ends": ("git config core.autocrlf true; printf 'a\\r\\nb\\r\\n' > "
                  "crlf; echo '*.txt text eol=crlf' > .gitattributes; "
                  "printf 'x\\r\\n' > t.txt; git add -A 2>/dev/null", {
                      "tree": False}),
    "old times": ("touch -d '1999-12-31 23:59:59.123456789' a dir", {
        "changed": None}),
    "modes of all sorts": ("chmod 600 a; chmod 1777 dir; chmod 2755 dir/deep;"
                           " chmod 4755 run; chmod 000 b", {}),
    "xattrs": ("setfattr -n user.k -v v a; setfattr -n user.d -v w dir", {}),
}
SHORT = ["staged then modified", "conflict", "rebase", "stashes",
         "ignored over the limit", "detached with commits", "unborn branch",
         "empty directory", "index corrupted", "no .git any more",
         "annotated tag"]


class Walk:
    """Random operations of git and on files, in the working directory; what
    git refuses does not matter."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.n = 0

    def git(self, *args):
        subprocess.run(["git", *args], check=False, timeout=60,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def name(self):
        return self.r.choice(["a", "b", "dir/c", "dir/deep/d", "run", "n1",
                              "n2", "new/x", "new/y z", "ü", "q\n", "x.log",
                              "build/o"])

    def branch(self):
        return self.r.choice(["main", "other", "t1", "t2", "v1", "HEAD~1"])

    def write(self):
        name = self.name()
        self.n += 1
        try:
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            with open(name, self.r.choice("aw"), encoding="utf-8") as f:
                f.write(f"{self.n}\n" * self.r.randrange(1, 30))
        except OSError:
            pass

    def file(self):
        name, other = self.name(), self.name()
        try:
            op = self.r.randrange(6)
            if op == 0:
                os.unlink(name)
            elif op == 1:
                os.rename(name, other)
            elif op == 2:
                os.chmod(name, self.r.choice([0o644, 0o755, 0o600]))
            elif op == 3:
                os.symlink(other, name)
            elif op == 4:
                os.mkdir(f"d{self.r.randrange(9)}")
            else:
                os.link(name, other)
        except OSError:
            pass

    def step(self):
        r = self.r
        b = self.branch()
        r.choice([
            self.write, self.write, self.write, self.file, self.file,
            lambda: self.git("add", "-A"),
            lambda: self.git("add", "--", self.name()),
            lambda: self.git("add", "-N", "."),
            lambda: self.git("commit", "-qam", f"c{self.n}"),
            lambda: self.git("commit", "-q", "--amend", "-m", "again"),
            lambda: self.git("checkout", "-q", b),
            lambda: self.git("checkout", "-q", "--detach"),
            lambda: self.git("checkout", "-qb", f"t{r.randrange(4)}"),
            lambda: self.git("stash", "-qu"),
            lambda: self.git("stash", "pop", "-q"),
            lambda: self.git("merge", "-q", b),
            lambda: self.git("merge", "--abort"),
            lambda: self.git("rebase", "-q", b),
            lambda: self.git("rebase", "--abort"),
            lambda: self.git("cherry-pick", b),
            lambda: self.git("reset", "-q", b),
            lambda: self.git("reset", "-q", "--hard"),
            lambda: self.git("tag", "-fam", "words", f"w{r.randrange(3)}"),
            lambda: self.git("rm", "-q", "--cached", "--", self.name()),
            lambda: self.git("branch", "-qD", b),
            lambda: self.git("gc", "-q"),
            lambda: self.git("pack-refs", "--all"),
        ])()
