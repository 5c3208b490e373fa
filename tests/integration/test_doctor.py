# SPDX-License-Identifier: MIT
"""doctor: each thing that can be left over or broken is made, named, and
cleared by --fix without losing work; then there are no problems."""
import ctypes
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import mountpoint
import pytest
from conftest import skip_unless, user_command
from helpers import PYTHON, wait_until


def doctor(store, *args):
    """The findings about this store. doctor looks at the whole machine,
    where other tests may be killing servers at this moment; so the exit code
    is compared with the last line, not with what is found of this store."""
    result = store.run("doctor", *args, expect=None)
    last = result.lines()[-1]
    assert last.endswith(" problems"), result
    assert result.code == (0 if last == "0 problems" else 1), result
    found = [r for r in result.lines() if r.startswith("problem: ")]
    assert len(found) == int(last.split()[0]), result
    result.rows = [r for r in result.lines() if not r.startswith("note: ")
                   and (str(store.folder) in r or ": server: " in r
                        or ": e: " in r)]
    return result


def problems(store):
    return [r for r in doctor(store).rows if r.startswith("problem: ")]


def fixed(store):
    """What --fix cleared; nothing may remain then."""
    result = doctor(store, "--fix")
    assert not [r for r in result.rows if r.startswith("problem: ")], result
    assert problems(store) == []
    return [r for r in result.rows if r.startswith("fixed: ")]


def test_nothing_is_found_in_good_order(cowfs, tree):
    cowfs.load(tree)
    assert problems(cowfs) == []
    point = cowfs.mount("base", "e")
    assert problems(cowfs) == []
    cowfs.sh(point, "echo x > new")
    cowfs.run("umount", "e", "--keep")
    assert problems(cowfs) == []
    cowfs.run("daemon", "stop")
    assert problems(cowfs) == []


@pytest.fixture
def changed(cowfs, tree):
    """An environment that is mounted and has a change, which must be there
    when all is over."""
    cowfs.load(tree)
    cowfs.point = cowfs.mount("base", "e")
    cowfs.sh(cowfs.point, "echo x > new")
    yield cowfs
    assert cowfs.sh(cowfs.mount("e"), "cat new").out == "x\n"
    assert problems(cowfs) == []


def kill_all(store):
    """All at once: a server that outlives its keeper tidies up."""
    pids = mountpoint.processes_of(store.path)
    for signum in signal.SIGSTOP, signal.SIGKILL:
        for pid in pids:
            os.kill(pid, signum)
    wait_until(lambda: not mountpoint.processes_of(store.path), 10)


def keeper_pid(store):
    server = store.server_pid()
    return [p for p in mountpoint.processes_of(store.path) if p != server][0]


@pytest.mark.parametrize("by", ["its path", "a symlink"])
def test_what_a_crash_left(changed, as_root, by):
    kill_all(changed)
    if by == "a symlink":
        (changed.folder / "link").symlink_to(changed.path)
        changed.env["COWFS_STORE"] = str(changed.folder / "link")
    found = problems(changed)
    point = f"problem: {changed.point}: a mount that nobody serves"
    assert point in found and len(found) >= 3, found
    assert any("still a mount, but no server runs" in r for r in found), found
    assert any("socket of a server that has ended" in r for r in found), found
    assert f"fixed: {changed.point}: a mount that nobody serves" in fixed(
        changed)
    assert not mountpoint.mounts_below(changed.folder)
    changed.env["COWFS_STORE"] = str(changed.path)


@pytest.mark.parametrize("which", ["server", "keeper"])
def test_a_stopped_process_goes_on(changed, which):
    pid = (changed.server_pid if which == "server"
           else lambda: keeper_pid(changed))()
    os.kill(pid, signal.SIGSTOP)
    try:
        t0 = time.monotonic()
        found = problems(changed)
        assert time.monotonic() - t0 < 4
        assert found == [f"problem: server: process {pid} is stopped, what "
                         "uses its mounts hangs; \"kill -CONT "
                         f"{pid}\" lets it go on"]
        assert len(fixed(changed)) == 1
    finally:
        os.kill(pid, signal.SIGCONT)
    assert changed.sh(changed.point, "cat new").out == "x\n"
    changed.mount("base", "f")
    changed.run("umount", "f")


def test_a_mount_that_somebody_took_away(changed, as_root):
    """A copy in another mount name space keeps its connection alive."""
    copy = changed.spawn(["unshare", "-m", "--propagation", "private", "sh",
                          "-c", "echo ready; exec sleep 60"])
    assert copy.stdout.readline() == b"ready\n"
    assert mountpoint.umount2(changed.point, mountpoint.MNT_DETACH) == 0
    try:
        assert problems(changed) == [
            'problem: e: its mount is broken; "cowfs mount e" brings it back']
        assert len(fixed(changed)) == 1
        assert changed.run("ps", "--json").json()[0]["state"] == "kept"
    finally:
        copy.kill()
        copy.communicate()


USER = """
set -e
mknod {folder}/fuse c 10 229
chmod 666 {folder}/fuse
mount --bind {folder}/fuse /dev/fuse
exec {user} sh -c '
cp -r {tree} {folder}/mine/tree
cowfs import {folder}/mine/tree -t base && cowfs mount base e
echo x > $COWFS_STORE/mnt/e/new
p=$(cowfs daemon status --json | jq .pid)
kill -9 $(cut -d " " -f 4 /proc/$p/stat) $p
until flock -n $COWFS_STORE/server.lock cowfs version; do sleep 0.1; done
cowfs doctor; cowfs doctor --fix; cowfs doctor
cowfs mount e && cat $COWFS_STORE/mnt/e/new
kill -STOP $(cowfs daemon status --json | jq .pid)
cowfs doctor; cowfs doctor --fix
cowfs umount e --discard; cowfs daemon stop; cowfs doctor' 2>&1
"""


def test_a_users_store(cowfs, as_root, tree):
    """The same without root: fusermount3 unmounts, the user's own server is
    continued."""
    skip_unless(shutil.which("jq"), "jq")
    argv = user_command(cowfs)
    mine = cowfs.folder / "mine"
    mine.mkdir()
    mine.chmod(0o777)
    env = {**cowfs.env, "COWFS_STORE": str(mine / "store"),
           "PATH": f"{cowfs.folder}/bin:{cowfs.env['PATH']}"}
    script = USER.format(folder=cowfs.folder, user=" ".join(argv[:-1]),
                         tree=tree)
    child = cowfs.spawn(["unshare", "-m", "timeout", "-s", "KILL", "60", "sh",
                         "-c", script], env=env)
    out = cowfs.finish(child, 70).out
    runs = re.findall(r"(note: kernel.*?\n)(\d+) problems\n", out, re.S)
    assert len(runs) == 6, out
    rows = [[r for r in run.splitlines() if str(mine) in r
             and not r.startswith("note")] for run, _ in runs]
    served = f"{mine}/store/mnt/e: a mount that nobody serves"
    assert "problem: " + served in rows[0], out
    assert "fixed: " + served in rows[1], out
    assert not rows[2] and not rows[5], out
    assert "\nx\n" in out
    assert "is stopped, what uses its mounts hangs" in runs[3][0], out
    assert "fixed: server: process" in runs[4][0], out


TRACER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
for tid in os.listdir(f"/proc/{sys.argv[1]}/task"):
    if libc.ptrace(16, int(tid), 0, 0):
        sys.exit(os.strerror(ctypes.get_errno()))
    os.waitpid(int(tid), 0x40000000)
print("stopped", flush=True)
time.sleep(60)
"""


def test_a_server_that_does_not_answer(changed, as_root):
    """Held by a debugger, it does not go on by itself: it is ended."""
    pid = changed.server_pid()
    tracer = changed.spawn([PYTHON, "-c", TRACER, str(pid)])
    try:
        assert tracer.stdout.readline() == b"stopped\n"
        reader = changed.start_inside(changed.point, ["cat", "b.txt"])
        found = problems(changed)
        assert len(found) == 1, found
        assert found[0].startswith(
            "problem: server: runs but does not answer"), found
        assert "--fix ends it" in found[0], found
        done = fixed(changed)
        assert any("its environments are kept" in r for r in done), done
    finally:
        tracer.kill()
        tracer.communicate()
    assert changed.finish(reader, 20).code != 0
    assert not mountpoint.mounts_below(changed.folder)


def take_fuse_descriptor(pid):
    """A duplicate of a process's /dev/fuse: the connection stays open."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            if os.readlink(f"/proc/{pid}/fd/{fd}") == "/dev/fuse":
                return libc.syscall(438, process, int(fd), 0)  # pidfd_getfd
    finally:
        os.close(process)
    raise AssertionError("no /dev/fuse")


def test_a_wedged_mount(changed, as_root):
    """Its server is gone, but a stray descriptor keeps the connection: who
    looks into it waits for ever."""
    stray = take_fuse_descriptor(changed.server_pid())
    assert stray >= 0
    kill_all(changed)
    reader = changed.start_inside(changed.point, ["ls"])
    with pytest.raises(subprocess.TimeoutExpired):
        reader.wait(1)
    t0 = time.monotonic()
    assert (f"problem: {changed.point}: a mount that nobody serves"
            in problems(changed))
    assert fixed(changed)
    assert time.monotonic() - t0 < 10
    assert changed.finish(reader, 20).code != 0
    assert not mountpoint.mounts_below(changed.folder)
    os.close(stray)


def test_a_store_that_is_being_repaired_is_no_problem(cowfs, tree):
    cowfs.load(tree)
    with open(cowfs.path / "server.lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        for args in ([], ["--fix"]):
            result = doctor(cowfs, *args)
            assert not result.rows, result
            assert "another command has the store for itself" in result.out


def test_left_sockets(cowfs, tree):
    cowfs.load(tree)
    for name in ("ctl.sock", "ctl.sock.new"):
        s = socket.socket(socket.AF_UNIX)
        s.bind(str(cowfs.path / name))
        s.close()
    found = problems(cowfs)
    assert len(found) == 2, found
    assert all("socket of a server that has ended" in r for r in found), found
    assert len(fixed(cowfs)) == 2
    assert not (cowfs.path / "ctl.sock").exists()


def test_left_files(cowfs, tree):
    """What lies there for more than 10 seconds, and only then."""
    cowfs.load(tree)
    (cowfs.path / "mnt/old").mkdir(parents=True)
    (cowfs.path / "trash").mkdir(exist_ok=True)
    (cowfs.path / "trash/1/deep").mkdir(parents=True)
    (cowfs.path / "trash/1/deep/file").write_text("x")
    half = cowfs.folder / "store.new-0123456789abcdef"
    half.mkdir()
    (half / "format").write_text("half")
    other = cowfs.folder / "store.new-mine"
    other.mkdir()
    found = problems(cowfs)
    assert [r for r in found if "mount point of nothing" in r] == found
    wait_until(lambda: len(problems(cowfs)) == 3, 20)
    found = "\n".join(problems(cowfs))
    assert "trash that nobody has emptied" in found
    assert "a store that was never finished" in found
    assert len(fixed(cowfs)) == 3
    assert os.listdir(cowfs.path / "trash") == []
    assert not half.exists() and other.exists()


def test_damage_is_named_and_not_mended(cowfs, tree):
    cowfs.load(tree)
    (cowfs.path / "index/data.mdb").write_bytes(b"garbage" * 1000)
    for args in ([], ["--fix"]):
        found = doctor(cowfs, *args).rows
        assert len(found) == 1 and found[0].startswith("problem: "), found
        assert "fsck --repair" in found[0], found
    cowfs.run("fsck", "--repair")
    assert problems(cowfs) == []


def test_json(changed, as_root):
    kill_all(changed)
    for args, kind in (([], "problem"), (["--fix"], "fixed")):
        result = changed.run("--json", "doctor", *args, expect=None)
        rows = result.json()
        assert all(set(r) == {"v", "kind", "what", "text"} for r in rows)
        assert [r for r in rows if r["what"] == changed.point] == [
            {"v": 1, "kind": kind, "what": changed.point,
             "text": "a mount that nobody serves"}]
        assert (result.code == 1) == ("problem" in {r["kind"] for r in rows})


def test_the_machine(plain):
    """Every part has its note, and what is missing comes with what to do."""
    notes = {}
    for row in plain.run("doctor", "--json", expect=None).json():
        notes.setdefault(row["what"], row["text"])
    for what in ("kernel", "libfuse", "/dev/fuse", "rights", "fusermount3",
                 "user_allow_other", "name spaces", "bubblewrap", "cgroups",
                 "overlay", "store", "server"):
        assert notes.get(what), notes
    assert os.uname().release in notes["kernel"]
    assert notes["libfuse"].split(",")[0].startswith("3."), notes
    env = {**plain.env, "PATH": "/nowhere"}
    child = plain.spawn([mountpoint.binary(), "doctor"], env=env)
    out = plain.finish(child, 30).out
    assert "note: fusermount3: not found in PATH: install" in out
    assert "note: bubblewrap: missing: install bubblewrap" in out


def test_the_device(plain, as_root):
    """In a /dev of its own: without the device, and without its rights."""
    def notes(setup):
        script = f"mount -t tmpfs tmpfs /dev; {setup}; exec cowfs doctor"
        child = plain.spawn(["unshare", "-m", "sh", "-c", script])
        return plain.finish(child, 30).out

    out = notes(":")
    assert "note: /dev/fuse: missing: as root, modprobe fuse; a c" in out, out
    out = notes("touch /dev/fuse; chmod 0 /dev/fuse; "
                "exec setpriv --reuid 65534 --clear-groups "
                f"--regid 65534 {plain_copy(plain)} doctor")
    assert ("note: /dev/fuse: no permission: as root, chmod 0666 /dev/fuse"
            in out), out


def plain_copy(store):
    return user_command(store)[-1]
