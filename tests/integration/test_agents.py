# SPDX-License-Identifier: MIT
"""Agents side by side in one project, each as if it were alone.

What each does is tests/agents/app/agent.py; here is the order of it, the same
for all and at the same time: the next part begins when all are through with
the last one, so what one takes or destroys would be missed by the others.
"""
import concurrent.futures
import ctypes
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess

import pytest

import mountpoint
import residue
from gitrepo import GIT, git
from shop import (AGENTS, PYTHON, apart, project, shop, store,  # noqa: F401
                  variables)

KILLED, FULL, UNMOUNTED = 3, 4, 2
ALL = range(5)
# Control groups are the machine's, where others run this as well.
RUN = secrets.token_hex(3)
QUOTA = "96M"
# As root, who can make control groups anywhere.
LIMITS = ["--memory", "4G", "--pids", "500"] if os.geteuid() == 0 else []
OPTIONS = ["--net", "private", *LIMITS]
# What agents write, where the caller has it.
KEYS = (".cache/shop", ".npm/_cacache/shop-1.0.0", ".cache/pip/http/shop-1.0.0",
        ".cargo/registry/cache/shop-1.0.0", ".shoprc")


def name(n):
    return f"agent{n}-{RUN}"


def command(n, *steps):
    return ["run", *OPTIONS, *variables(n), name(n), "--", PYTHON, "agent.py",
            *steps]


def steps(store, n, *names, limit=240):  # noqa: F811
    result = store.run(*command(n, *names), limit=limit)
    print(f"{n}:", *result.lines(), sep=" ")


def together(work, agents=ALL):
    """All at once; the first failure of all when each has come to its end."""
    with concurrent.futures.ThreadPoolExecutor(len(agents)) as pool:
        futures = [pool.submit(work, n) for n in agents]
    return [f.result() for f in futures]


def begin(store, n):  # noqa: F811
    store.mount("base", name(n), *(["--quota", QUOTA] if n == FULL else []))
    steps(store, n, "look")
    store.run("db", "start", name(n))
    steps(store, n, "migrate", "serve", "worker", "edit", "cache", "litter",
          "install", "compiled")


def disturb(store, n):  # noqa: F811
    if n == KILLED:
        kill_half_way(store, n)
    else:
        steps(store, n, "pkill", *(["fill"] if n == FULL else []))


def kill_half_way(store, n):  # noqa: F811
    """The command that has been started, and all that it has started."""
    child = store.spawn(["cowfs", *command(n, "half")])
    assert child.stdout.readline() == b"half\n"
    os.kill(child.pid, signal.SIGKILL)
    store.run("kill", name(n))
    store.finish(child, 30)  # nobody has its output open any more


@pytest.mark.tree
def test_five_agents(shop, store):  # noqa: F811
    store.run("daemon", "stop")
    before = residue.lists()
    together(lambda n: begin(store, n))
    if LIMITS:
        assert len(residue.control_groups(map(name, ALL))) == 2 * len(ALL)
    assert not [port for port in residue.lists()["ports"]
                if port.startswith("tcp")]
    together(lambda n: disturb(store, n))
    left = [n for n in ALL if n != KILLED]
    together(lambda n: steps(store, n, "tests", "ours"), left)
    together(lambda n: steps(store, n, "ours", "commit"), left)
    together(lambda n: finish(store, n))
    assert_work(shop)
    assert store.run("ps").lines()[1:] == []
    store.run("daemon", "stop")
    assert os.listdir(store.path / "envs") == []
    residue.assert_as_before(before)
    assert residue.control_groups(map(name, ALL)) == []
    assert not [k for k in KEYS if (pathlib.Path.home() / k).exists()]
    assert store.run("doctor").lines()[-1] == "0 problems"


def finish(store, n):  # noqa: F811
    """To a branch; the work of two is left to the rescue."""
    if n not in (KILLED, UNMOUNTED):
        store.run("save", name(n), "-b", f"agent/{n}")
    store.run("umount", name(n))


def assert_work(repo):
    """Of each its own, and nothing of another's."""
    refs = git(repo, "for-each-ref", "--format=%(refname)").split()
    for n in ALL:
        branch = n not in (KILLED, UNMOUNTED)
        ours = [r for r in refs if (r == f"refs/heads/agent/{n}" if branch else
                r.startswith(f"refs/cowfs/rescue/{name(n)}-"))]
        assert len(ours) == 1, refs
        rates = [line for line in git(
            repo, "show", f"{ours[0]}:lib/rates.js").splitlines()
            if line.startswith("rates[")]
        assert rates == [f"rates[{i}] = {100 + n if i == n else 0};"
                         for i in ALL]
        assert git(repo, "show", f"{ours[0]}:mine") == str(n)
        if n == KILLED:
            assert git(repo, "show", f"{ours[0]}:half") == f"half of {n}"
        else:
            assert f"the work of {n}\n" in git(repo, "log", "--format=%s",
                                               ours[0])
    assert git(repo, "status", "--porcelain") == ""
    git(repo, "fsck", "--strict")


def kill_all_others():
    """Every process of this name space but the test and what it hangs on."""
    kept, pid = {1}, os.getpid()
    while pid > 1:
        kept.add(pid)
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text()
                  .rpartition(")")[2].split()[1])
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if pid not in kept and mountpoint.alive(pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass


@pytest.mark.tree
def test_all_is_killed(store):  # noqa: F811
    """Server, keeper, sandboxes, relays, databases: doctor clears away, and
    the environments have all that was committed."""
    store.run("daemon", "stop")
    before = residue.lists()
    agents = range(2)
    together(lambda n: begin(store, n), agents)
    kill_all_others()
    store.run("doctor", "--fix", expect=None)
    residue.assert_as_before(before)
    assert residue.control_groups(map(name, agents)) == []
    assert store.run("doctor").lines()[-1] == "0 problems"
    for n in agents:
        steps(store, n, "own_cache")
        store.run("db", "start", name(n))
        steps(store, n, "serve", "schema_test", "compiled")
    store.run("umount", "--all")
    store.run("daemon", "stop")
    residue.assert_as_before(before)


# --- twenty ------------------------------------------------------------------

MANY = range(20)


@pytest.fixture
def small(tmp_path, cowfs):
    """A repository with a server that keeps its rows in a file of SQLite."""
    apart()
    top = tmp_path / "small"
    shutil.copytree(AGENTS / "small", top)
    for args in (["init", "-q", "-b", "main"], ["add", "-A"],
                 ["commit", "-q", "-m", "small"]):
        git(top, *args)
    cowfs.env.update(GIT)
    cowfs.load(top)
    return top


def small_agent(store, n):  # noqa: F811
    env = f"small{n}-{RUN}"
    store.mount("base", env)
    for step in ("begin", "check", "commit"):
        yield
        store.run("run", "--net", "private", *variables(n), env, "--",
                  PYTHON, "small.py", step, limit=120)
    yield
    store.run("save", env, "-b", f"small/{n}")
    store.run("umount", env)


def test_twenty_small_ones(small, cowfs):
    cowfs.run("daemon", "stop")
    before = residue.lists()
    agents = [small_agent(cowfs, n) for n in MANY]
    for _ in range(5):
        together(lambda n: next(agents[n], None), MANY)
    for n in MANY:
        text = git(small, "show", f"small/{n}:settings").splitlines()
        assert text == ["0" if i != n else f"set by {n}" for i in MANY]
    cowfs.run("daemon", "stop")
    residue.assert_as_before(before)
    assert cowfs.run("doctor").lines()[-1] == "0 problems"


# All of node_modules anew, from the packages in the environment's own cache.
NPM_CI = r"""
mv node_modules before
npm ci --offline --no-audit --no-fund --loglevel error
diff -rq --no-dereference -x .package-lock.json before node_modules
rm -rf before
npm test --silent -- -t rates
"""


@pytest.mark.tree
@pytest.mark.long
def test_five_install_all_at_once(store):  # noqa: F811
    store.run("import", "--cache", f"npm={project.cache_folder() / 'npm'}",
              limit=240)

    def install(n):
        store.mount("base", name(n))
        store.run("run", *OPTIONS, name(n), "--", "sh", "-ec", NPM_CI,
                  limit=600)

    together(install)
    for n in ALL:
        store.run("umount", name(n), "--discard")
    assert store.run("doctor").lines()[-1] == "0 problems"


def test_the_lists_are_not_blind(as_root, tmp_path):
    """What each of them is to find, left on purpose."""
    apart()
    before = residue.lists()
    libc = ctypes.CDLL(None)
    memory = libc.shmget(0, 4096, 0o1600)
    child = subprocess.Popen(["unshare", "-i", "sleep", "1000"])
    file = pathlib.Path("/dev/shm/left")
    file.write_text("left")
    subprocess.run(["mount", "-t", "tmpfs", "left", tmp_path], check=True)
    try:
        with socket.create_server(("127.0.0.1", 0)):
            mountpoint.wait_until(lambda: found(before) == set(before))
    finally:
        subprocess.run(["umount", tmp_path], check=True)
        file.unlink()
        child.kill()
        child.wait()
        libc.shmctl(memory, 0, None)
    residue.assert_as_before(before)


def found(before):
    return {line.split(":")[0]
            for line in residue.differences(before, residue.lists())}
