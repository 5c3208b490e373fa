# SPDX-License-Identifier: MIT
"""shop.py - the project of tests/agents, and a store with it.

The module's tests want name spaces of their own, see tests/support/apart.
"""
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

from conftest import have_fuse, skip_unless
from gitrepo import GIT

AGENTS = pathlib.Path(__file__).resolve().parent.parent / "agents"
sys.path.insert(0, str(AGENTS))
import project  # noqa: E402

# The project's python3 is that of Debian, whatever comes first in PATH.
PYTHON = "/usr/bin/python3"


def variables(number):
    """How an agent is called."""
    own = dict(GIT, AGENT=str(number))
    return [w for name, value in own.items()
            for w in ("--env", f"{name}={value}")]


def apart():
    if os.environ.get("COWFS_TESTS_APART") != "1":
        pytest.skip("runs by tests/support/apart")


@pytest.fixture(scope="module")
def shop():
    """A copy of the project; its path."""
    apart()
    lacking = project.missing()
    if lacking:
        pytest.skip("needs " + ", ".join(lacking))
    if not project.place().exists():
        pytest.fail("tests/agents/project.py makes the project first")
    with tempfile.TemporaryDirectory(prefix="cowfs-t-") as folder:
        os.chmod(folder, 0o755)
        top = pathlib.Path(folder) / "shop"
        project.copy(top)
        yield top


@pytest.fixture
def store(shop, cowfs):
    """A store with the snapshot `base` of it."""
    skip_unless(have_fuse(), "fuse")
    skip_unless(shutil.which("bwrap"), "bwrap")
    cowfs.env.update(GIT)
    cowfs.load(shop)
    return cowfs
