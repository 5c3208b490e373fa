# SPDX-License-Identifier: MIT
"""gitrepo.py - git as tests run it, on the host and in environments: with
these settings, and nobody's own."""
import os
import subprocess

import pytest

GIT = dict(GIT_AUTHOR_NAME="t", GIT_AUTHOR_EMAIL="t@example.invalid",
           GIT_COMMITTER_NAME="t", GIT_COMMITTER_EMAIL="t@example.invalid",
           GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null",
           GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="protocol.file.allow",
           GIT_CONFIG_VALUE_0="always", GIT_EDITOR="true")


def git(repo, *args, settings=GIT, **kw):
    """On the host; returns what it printed."""
    return subprocess.run(["git", "-C", repo, *args], check=True,
                          env=dict(os.environ, **settings),
                          capture_output=True, text=True, **kw).stdout


@pytest.fixture
def env(cowfs):
    cowfs.env.update(GIT)
    return cowfs
