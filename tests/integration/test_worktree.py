# SPDX-License-Identifier: MIT
"""The agents of test_agents.py with `git worktree add` in place of cowfs: each
thing that they take as their own is another's as well. So what is shown there
can fail.

A worktree has no installed packages; these are links to the origin's, as
people do. The database is the one that runs on the machine.
"""
import os
import shutil
import subprocess

import pytest

import mountpoint
from gitrepo import git
from shop import PYTHON, project, shop  # noqa: F401

INSTALLED = ("node_modules", "db/node_modules", ".venv", "vendor",
             "rust/vendor", "rust/target")

pytestmark = pytest.mark.tree


@pytest.fixture
def agents(shop, tmp_path):  # noqa: F811
    """Two work trees, and one HOME for both."""
    (tmp_path / "home").mkdir()
    trees = []
    for n in range(2):
        tree = tmp_path / f"tree{n}"
        git(shop, "worktree", "add", "-q", "--detach", tree)
        for path in INSTALLED:
            (tree / path).symlink_to(shop / path)
        (tree / "var").mkdir()
        trees.append(tree)
    yield Agents(trees, tmp_path / "home")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if b"AGENT=" in variables_of(pid):
            os.kill(int(pid), 9)
    subprocess.run(["ipcrm", "--all=shm"], check=True)  # of this name space
    shutil.rmtree("/tmp/shop", ignore_errors=True)
    for tree in trees:
        git(shop, "worktree", "remove", "--force", tree)


def variables_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            return f.read()
    except OSError:
        return b""


class Agents:
    def __init__(self, trees, home):
        self.trees, self.home = trees, home

    def step(self, n, *names):
        """Its exit code, and what it said."""
        env = mountpoint.environment()
        for name in ("XDG_CACHE_HOME", "CARGO_HOME", "PIP_CACHE_DIR"):
            env.pop(name, None)
        env.update(HOME=str(self.home), AGENT=str(n), PGUSER="postgres")
        r = subprocess.run([PYTHON, "agent.py", *names], cwd=self.trees[n],
                           env=env, stdin=subprocess.DEVNULL, text=True,
                           capture_output=True, timeout=120, check=False)
        return r.returncode, r.stderr.strip()

    def works(self, n, *names):
        assert self.step(n, *names) == (0, "")


@pytest.fixture
def database(shop, tmp_path):  # noqa: F811
    """The machine's, with the project's data, on its usual port."""
    data = str(tmp_path / "pg")
    subprocess.run(["cp", "-a", shop / project.CLUSTER, data], check=True)
    user = [] if os.geteuid() else [
        "setpriv", "--reuid", "postgres", "--regid", "postgres",
        "--clear-groups", "--"]
    control = [*user, f"{project.postgres()}/pg_ctl", "-D", data, "-w", "-s",
               "-l", "/dev/null", "-o",
               "-c listen_addresses=127.0.0.1 -c unix_socket_directories="]
    subprocess.run([*control, "start"], check=True, cwd="/", timeout=60)
    yield
    subprocess.run([*control, "-m", "immediate", "stop"], check=True, cwd="/",
                   timeout=60)


def test_the_port(agents, database):
    agents.works(0, "serve")
    assert agents.step(1, "serve") == \
        (1, "agent 1: node server.js: server: EADDRINUSE")


def test_the_database(agents, database):
    agents.works(0, "migrate", "schema_test")
    agents.works(1, "migrate")
    for n in (0, 1):
        code, said = agents.step(n, "schema_test")
        assert code == 1 and "the tables are those of the migrations" in said


def test_the_cache(agents):
    agents.works(0, "cache", "own_cache")
    agents.works(1, "cache", "own_cache")
    code, said = agents.step(0, "own_cache")
    assert code == 1 and said.endswith("shop/rates-1.0.0: '1', not '0'")


def test_files_of_the_same_name(agents):
    agents.works(0, "edit", "litter", "own_files")
    agents.works(1, "edit", "litter")
    code, said = agents.step(0, "own_files")
    assert code == 1 and said.startswith("agent 0: /tmp/shop/part-0: '111")


def test_processes_by_name(agents, database):
    """The server of one is ended by the other's pkill, and answers it."""
    agents.works(0, "serve", "worker")
    code, said = agents.step(1, "pkill")
    assert code == 0, said
    agents.works(1, "own_processes")
    code, said = agents.step(0, "own_processes")
    assert code == 1 and said == "agent 0: the worker: '1', not '0'"


def test_alone_each_of_them_works(agents, database):
    """What fails above fails for no other reason."""
    agents.works(1, "migrate", "serve", "worker", "edit", "cache", "litter",
                 "pkill", "tests", "ours")
