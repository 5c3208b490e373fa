# SPDX-License-Identifier: MIT
"""Warm caches: no credentials come along, no link leads out."""
import os
import shutil

import pytest

from helpers import one_line_error
from warm_case import NPM, host_listing, put, refs, sh, warm  # noqa: F401

# --- secrets -----------------------------------------------------------------

SECRET = "hush" + "-token"
SECRETS = [
    ".npmrc", ".npm/_logs/2026.log", ".npm/.npmrc", ".cargo/credentials",
    ".cargo/credentials.toml", ".cargo/config.toml", ".cargo/config",
    ".m2/settings.xml", ".m2/settings-security.xml",
    ".m2/repository/settings.xml", ".config/pip/pip.conf", ".pip/pip.conf",
    ".cache/pip/pip.conf", ".cache/pip/other/x", ".gradle/gradle.properties",
    ".gradle/init.d/x.gradle", ".config/anything/token",
    ".cache/huggingface/token", ".cache/huggingface/stored_tokens",
    ".cache/ccache/ccache.conf", ".bundle/config", ".netrc",
    ".config/composer/auth.json", ".nuget/NuGet/NuGet.Config",
    ".nuget/packages/NuGet.Config", ".cache/composer/vcs/r/config",
    ".config/pypoetry/auth.toml", ".cache/pypoetry/virtualenvs/x",
    ".yarnrc.yml", ".yarn/berry/.yarnrc.yml", ".config/pnpm/rc",
    ".cargo/git/db/r-1/FETCH_HEAD", "go/pkg/mod/cache/vcs/r/config",
    ".config/go/env", ".cache/turbo/log", ".docker/config.json", ".ssh/id",
]
HARMLESS = [
    ".npm/_cacache/a", ".cargo/registry/src/r/credentials.rs",
    ".cargo/registry/src/r/config.toml", ".cargo/git/db/r-1/objects/x",
    ".m2/repository/org/settings.xml", ".cache/pip/wheels/pip.conf",
    ".gradle/caches/gradle.properties", ".cache/huggingface/hub/token",
    ".cache/ccache/0/x", ".bundle/cache/x", ".nuget/packages/p/x",
    "go/pkg/mod/h/m@v1/config", ".cache/go-build/00/x", ".cache/uv/w/x",
]


def test_no_credentials_come_along(warm):
    """Of what lies beside caches nothing does; files of the same names deep
    in a cache are somebody's sources."""
    put(warm.home, {name: SECRET + "\n" for name in SECRETS})
    put(warm.home, {name: "fine\n" for name in HARMLESS})
    warm.mount("base", "e")
    found = sh(warm, "e", "find . -type f -not -empty; true", "--warm").out
    found = {line[2:] for line in found.splitlines()}
    assert found >= set(HARMLESS)
    assert not found & set(SECRETS)
    assert SECRET not in sh(warm, "e", f"grep -r {SECRET} .; true").out
    for cache in refs(warm):
        if cache.startswith("cache:"):
            warm.run("mount", cache, "look")
            out = warm.inside(warm.path / "mnt/look",
                              ["grep", "-r", SECRET, "."], expect=None).out
            assert out == "", cache
            warm.run("umount", "look")


def test_an_explicit_import_leaves_them_out_too(warm):
    put(warm.home, {name: SECRET + "\n" for name in SECRETS
                    if not name.startswith(".m2/repository")})
    args = []
    for name in ("npm", "cargo", "gradle"):
        args += ["--cache", f"{name}={warm.home}/.{name}"]
    # The folder above the cache, by mistake.
    warm.run("import", *args, "--cache", f"maven={warm.home}/.m2")
    warm.mount("base", "e")
    assert SECRET not in sh(warm, "e", f"grep -r {SECRET} .; true").out


# --- links that lead out -----------------------------------------------------

def test_a_cache_that_is_a_link_is_not_taken_unasked(warm):
    put(warm.folder / "outside", {"_cacache/key": "outside\n"})
    shutil.rmtree(warm.home / ".npm")
    (warm.home / ".npm").symlink_to(warm.folder / "outside")
    (warm.home / ".gradle").symlink_to("/etc")
    (warm.home / "disk/pip/http").mkdir(parents=True)
    shutil.rmtree(warm.home / ".cache/pip")
    (warm.home / ".cache/pip").symlink_to(warm.home / "disk/pip")
    warm.mount("base", "e")
    result = sh(warm, "e", "ls -A", "--warm")
    assert result.out == ".cache\n.cargo\n"
    assert [line.split(": ")[2] for line in result.err.splitlines()] == \
        [f"{warm.home}/.npm", f"{warm.home}/.gradle"]
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "f")
    assert sh(warm, "f", f"cat {NPM}/key").out == "outside\n"


def test_a_link_in_a_cache_leads_nowhere_outside(warm):
    put(warm.folder / "host", {"secret": "s\n"})
    (warm.home / NPM / "out").symlink_to(warm.folder / "host")
    (warm.home / NPM / "etc").symlink_to("/etc")
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    result = sh(warm, "e", f"cat {NPM}/out/secret; echo x > {NPM}/out/made; "
                           f"echo x > {NPM}/etc/cowfs-made; "
                           f"ls {NPM}; true")
    assert result.out == "etc\nkey\nout\n"
    assert os.listdir(warm.folder / "host") == ["secret"]
    assert not os.path.exists("/etc/cowfs-made")


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("cache", [".npm", ".cargo", ".cache", ".m2"])
def test_a_cache_that_became_a_link(warm, cache, imported):
    """Made by a command inside, it guides neither the next sandbox nor who
    has the variables outside."""
    put(warm.folder / "host", {"secret": "s\n"})
    before = host_listing(warm.folder / "host")
    put(warm.home, {".cargo/bin/tool": "x"})
    if imported:
        warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    # The mount point of a tool chain is the sandbox's and stays.
    sh(warm, "e", f"rm -rf {cache}; mv {cache} aside 2>/dev/null; "
                  f"ln -sT {warm.folder}/host {cache}; true")
    warm.run("kill", "e")
    result = sh(warm, "e", f"ls {cache}/ 2>/dev/null; echo x > {cache}/made; "
                           "true")
    assert "secret" not in result.out
    assert host_listing(warm.folder / "host") == before
    child = warm.run("env", "e", expect=None)
    if child.code == 0:
        assert cache == ".cargo"
    else:
        assert one_line_error(child) and "leads out" in child.err
    assert host_listing(warm.folder / "host") == before


# --- the host stays read-only around them ------------------------------------

def test_a_tool_chain_on_path_shows_no_credentials(warm):
    """Of a folder on PATH its parent shows, too, where libraries lie."""
    far = warm.folder / "far"
    put(far, {"cargo/bin/tool": "#!/bin/sh\necho tool\n",
              "cargo/credentials.toml": SECRET, "cargo/lib/l": "l\n",
              "other/bin/other": "#!/bin/sh\ncat $(dirname $0)/../lib/l\n",
              "other/lib/l": "l\n"})
    for name in ("cargo/bin/tool", "other/bin/other"):
        (far / name).chmod(0o755)
    warm.env["PATH"] = f"{far}/cargo/bin:{far}/other/bin:" + warm.env["PATH"]
    warm.mount("base", "e")
    assert sh(warm, "e", f"tool; other; ls {far}/cargo").out == \
        "tool\nl\nbin\n"


def test_a_cache_inside_a_tool_chain_can_be_written(warm):
    put(warm.home, {".local/share/pnpm/pnpm": "#!/bin/sh\necho pnpm\n",
                    ".local/share/pnpm/store/v3/key": "s\n",
                    "go/pkg/mod/golang.org/toolchain@v1/go": "go\n",
                    "go/pkg/mod/golang.org/x/a": "a\n"})
    (warm.home / ".local/share/pnpm/pnpm").chmod(0o755)
    before = host_listing(warm.home)
    for env, options in (("e", []), ("f", ["--warm"])):
        warm.mount("base", env)
        store = ".local/share/pnpm/store/v3"
        result = sh(warm, env, f"mkdir -p {store} go/pkg/mod/golang.org/x; "
                               f"cat {store}/key; echo {env} > {store}/key; "
                               f"cat {store}/key; .local/share/pnpm/pnpm; "
                               "echo b > go/pkg/mod/golang.org/x/b; "
                               "cat go/pkg/mod/golang.org/toolchain@v1/go; "
                               "echo x > .local/share/pnpm/pnpm", *options,
                    expect=2)
        assert result.out == ("" if env == "e" else "s\n") + \
            f"{env}\npnpm\ngo\n"
    assert host_listing(warm.home) == before
