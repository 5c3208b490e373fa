# SPDX-License-Identifier: MIT
"""A real project: a git repository with a real node_modules of more than
20,000 files. Marked "tree": .ci/run runs it as a step of its own.

npm's packages come from its registry once and stay, outside of the tree, in
${COWFS_CACHE:-~/.cache/cowfs}.
"""
import json
import os
import shutil
import sys
import subprocess

import mountpoint
import pytest
from conftest import have_fuse, skip_unless
from gitrepo import GIT
from helpers import HERE, SUPPORT
from listing import listing

sys.path.insert(0, str(HERE.parent / "agents"))
import real  # noqa: E402

pytestmark = pytest.mark.tree
ADD = "is-number@7.0.0"


@pytest.fixture(scope="module")
def project():
    """Made once for each list of packages."""
    if not shutil.which("npm"):
        pytest.skip("no npm")
    return real.make(real.SOME)


@pytest.fixture(scope="module")
def store(project):
    skip_unless(have_fuse(), "fuse")
    s = mountpoint.Store()
    s.env.update(GIT)
    s.env["GIT_CONFIG_COUNT"] = "1"
    s.env["GIT_CONFIG_KEY_0"], s.env["GIT_CONFIG_VALUE_0"] = (
        "safe.directory", "*")
    s.load(project)
    yield s
    wrong = s.close()
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def env(store, request):
    name = request.node.name[5:40]
    point = store.mount("base", name)
    yield name, point
    store.run("umount", name, "--discard")


def count_files(top):
    return sum(len(fs) for _, _, fs in os.walk(top / "node_modules"))


def tree_listing(store, folder, content=False):
    out = store.inside(folder, [mountpoint.PYTHON, SUPPORT / "listing.py",
                                ".", *["--content"] * content],
                       limit=600).out
    return {name: row for name, row in map(json.loads, out.splitlines())}


def test_it_is_big_enough(project):
    assert count_files(project) >= 20000


def test_equal_to_the_origin(store, env, project):
    """But for git's index, and for settings in its config."""
    _, point = env
    out = store.sh(point, f"diff -rq --no-dereference . '{project}' || true",
                   limit=600).lines()
    fitted = ("./.git/config", "./.git/index")
    assert [line.split()[1] for line in out] == list(fitted), out[:10]
    left, right = tree_listing(store, project), tree_listing(store, point)
    differ = [n for n in sorted(set(left) | set(right))
              if left.get(n) != right.get(n)]
    assert set(differ) <= set(fitted), differ[:10]
    config = (project / ".git/config").read_text()
    assert store.sh(point, "cat .git/config").out == \
        config + "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"


def test_first_status_opens_no_file(store, env):
    """Counted by the system calls, and by what the server had to read."""
    name, point = env
    trace = store.folder / "trace"
    out = store.sh(point, f"strace -f -qq -e trace=open,openat -o {trace} "
                          "git status --porcelain", limit=300).out
    assert out == ""
    opened = [line for line in trace.read_text().splitlines()
              if "AT_FDCWD" in line and ".git/" not in line
              and '"/' not in line and "O_DIRECTORY" not in line
              and "ENOENT" not in line and ".gitignore" not in line]
    assert opened == []
    before = int(store.run("--json", "show", name).json()[0]["reads"])
    store.sh(point, "git diff-files --quiet && git ls-files | wc -l")
    after = int(store.run("--json", "show", name).json()[0]["reads"])
    assert after == before


def test_git_and_tools_work(store, env, project):
    name, point = env
    assert store.sh(point, "git status --porcelain", limit=120).out == ""
    store.sh(point, "git fsck --full")
    out = store.sh(point, "npx tsc --version", limit=120).out
    assert real.SOME["typescript"] in out
    out = store.sh(point, "npx eslint --version", limit=120).out
    assert real.SOME["eslint"] in out
    store.sh(point, "npx tsc --noEmit --skipLibCheck src/index.ts", limit=300)
    out = store.sh(point, "npx jest --ci 2>&1", limit=300).out
    assert "1 passed" in out


def changes(before, after):
    """What diff must say of two listings, renames apart."""
    want = set()
    for name in set(before) | set(after):
        a, b = before.get(name), after.get(name)
        kind = (b or a)["kind"]
        if kind == "0o40000":
            continue
        path = name[2:]
        if a is None or b is None:
            want.add(("A" if a is None else "D", path))
        elif a["kind"] != b["kind"]:
            want.add(("T", path))
        else:
            skip = ("mtime", "nlink")
            if {k: v for k, v in a.items() if k not in skip} != \
                    {k: v for k, v in b.items() if k not in skip}:
                want.add(("M", path))
    return want


def rows(out):
    """diff -z as a set of letter and path; a rename counts as both."""
    fields = iter(out.split("\0")[:-1])
    got = set()
    for kind in fields:
        path = next(fields)
        if kind.startswith("R"):
            got |= {("D", path), ("A", next(fields))}
        elif not path.endswith("/"):
            got.add((kind, path))
    return got


def test_npm_install_commit_and_diff(store, env, project):
    name, point = env
    origin = tree_listing(store, project, content=True)
    before = tree_listing(store, point, content=True)
    store.env["npm_config_cache"] = str(real.npm_cache())
    store.env["npm_config_update_notifier"] = "false"
    store.sh(point, f"npm install --legacy-peer-deps --ignore-scripts "
                    f"--no-audit --no-fund '{ADD}'", limit=600)
    store.sh(point, "echo 'exports.two = 2;' >> src/add.js; git add -A; "
                    "git commit -q -m more; mv src/index.ts src/main.ts; "
                    "rm -r node_modules/lodash", limit=120)
    after = tree_listing(store, point, content=True)
    got = rows(store.run("diff", name, "-z", limit=300).out)
    want = changes(before, after)
    assert got == want, (sorted(got - want)[:9], sorted(want - got)[:9])
    # Nobody else sees it.
    assert tree_listing(store, project, content=True) == origin
    second = store.mount("base", "second")
    assert tree_listing(store, second, content=True) == before
    store.run("umount", "second")


@pytest.mark.long  # integration.agents.tree does it five times at once
def test_npm_ci(store, env, project):
    """Removes node_modules as a whole and builds it again."""
    name, point = env
    store.env["npm_config_cache"] = str(real.npm_cache())
    store.sh(point, "npm ci --legacy-peer-deps --ignore-scripts --no-audit "
                    "--no-fund --prefer-offline", limit=900)
    out = store.sh(point, "npx jest --ci 2>&1", limit=300).out
    assert "1 passed" in out
    assert store.sh(point, "git status --porcelain", limit=120).out == ""


def test_importing_again_adds_nothing(store, project):
    first = store.run("import", project, "-t", "again", limit=600)
    size = used(store.path)
    second = store.run("import", project, "-t", "again2", limit=600)
    assert first.out == second.out
    assert used(store.path) - size < 1 << 20


def used(path):
    out = subprocess.run(["du", "-s", "-B1", path], check=True,
                         capture_output=True, text=True).stdout
    return int(out.split()[0])


def test_listing_helper_agrees_with_itself(project):
    """The comparison must not be blind: a change of one byte shows."""
    a = listing(project / "src", content=True)
    assert a["./add.js"]["sha"] and a["./add.js"]["kind"] == "0o100000"
