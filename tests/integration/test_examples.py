# SPDX-License-Identifier: MIT
"""The examples run as they stand, and leave nothing."""
import os

import mountpoint
import pytest
from helpers import HERE

EXAMPLES = HERE.parents[1] / "examples"


@pytest.mark.parametrize("name", ["01-mount-and-diff.sh", "02-two-agents.sh"])
def test_example_runs_and_leaves_nothing(cowfs, name):
    env = dict(cowfs.env, TMPDIR=str(cowfs.folder))
    env.pop("COWFS_STORE")
    child = cowfs.spawn([EXAMPLES / name], env=env)
    result = cowfs.finish(child, 120)
    assert result.code == 0, result
    assert not mountpoint.mounts_below(cowfs.folder)
    assert not mountpoint.processes_of(cowfs.folder)
    assert not [n for n in os.listdir(cowfs.folder) if "example" in n]


def test_examples_print_the_changes(cowfs):
    env = dict(cowfs.env, TMPDIR=str(cowfs.folder))
    env.pop("COWFS_STORE")
    result = cowfs.finish(
        cowfs.spawn([EXAMPLES / "01-mount-and-diff.sh"], env=env), 120)
    lines = result.out.splitlines()
    for want in ("A\tpages/news.html", "M\tstyle.css",
                 "R100\tpages/about.html\tpages/who-we-are.html"):
        assert want in lines, result
