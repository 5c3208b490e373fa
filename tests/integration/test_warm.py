# SPDX-License-Identifier: MIT
"""Warm caches: snapshots of tools' caches become the HOME of environments."""
import os
import pathlib
import shutil
import signal

import pytest

import mountpoint
from conftest import skip_unless, user_command
from helpers import one_line_error, wait_until
from warm_case import (NPM, host_listing, names, put, refs, sh,  # noqa: F401
                       warm)

SECRET = "hush" + "-token"


def base36(n):
    digits = ""
    while n or not digits:
        n, d = divmod(n, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[d] + digits
    return digits


# --- import --cache ----------------------------------------------------------

def test_a_cache_that_was_imported_is_in_each_later_environment(warm):
    ids = warm.run("import", "--cache", f"npm={warm.home}/.npm", "--cache",
                   f"pip={warm.home}/.cache/pip").lines()
    assert len(ids) == 2 and all(len(i) == 48 for i in ids)
    for env in ("e", "f"):
        warm.mount("base", env)
        assert sh(warm, env, f"cat {NPM}/key .cache/pip/http/key; "
                             "ls .cargo", expect=None).out == "warm\np\n"
    assert names(warm) == ["e", "f"]


def test_a_cache_may_come_from_anywhere(warm):
    put(warm.folder / "elsewhere", {"_cacache/key": "other\n"})
    warm.run("import", "--cache", f"npm={warm.folder}/elsewhere")
    warm.mount("base", "e")
    assert sh(warm, "e", f"cat {NPM}/key").out == "other\n"


def test_the_json_of_caches(warm):
    rows = warm.run("--json", "import", "--cache", f"npm={warm.home}/.npm",
                    "--cache", f"cargo={warm.home}/.cargo").json()
    assert [r["ref"] for r in rows] == ["cache:npm", "cache:cargo"]
    assert [r["files"] for r in rows] == [1, 1]


@pytest.mark.parametrize("args, why", [
    (["--cache", "nmp=/tmp"], "nmp: unknown cache"),
    (["--cache", "xdg=/tmp"], "xdg: is not shared"),
    (["--cache", "next=/tmp"], "next: is not shared"),
    (["--cache", "npm"], "npm: not NAME=PATH"),
    (["--cache", "npm="], "npm=: not NAME=PATH"),
    (["--cache", "=/tmp"], "=/tmp: not NAME=PATH"),
    (["--cache", "npm=/no/such"], "/no/such: No such file"),
    (["--cache", "npm=/etc/passwd"], "/etc/passwd: not a directory"),
    (["--cache", "npm=/tmp", "/tmp"], "not together with PATH"),
    (["--cache", "npm=/tmp", "-t", "x"], "not together with PATH"),
    ([], "PATH: missing"),
])
def test_bad_caches(plain, args, why):
    result = plain.run("import", *args, expect=2)
    assert one_line_error(result) and why in result.err
    assert not plain.path.exists()


def test_nothing_is_imported_when_one_is_wrong(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm", "--cache",
             "pip=/no/such", expect=2)
    assert refs(warm) == ["base:latest"]


# --- one that lies in the folder for temporary files -------------------------

@pytest.mark.parametrize("user", [None, "65534"])
def test_jests_cache_is_where_jest_looks_for_it(warm, user):
    """By the number of who runs it, in base 36; it is private, and goes."""
    if user:
        skip_unless(os.geteuid() == 0, "root")
    name = "jest_1eke" if user else "jest_" + base36(os.geteuid())
    options = ("--user", user) if user else ()
    put(warm.folder / "elsewhere", {"haste-map-1": "warm\n"})
    warm.run("import", "--cache", f"jest={warm.folder}/elsewhere")
    for env in ("e", "f"):
        warm.mount("base", env)
        out = sh(warm, env, f"cat /tmp/{name}/haste-map-1; "
                            f"echo {env} > /tmp/{name}/haste-map-1; "
                            f"cat ~/.cache/tmp/{name}/haste-map-1; "
                            f"touch /tmp/{name}/new", *options).out
        assert out == f"warm\n{env}\n"
    assert (warm.folder / "elsewhere/haste-map-1").read_text() == "warm\n"


def test_without_it_jest_makes_its_own(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    assert sh(warm, "e", "ls -d /tmp/jest*; true").out == ""


def test_a_link_in_place_of_jests_cache_is_not_followed(warm):
    put(warm.folder / "elsewhere", {"haste-map-1": "warm\n"})
    warm.run("import", "--cache", f"jest={warm.folder}/elsewhere")
    warm.mount("base", "e")
    name = "jest_" + base36(os.geteuid())
    sh(warm, "e", f"cd .cache/tmp; rm -r {name}; ln -s /etc {name}")
    warm.run("kill", "e")
    assert sh(warm, "e", "ls -d /tmp/jest*; true").out == ""
    child = warm.run("env", "e", expect=None)
    assert child.code and "leads out" in child.err


def test_nobodys_jest_cache_is_taken_unasked(warm):
    """It has the sources of all that was tested."""
    put(warm.folder / "tmp", {"jest_" + base36(os.geteuid()) + "/x": "x\n"})
    warm.env["TMPDIR"] = str(warm.folder / "tmp")
    warm.mount("base", "e")
    sh(warm, "e", "true", "--warm")
    assert not [r for r in refs(warm) if "jest" in r]


# --- private copies ----------------------------------------------------------

def test_two_write_the_same_key_and_nobody_sees_it(warm):
    before = host_listing(warm.home)
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    for env in ("e", "f"):
        warm.mount("base", env)
        sh(warm, env, f"echo {env} > {NPM}/key; echo {env} > {NPM}/new")
    for env in ("e", "f"):
        assert sh(warm, env, f"cat {NPM}/key {NPM}/new").out == \
            f"{env}\n{env}\n"
    warm.mount("base", "g")
    assert sh(warm, "g", f"ls {NPM}; cat {NPM}/key").out == "key\nwarm\n"
    assert host_listing(warm.home) == before


def test_it_dies_with_the_environment(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    sh(warm, "e", f"echo changed > {NPM}/key; echo x > of-home")
    warm.run("kill", "e")
    assert sh(warm, "e", f"cat {NPM}/key of-home").out == "changed\nx\n"
    # What a HOME has is no work: nothing to rescue.
    warm.run("umount", "e")
    assert warm.run("rescue", "ls").out.count("\n") <= 1
    assert os.listdir(warm.path / "envs") == []
    assert os.listdir(warm.path / "mnt") == []
    warm.mount("base", "e")
    assert sh(warm, "e", f"cat {NPM}/key; ls").out == "warm\n"


def test_a_kept_one_keeps_its_home(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    sh(warm, "e", f"echo changed > {NPM}/key")
    warm.run("umount", "e", "--keep")
    assert os.listdir(warm.path / "mnt") == []
    warm.run("daemon", "stop")
    assert sh(warm, "e", f"cat {NPM}/key").out == "changed\n"


def test_a_later_import_is_for_later_environments(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    assert sh(warm, "e", f"cat {NPM}/key").out == "warm\n"
    (warm.home / NPM / "key").write_text("newer\n")
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "f")
    assert sh(warm, "e", f"cat {NPM}/key").out == "warm\n"
    assert sh(warm, "f", f"cat {NPM}/key").out == "newer\n"


def test_without_caches_home_is_a_folder(warm):
    warm.mount("base", "e")
    assert sh(warm, "e", "ls -A").out == ""
    assert os.listdir(warm.path / "mnt") == ["e"]
    assert (warm.path / "envs/e/box/home").is_dir()


def test_hard_links_stay_links(warm):
    os.link(warm.home / NPM / "key", warm.home / NPM / "twin")
    put(warm.home, {".cargo/registry/x": "x\n"})
    os.link(warm.home / ".cargo/registry/x", warm.home / ".cargo/registry/y")
    warm.run("import", "--cache", f"npm={warm.home}/.npm", "--cache",
             f"cargo={warm.home}/.cargo")
    warm.mount("base", "e")
    out = sh(warm, "e", f"echo t > {NPM}/twin; cat {NPM}/key; "
                        "echo y > .cargo/registry/y; cat .cargo/registry/x; "
                        f"stat -c %h {NPM}/key .cargo/registry/x").out
    assert out == "t\ny\n2\n2\n"


def test_caches_belong_to_whom_runs(as_root, warm):
    """Root without its rights could not read another one's files."""
    for top, dirs, files in os.walk(warm.home):
        for name in dirs + files:
            os.chown(os.path.join(top, name), 4321, 4321)
    (warm.home / NPM).chmod(0o700)
    (warm.home / NPM / "key").chmod(0o600)
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    warm.mount("base", "f")
    script = f"cat {NPM}/key; echo x > {NPM}/new; stat -c %u {NPM}/key"
    assert sh(warm, "e", script).out == "warm\n0\n"
    assert sh(warm, "f", script, "--user", "65534").out == "warm\n65534\n"


# --- run --warm --------------------------------------------------------------

def test_warm_takes_the_callers_own(warm):
    before = host_listing(warm.home)
    warm.mount("base", "e")
    script = f"cat {NPM}/key .cargo/registry/src/a/lib.rs .cache/pip/http/key"
    assert sh(warm, "e", script, "--warm").out == "warm\nr\np\n"
    assert refs(warm) == ["base:latest", "cache:cargo", "cache:npm",
                          "cache:pip"]
    assert host_listing(warm.home) == before
    result = warm.run("run", "--new", "base", "--warm", "--", "sh", "-c",
                      f"cat ~/{NPM}/key; echo x > ~/{NPM}/key")
    assert result.out == "warm\n"
    assert names(warm) == ["e"]


def test_warm_follows_the_callers_variables(warm):
    put(warm.folder / "far", {"_cacache/key": "far\n"})
    warm.env["npm_config_cache"] = str(warm.folder / "far")
    warm.mount("base", "e")
    put(warm.folder / "xdg", {"pip/wheels/key": "xdg\n"})
    warm.env["XDG_CACHE_HOME"] = str(warm.folder / "xdg")
    put(warm.folder / "gopath", {"pkg/mod/h/key": "go\n"})
    warm.env["GOPATH"] = str(warm.folder / "gopath")
    assert sh(warm, "e", f"cat {NPM}/key .cache/pip/wheels/key "
                         "go/pkg/mod/h/key", "--warm").out == "far\nxdg\ngo\n"


def test_warm_reads_only_what_changed(warm):
    """The second import opens no file that is as the first one saw it."""
    put(warm.home, {f"{NPM}/f{i}": "x" * 100 for i in range(300)})
    warm.mount("base", "e")
    sh(warm, "e", "true", "--warm")
    warm.run("umount", "e")
    (warm.home / NPM / "f7").write_text("new")
    warm.mount("base", "e")
    assert sh(warm, "e", f"cat {NPM}/f7 {NPM}/key", "--warm").out == \
        "newwarm\n"
    # Once warm it looks at nothing.
    (warm.home / NPM / "f7").write_text("newer")
    assert sh(warm, "e", f"cat {NPM}/f7", "--warm").out == "new"


def test_warm_after_a_plain_home(warm):
    warm.mount("base", "e")
    sh(warm, "e", "echo mine > mine")
    warm.run("kill", "e")
    result = warm.run("run", "--warm", "e", "--", "true", expect=125)
    assert one_line_error(result) and "made without caches" in result.err
    assert sh(warm, "e", "cat mine").out == "mine\n"
    assert refs(warm) == ["base:latest"]


def test_warm_without_any_cache(warm):
    shutil.rmtree(warm.home)
    warm.home.mkdir()
    warm.mount("base", "e")
    assert sh(warm, "e", "ls -A", "--warm").out == ""


# --- HOME outside ------------------------------------------------------------

def test_run_and_env_share_a_home(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    rows = {r["name"]: r["value"]
            for r in warm.run("--json", "env", "e").json()}
    home = f"{warm.path}/mnt/.e.home"
    assert rows["npm_config_cache"] == home + "/.npm"
    warm.sh(home, f"cat {NPM}/key; echo out > {NPM}/key; test -d .cache/tmp")
    assert sh(warm, "e", f"cat {NPM}/key").out == "out\n"


# --- umount, crashes, lists --------------------------------------------------

def test_who_uses_a_home_outside_makes_it_busy(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    sh(warm, "e", "true")
    home = f"{warm.path}/mnt/.e.home"
    for kill in (False, True):
        child = warm.start_inside(home, ["sh", "-c", "echo in; exec sleep 99"])
        assert child.stdout.readline() == b"in\n"
        if kill:
            result = warm.run("umount", "e", "--kill")
            assert "ended" in result.err
        else:
            result = warm.run("umount", "e", expect=4)
            assert "busy" in result.err and "sleep" in result.err
            assert names(warm) == ["e"]
            assert sh(warm, "e", f"cat {NPM}/key").out == "warm\n"
            child.send_signal(signal.SIGTERM)
        warm.finish(child, 10)
    assert names(warm) == []
    assert os.listdir(warm.path / "mnt") == []


def test_a_busy_environment_keeps_its_home(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    point = warm.mount("base", "e")
    sh(warm, "e", "true")
    child = warm.start_inside(point, ["sh", "-c", "echo in; exec sleep 99"])
    assert child.stdout.readline() == b"in\n"
    warm.run("umount", "e", expect=4)
    assert f"{warm.path}/mnt/.e.home" in mountpoint.mounts_below(warm.path)
    child.send_signal(signal.SIGTERM)
    warm.finish(child, 10)
    warm.run("umount", "e")


def test_the_server_is_killed(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    sh(warm, "e", f"echo changed > {NPM}/key; sleep 99 > /dev/null 2>&1 &")
    warm.kill_server()
    warm.run("doctor", "--fix")
    assert mountpoint.mounts_below(warm.path) == []
    assert sh(warm, "e", f"cat {NPM}/key").out == "changed\n"
    assert warm.run("doctor").lines()[-1] == "0 problems"
    warm.run("umount", "e")
    warm.run("daemon", "stop")
    assert os.listdir(warm.path / "mnt") == []
    assert warm.run("fsck").lines()[-1] == "0 problems"


def test_the_server_is_stopped_by_a_signal(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    sh(warm, "e", f"echo changed > {NPM}/key; sleep 99 > /dev/null 2>&1 &")
    os.kill(warm.server_pid(), signal.SIGTERM)
    wait_until(lambda: not mountpoint.processes_of(warm.path), 20)
    assert mountpoint.mounts_below(warm.path) == []
    assert not mountpoint.boxes_of(warm.path)
    assert sh(warm, "e", f"cat {NPM}/key").out == "changed\n"


def test_lists_do_not_have_it(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    sh(warm, "e", "true")
    assert names(warm) == ["e"]
    assert warm.status()["mounted"] == 1
    assert len(warm.run("ps").lines()) == 2
    assert warm.run("diff", "e").out == ""
    assert warm.run("doctor").lines()[-1] == "0 problems"
    result = warm.run("daemon", "stop", expect=4)
    assert "1 environment is mounted" in result.err


def test_gc_keeps_what_a_home_stands_on(warm):
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    for env in ("e", "kept"):
        warm.mount("base", env)
        sh(warm, env, "true")
    warm.run("umount", "kept", "--keep")
    warm.run("rm", "cache:npm")
    warm.run("settings", "grace-days", "0", expect=None)
    warm.run("gc")
    for env in ("e", "kept"):
        assert sh(warm, env, f"cat {NPM}/key").out == "warm\n"
    warm.mount("base", "f")
    assert sh(warm, "f", "ls -A").out == ""
    assert warm.run("fsck").lines()[-1] == "0 problems"
    warm.run("umount", "--all")
    assert ", 0 objects" not in warm.run("gc").out


def test_a_home_with_a_damaged_record(warm):
    """It is told by its name, put aside by a repair, and made anew."""
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    sh(warm, "e", "echo x > x")
    warm.run("umount", "e", "--keep")
    warm.run("daemon", "stop")
    file = warm.path / "envs/e/home/env"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    result = warm.run("fsck", expect=1)
    assert "E3: envs/e/home" in result.out, result
    result = warm.run("run", "e", "--", "true", expect=125)
    assert "e/home: cannot read" in result.err
    warm.run("umount", "e", "--keep")
    warm.run("daemon", "stop")
    warm.run("fsck", "--repair")
    assert sh(warm, "e", f"cat {NPM}/key; ls").out == "warm\n"


def test_an_unborn_home_goes(warm):
    """The machine died before its first commit: its record is empty."""
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    sh(warm, "e", "true")
    warm.run("umount", "e", "--keep")
    warm.run("daemon", "stop")
    (warm.path / "envs/e/home/env").write_bytes(b"")
    journal = warm.path / "envs/e/home/journal"
    if journal.exists():
        journal.write_bytes(b"")
    assert sh(warm, "e", f"cat {NPM}/key").out == "warm\n"


def test_five_at_once(warm):
    """Each imports, makes its HOME, writes its key; nobody waits for long."""
    children = [warm.spawn(
        ["cowfs", "run", "--new", "base", "--warm", "--", "sh", "-c",
         f"cd; cat {NPM}/key; echo {i} > {NPM}/key; sleep 1; cat {NPM}/key"])
        for i in range(5)]
    for i, child in enumerate(children):
        result = warm.finish(child, 60)
        assert (result.code, result.out) == (0, f"warm\n{i}\n"), result
    assert names(warm) == []
    assert os.listdir(warm.path / "mnt") == []


def test_as_an_ordinary_user(warm):
    skip_unless(os.geteuid() == 0, "root")
    home = warm.folder / "user"
    put(home, {NPM + "/key": "warm\n", ".cargo/credentials": SECRET})
    for top, dirs, files in os.walk(home):
        for name in dirs + files:
            os.chown(os.path.join(top, name), 65534, 65534)
    home.chmod(0o755)
    os.chown(home, 65534, 65534)
    command = user_command(warm)
    at = command.index(f"HOME={warm.folder}")
    command[at] = f"HOME={home}"
    command.insert(at, f"COWFS_STORE={home}/store")
    mode = os.stat("/dev/fuse").st_mode & 0o777

    def run(*args, expect=0):
        result = warm.finish(warm.spawn([*command, *map(str, args)]), 60)
        assert result.code == expect, result
        return result.out
    os.chmod("/dev/fuse", 0o666)
    try:
        run("import", warm.tree, "-t", "base")
        for env in ("e", "f"):
            run("mount", "base", env)
            assert run("run", "--warm", env, "--", "sh", "-c",
                       f"cd; cat {NPM}/key; echo {env} > {NPM}/key; "
                       "ls -A .cargo; true") == "warm\n"
        for env in ("e", "f"):
            assert run("run", env, "--", "sh", "-c",
                       f"cat ~/{NPM}/key") == f"{env}\n"
        assert (home / NPM / "key").read_text() == "warm\n"
        run("umount", "--all")
        run("daemon", "stop")
        assert os.listdir(home / "store/mnt") == []
    finally:
        os.chmod("/dev/fuse", mode)
        run("umount", "--all", "--discard")
        run("daemon", "stop")


def test_the_end_costs_milliseconds(warm):
    """Whatever the size of the caches: they are not copied."""
    put(warm.home, {f"{NPM}/{i % 50}/{i}": "x" for i in range(5000)})
    warm.run("import", "--cache", f"npm={warm.home}/.npm")
    warm.mount("base", "e")
    sh(warm, "e", "true")
    used = sum(f.stat().st_size
               for f in pathlib.Path(warm.path / "envs/e").rglob("*")
               if f.is_file())
    assert used < 64 << 10
    warm.run("umount", "e")
    assert os.listdir(warm.path / "envs") == []
