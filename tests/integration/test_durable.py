# SPDX-License-Identifier: MIT
"""What survives the death of the server and the restart of the machine.

Another boot is a file mounted over the kernel's boot id, in the mount name
space of this test. What a machine that dies leaves on the disk is not shown
here: everything that was written is still there. But what was not committed
must not be used."""
import os
import subprocess
import time
import uuid

import pytest

import mountpoint
from mountpoint import wait_until

BOOT_ID = "/proc/sys/kernel/random/boot_id"
WRITE = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
os.write(fd, sys.argv[2].encode())
if len(sys.argv) > 3:
    os.fsync(fd)
"""


@pytest.fixture
def reboot(as_root, tmp_path):
    """A function: from its call on the machine has been restarted."""
    if not os.environ.get("COWFS_TESTS_ALONE"):
        pytest.skip("needs a mount name space of its own (support/alone)")
    mounted = []

    def again(store):
        if store.status().get("pid"):
            store.kill_server()
        wait_until(lambda: not mountpoint.processes_of(store.path), 10)
        file = tmp_path / f"boot-{len(mounted)}"
        file.write_text(f"{uuid.uuid4()}\n")
        subprocess.run(["mount", "--bind", file, BOOT_ID], check=True)
        mounted.append(file)

    yield again
    for _ in mounted:
        subprocess.run(["umount", BOOT_ID], check=True)


@pytest.fixture
def env(cowfs, tree):
    cowfs.load(tree)
    return cowfs.mount("base", "e")


def show(store):
    return dict(line.split(": ", 1)
                for line in store.run("show", "e").out.splitlines())


def test_what_was_fsynced_is_there_and_no_more(cowfs, env, reboot):
    cowfs.py(env, WRITE, "kept", "synced bytes", "fsync")
    cowfs.py(env, WRITE, "lost", "never synced")
    reboot(cowfs)
    assert cowfs.mount("e") == env
    assert cowfs.sh(env, "cat kept; echo; ls").out.split() == [
        "synced", "bytes", "a.txt", "b.txt", "big", "dangling", "empty", "gone",
        "kept", "link", "moved", "run.sh", "sparse", "src"]
    assert "the machine was restarted" in cowfs.log()
    cowfs.run("umount", "e", "--keep")
    assert cowfs.run("fsck").out == "0 problems\n"


def test_the_server_s_death_alone_loses_nothing(cowfs, env, reboot):
    cowfs.py(env, WRITE, "kept", "synced", "fsync")
    cowfs.py(env, WRITE, "too", "not synced")
    cowfs.kill_server()
    cowfs.mount("e")
    assert cowfs.sh(env, "cat too").out == "not synced"
    # ... but another boot does not trust it before it is committed
    reboot(cowfs)
    cowfs.mount("e")
    assert cowfs.sh(env, "cat kept; test -e too || echo gone").out == (
        "syncedgone\n")


def test_fsync_of_a_directory_and_o_sync(cowfs, env, reboot):
    cowfs.py(env, """
import os
os.mkdir('d'); open('d/f', 'w').write('in d'); os.rename('a.txt', 'd/a')
os.fsync(os.open('d', os.O_RDONLY))
""")
    reboot(cowfs)
    cowfs.mount("e")
    assert cowfs.sh(env, "cat d/f d/a; test ! -e a.txt").out == "in dalpha\n"
    cowfs.py(env, """
import os
fd = os.open('s', os.O_WRONLY | os.O_CREAT | os.O_SYNC)
os.write(fd, b'one'); os.write(fd, b'two')
fd = os.open('t', os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
os.write(fd, b'three')
""")
    reboot(cowfs)
    cowfs.mount("e")
    assert cowfs.sh(env, "cat s t").out == "onetwothree"


def test_everything_is_committed_after_some_seconds(cowfs, env, reboot):
    cowfs.py(env, WRITE, "later", "nobody asked")
    time.sleep(8)
    reboot(cowfs)
    cowfs.mount("e")
    assert cowfs.sh(env, "cat later").out == "nobody asked"


def test_umount_commits(cowfs, env, reboot):
    cowfs.py(env, WRITE, "kept", "by umount")
    cowfs.run("umount", "e", "--keep")
    reboot(cowfs)
    cowfs.mount("e")
    assert cowfs.sh(env, "cat kept").out == "by umount"


def test_sigterm_commits(cowfs, env, reboot):
    cowfs.py(env, WRITE, "kept", "by the end")
    os.kill(cowfs.server_pid(), 15)
    wait_until(lambda: not mountpoint.processes_of(cowfs.path), 20)
    reboot(cowfs)
    cowfs.mount("e")
    assert cowfs.sh(env, "cat kept").out == "by the end"


def test_volatile_says_so_and_waits_for_nothing(cowfs, env, reboot):
    assert show(cowfs)["fsync"] == "durable"
    cowfs.run("umount", "e", "--keep")
    cowfs.mount("--volatile", "e")
    assert show(cowfs)["fsync"] == "volatile"
    cowfs.py(env, WRITE, "f", "bytes", "fsync")
    reboot(cowfs)
    cowfs.mount("e")
    assert cowfs.sh(env, "test -e f || echo gone").out == "gone\n"
    assert show(cowfs)["fsync"] == "durable"


def test_content_in_the_journal_is_read_before_the_first_mount(cowfs, env,
                                                               reboot):
    """diff and a read-only look come first after the restart."""
    cowfs.py(env, WRITE, "f", "x" * 5000, "fsync")
    reboot(cowfs)
    data = cowfs.path / "envs/e/data"
    data.write_bytes(b"J" * data.stat().st_size)
    assert cowfs.run("fsck").out == "0 problems\n"
    assert cowfs.run("diff", "e").out == "A\tf\n"
    cowfs.mount("e")
    assert cowfs.sh(env, "cat f").out == "x" * 5000


def test_room_comes_back(cowfs, env):
    """Build and clean: the disk holds little more than what is there."""
    def used():
        return sum(f.stat().st_blocks * 512
                   for f in (cowfs.path / "envs/e").iterdir())

    for i in range(12):
        cowfs.sh(env, """
mkdir out; for i in $(seq 60); do
	head -c 200000 /dev/urandom > out/$i; done
rm -rf out""")
    cowfs.sh(env, "head -c 8000000 /dev/urandom > live; sync live")
    wait_until(lambda: used() <= 12_000_000, 15, "room")


def test_many_fsyncs_at_once(cowfs, env, reboot):
    """Each that returned is there: the commits are shared, not skipped."""
    cowfs.py(env, """
import os, threading
def run(n):
    fd = os.open(f'f{n}', os.O_WRONLY | os.O_CREAT)
    for i in range(20):
        os.pwrite(fd, b'%03d' % i, 0); os.fsync(fd)
ts = [threading.Thread(target=run, args=(n,)) for n in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
""", limit=120)
    reboot(cowfs)
    cowfs.mount("e")
    assert cowfs.sh(env, "cat f?").out == "019" * 8


def test_a_compaction_while_mounted(cowfs, env):
    rows = cowfs.sh(env, "ls -l | wc -l").out
    cowfs.py(env, """
import os
for i in range(9000):
    os.utime('a.txt', ns=(1, i)); os.chmod('a.txt', 0o600 + i % 2)
os.chmod('a.txt', 0o644)
""", limit=120)
    assert (cowfs.path / "envs/e/journal").stat().st_size > 0
    wait_until(lambda: (cowfs.path / "envs/e/journal").stat().st_size < 1 << 20,
               15, "a short journal")
    assert not (cowfs.path / "envs/e/journal.new").exists()
    cowfs.sh(env, "echo more > more")
    cowfs.kill_server()
    cowfs.mount("e")
    assert cowfs.sh(env, "cat more a.txt").out == "more\nalpha\n"
    cowfs.sh(env, "rm more")
    assert cowfs.sh(env, "ls -l | wc -l").out == rows
    cowfs.run("umount", "e", "--keep")
    assert cowfs.run("fsck").out == "0 problems\n"
