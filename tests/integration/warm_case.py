# SPDX-License-Identifier: MIT
"""A HOME that has caches, a store, and what tests of warm caches ask of them."""
import shutil
import subprocess

import pytest

from conftest import skip_unless
from helpers import PYTHON, SUPPORT

NPM = ".npm/_cacache"
# By which the machine may have moved its own caches.
VARIABLES = ("CARGO_HOME", "GOCACHE", "GOMODCACHE", "GOPATH", "MAVEN_OPTS",
             "PIP_CACHE_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME",
             "npm_config_cache")


def put(top, files):
    for name, text in files.items():
        file = top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def host_listing(folder):
    """Every name, content and attribute of a tree of the host."""
    return subprocess.run(
        [PYTHON, SUPPORT / "listing.py", ".", "--content"], cwd=folder,
        check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.fixture
def warm(cowfs, tree):
    """A store with a snapshot, and a HOME that has caches."""
    skip_unless(shutil.which("bwrap"), "bwrap")
    cowfs.home = cowfs.folder / "home"
    put(cowfs.home, {NPM + "/key": "warm\n", ".cache/pip/http/key": "p\n",
                     ".cargo/registry/src/a/lib.rs": "r\n"})
    cowfs.env["HOME"] = str(cowfs.home)
    for name in VARIABLES:
        cowfs.env.pop(name, None)
    cowfs.load(tree)
    cowfs.tree = tree
    return cowfs


def sh(store, env, script, *options, **kw):
    return store.run("run", *options, env, "--", "sh", "-c", "cd; " + script,
                     **kw)


def names(store):
    return [r["name"] for r in store.run("--json", "ps").json()]


def refs(store):
    found = []
    for row in store.run("--json", "snapshots").json():
        found += row["refs"]
    return sorted(found)
