# SPDX-License-Identifier: MIT
"""What a power cut leaves of an environment that was new: a folder whose file
`env` is empty. It goes by itself; damage of the same kind does not."""
import os

import pytest


@pytest.fixture
def killed(cowfs, tree):
    """Returns a function: mounts "e", has something done, kills the server
    and empties the file `env`, as after a power cut."""
    def make(script):
        cowfs.load(tree)
        cowfs.sh(cowfs.mount("base", "e"), script)
        cowfs.kill_server()
        file = cowfs.path / "envs/e/env"
        os.truncate(file, 0)
        return file
    return make


@pytest.mark.parametrize("script", [":", "echo x > new; rm -r gone"])
def test_a_new_environment_is_cleared_away(cowfs, killed, script):
    killed(script)
    result = cowfs.run("fsck")
    assert "never committed" in result.out and "0 problems" in result.out
    assert cowfs.run("--json", "ps").out == ""
    cowfs.run("mount", "base", "other")
    assert os.listdir(cowfs.path / "envs") == ["other"]


@pytest.mark.parametrize("how", [lambda f: os.truncate(f, 200), os.unlink])
def test_zeros_are_as_good_as_nothing(cowfs, killed, how):
    how(killed(":"))
    cowfs.run("gc")
    assert os.listdir(cowfs.path / "envs") == []


def test_what_was_committed_is_damage(cowfs, killed):
    killed("echo x > new; sync new")
    result = cowfs.run("fsck", expect=1)
    assert "E3: envs/e" in result.out
    cowfs.run("gc", expect=3)
    cowfs.mount("base", "other")
    assert sorted(os.listdir(cowfs.path / "envs")) == ["e", "other"]
    cowfs.run("umount", "other", "--discard")
    (cowfs.path / "envs/e/env").unlink()
    (cowfs.path / "envs/e/journal").unlink()
    os.rename(cowfs.path / "envs/e", cowfs.path / "trash/e")


def lose_beginning(store):
    """The journal's first sector never reached the disk."""
    with open(store.path / "envs/e/journal", "r+b") as f:
        f.write(bytes(512))


def test_a_journal_that_was_never_committed_counts_as_none(cowfs, tree):
    cowfs.load(tree)
    cowfs.sh(cowfs.mount("base", "e"),
             "rm -r gone; seq 300 > new; chmod 600 src/*")
    cowfs.kill_server()
    lose_beginning(cowfs)
    cowfs.run("fsck")
    assert cowfs.sh(cowfs.mount("e"), "ls -d gone").out == "gone\n"


def test_a_journal_that_lost_its_beginning_is_damage(cowfs, tree):
    cowfs.load(tree)
    cowfs.sh(cowfs.mount("base", "e"),
             "rm -r gone; seq 300 > new; chmod 600 src/*; sync new; rm new")
    cowfs.kill_server()
    lose_beginning(cowfs)
    assert "E7: envs/e" in cowfs.run("fsck", expect=1).out
    cowfs.run("mount", "e", expect=3)
    os.rename(cowfs.path / "envs/e", cowfs.path / "trash/e")
