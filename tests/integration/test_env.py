# SPDX-License-Identifier: MIT
"""env: variables that keep caches in an environment."""
import os
import shutil

import pytest

from conftest import skip_unless
from helpers import one_line_error


@pytest.fixture
def caches(cowfs, tree):
    cowfs.load(tree)
    cowfs.point = cowfs.mount("base", "e")
    cowfs.home = cowfs.path / "envs/e/box/home"
    return cowfs


def rows(store, *args):
    return {r["name"]: r["value"]
            for r in store.run("--json", "env", "e", *args).json()}


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish"])
def test_a_shell_reads_it(caches, shell):
    skip_unless(shutil.which(shell), shell)
    load = ("cowfs env e --shell fish | source" if shell == "fish"
            else 'eval "$(cowfs env e)"')
    out = caches.finish(caches.spawn([shell, "-c", load + "; env -0"]), 30).out
    seen = dict(v.split("=", 1) for v in out.split("\0") if "=" in v)
    want = rows(caches)
    assert len(want) > 25
    assert {k: seen.get(k) for k in want} == want


def test_quotes_in_the_path(cowfs, tree):
    cowfs.path = cowfs.folder / "it's a \\ $HOME store"
    cowfs.env["COWFS_STORE"] = str(cowfs.path)
    cowfs.load(tree)
    cowfs.mount("base", "e")
    for shell, load in (("sh", 'eval "$(cowfs env e)"'),
                        ("fish", "cowfs env e --shell fish | source")):
        if shutil.which(shell):
            out = cowfs.finish(cowfs.spawn(
                [shell, "-c", load + "; printenv PIP_CACHE_DIR"]), 30).out
            assert out == f"{cowfs.path}/envs/e/box/home/.cache/pip\n"


def test_all_paths_are_in_the_environment(caches):
    home = str(caches.home)
    for name, value in rows(caches, "--home").items():
        path = value.partition("=")[2] if name == "MAVEN_OPTS" else value
        if path.startswith("/"):
            assert path == home or path.startswith(home + "/"), name
        else:
            assert name in ("COWFS_ENV", "npm_config_update_notifier",
                            "npm_config_logs_max",
                            "PIP_DISABLE_PIP_VERSION_CHECK",
                            "NEXT_TELEMETRY_DISABLED"), name
    assert "HOME" not in rows(caches)
    assert os.path.isdir(rows(caches)["TMPDIR"])


TOOLS = {
    "npm": ["npm", "config", "get", "cache"],
    "pip": ["pip", "cache", "dir"],
    "go": ["go", "env", "GOCACHE"],
    "ccache": ["ccache", "-k", "cache_dir"],
}


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_follow_it(caches, tool):
    skip_unless(shutil.which(tool), tool)
    result = caches.finish(caches.spawn(
        TOOLS[tool], env={**caches.env, **rows(caches)}, cwd="/"), 240)
    assert result.out.startswith(str(caches.home) + "/"), result


def test_run_has_the_same_places(caches):
    skip_unless(shutil.which("bwrap"), "bwrap")
    caches.run("run", "e", "--", "sh", "-c",
               "mkdir -p ~/.cache/pip; echo x > ~/.cache/pip/f")
    with open(rows(caches)["PIP_CACHE_DIR"] + "/f") as f:
        assert f.read() == "x\n"


def test_it_goes_with_the_environment(caches):
    rows(caches)
    caches.run("umount", "e")
    assert not caches.home.exists()


def test_a_link_leads_nowhere(caches):
    rows(caches)
    shutil.rmtree(caches.home / ".cache")
    (caches.home / ".cache").symlink_to(caches.folder)
    caches.run("env", "e", expect=3)
    assert not (caches.folder / "tmp").exists()


def test_failures(caches):
    assert one_line_error(caches.run("env", "nowhere", expect=3))
    assert one_line_error(caches.run("env", "e", "--shell", "tcsh", expect=2))
    assert one_line_error(caches.run("env", "a/b", expect=2))
