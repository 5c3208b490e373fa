#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""project.py - makes the project that agents work in, once, and keeps it in
${COWFS_CACHE:-~/.cache/cowfs}, which is outside of the source tree.

What is in app/ becomes a git repository with everything that a developer has
after a day: node_modules, a virtual environment, crates and a warm `target`,
and a PostgreSQL cluster with data. Packages come from where the machine's
npm, pip and cargo get theirs; the tests themselves need no network.

    project.py      makes it, prints where it is
"""
import glob
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
APP = HERE / "app"
PYTEST = "pytest==7.4.4"
TOOLS = ("npm", "cargo", "psql", "git")
CLUSTER, SEED = "var/pg", "db/migrations/001_base.sql"
PYTHON = "/usr/bin/python3"  # everybody can execute it
MADE = 1  # counts changes of how it is made
# A lock file without the packages' addresses has `npm ci` ask for them.
NPM = dict(npm_config_update_notifier="false", npm_config_audit="false",
           npm_config_fund="false", npm_config_loglevel="error",
           npm_config_omit_lockfile_registry_resolved="false")
GIT = dict(GIT_AUTHOR_NAME="t", GIT_AUTHOR_EMAIL="t@example.invalid",
           GIT_COMMITTER_NAME="t", GIT_COMMITTER_EMAIL="t@example.invalid",
           GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null")


def postgres():
    """The folder of PostgreSQL's programs; None: there is none."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    return found[-1] if found else None


def cache_folder():
    folder = os.environ.get("COWFS_CACHE") or "~/.cache/cowfs"
    return pathlib.Path(folder).expanduser()


def missing():
    """What a machine needs to make and to use it."""
    names = [name for name in TOOLS if not shutil.which(name)]
    return names + ([] if postgres() else ["postgresql"])


def place():
    """Where it is, or would be: one for each list of packages and data."""
    key = hashlib.sha256(f"{PYTEST} {MADE}".encode())
    for name in ("package.json", "db/package.json", "rust/Cargo.toml", SEED):
        key.update((APP / name).read_bytes())
    return cache_folder() / f"shop-{key.hexdigest()[:12]}"


def run(*argv, cwd, **env):
    subprocess.run(argv, cwd=cwd, env=dict(os.environ, **env), check=True,
                   stdin=subprocess.DEVNULL, stdout=sys.stderr)


def make_packages(top):
    """pg's packages stay in a cache of npm's in the tree: `npm ci` finds all
    of them there, by the addresses in the lock file."""
    run("npm", "install", cwd=top / "db",
        **dict(NPM, npm_config_cache=str(top / "vendor/npm")))
    run("npm", "install", cwd=top,
        **dict(NPM, npm_config_cache=str(cache_folder() / "npm")))
    run(PYTHON, "-m", "venv", ".venv", cwd=top)
    run(".venv/bin/python", "-m", "pip", "install", "-q",
        "--disable-pip-version-check", PYTEST, cwd=top)
    rust = top / "rust"
    own = rust / ".cargo"
    own.rename(rust / "config")  # crates come from elsewhere this once
    run("cargo", "vendor", "-q", cwd=rust)
    (rust / "config").rename(own)
    run("cargo", "build", "--offline", "-q", cwd=rust)


def make_cluster(top):
    """As the user postgres where root makes it: the server refuses root."""
    data, bin_ = top / CLUSTER, postgres()
    data.mkdir(parents=True)
    user = []
    if os.geteuid() == 0:
        shutil.chown(data, "postgres", "postgres")
        user = ["setpriv", "--reuid", "postgres", "--regid", "postgres",
                "--clear-groups", "--"]
    # A path that is open to that user, by the descriptor of this process.
    sql = (top / SEED).read_text()
    sql += ("create schema meta; create table meta.applied (name text);"
            "insert into meta.applied values ('001_base.sql');")
    place_of = pathlib.Path("/tmp") / f"cowfs-cluster-{os.getpid()}"
    data.rename(place_of)
    try:
        run(*user, f"{bin_}/initdb", "-A", "trust", "-E", "UTF8",
            "--no-locale", "-N", "-U", "postgres", "-D", str(place_of),
            cwd="/")
        control = [*user, f"{bin_}/pg_ctl", "-D", str(place_of), "-w", "-s",
                   "-l", "/dev/null", "-o",
                   f"-k {place_of} -c listen_addresses="]
        run(*control, "start", cwd="/")
        try:
            run("psql", "-qXh", str(place_of), "-U", "postgres", "-v",
                "ON_ERROR_STOP=1", "-c", sql, "postgres", cwd="/")
        finally:
            run(*control, "-m", "fast", "stop", cwd="/")
    finally:
        shutil.move(place_of, data)


def make_project(top):
    shutil.copytree(APP, top)
    make_packages(top)
    make_cluster(top)


def copy(to):
    """A work tree of one's own, a repository; its `target` is warm there."""
    subprocess.run(["cp", "-a", str(place()), str(to)], check=True)
    shutil.copytree(APP, to, dirs_exist_ok=True)
    run("cargo", "build", "--offline", "-q", cwd=to / "rust")
    for args in (["init", "-q", "-b", "main"], ["add", "-A"],
                 ["commit", "-q", "-m", "a shop"]):
        run("git", *args, cwd=to, **GIT)


def make():
    top = place()
    if top.exists():
        return top
    top.parent.mkdir(parents=True, exist_ok=True)
    making = top.parent / f"making-shop-{os.getpid()}"
    try:
        make_project(making)
        making.rename(top)
    except OSError:
        if not top.exists():  # else another run was faster
            raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return top


if __name__ == "__main__":
    lacking = missing()
    if lacking:
        print("project.py: needs " + ", ".join(lacking), file=sys.stderr)
        sys.exit(77)
    print(make())
