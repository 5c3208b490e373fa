# SPDX-License-Identifier: MIT
"""Environments survive: --keep, a restart of the server, its death."""
import os
import signal

import mountpoint
import pytest
from helpers import SUPPORT, PYTHON, wait_until

WORK = """
echo changed > a.txt
printf 'XYZ' | dd of=big bs=1 seek=300001 conv=notrunc status=none
truncate -s 100 b.txt
mkdir -p new/dir
seq 5000 > new/dir/seq
ln new/dir/seq new/hard
ln -s ../a.txt new/sym
mkfifo new/fifo
rm -r gone
mv moved elsewhere
mv src/f03.c elsewhere/renamed.c
chmod 640 src/f04.c
touch -d '1999-12-31 23:59:59.123456789Z' src/f05.c
setfattr -n user.k -v v src/f06.c
rm src/hard
: > zero
fallocate -l 1M room
"""
IDENTITY = """
for d, ds, fs in os.walk('.'):
    for n in sorted(ds + fs) + ['.']:
        p = os.path.join(d, n)
        s = os.lstat(p)
        print(p, s.st_ino, s.st_mode, s.st_nlink, s.st_uid, s.st_gid,
              s.st_size, s.st_mtime_ns, s.st_ctime_ns)
"""


def state(store, point):
    rows = store.inside(point, [PYTHON, SUPPORT / "listing.py", ".",
                                "--content"]).out
    return rows, "\n".join(sorted(
        store.py(point, IDENTITY).out.splitlines()))


def keep(store):
    store.run("umount", "e", "--keep")


def keep_and_restart(store):
    keep(store)
    store.run("daemon", "stop")
    assert not mountpoint.processes_of(store.path)


def kill(store):
    store.kill_server()


@pytest.mark.parametrize("how", [keep, keep_and_restart, kill])
def test_everything_comes_back(cowfs, tree, how):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, WORK)
    before = state(cowfs, point)
    changes = cowfs.run("diff", "e").out
    how(cowfs)
    assert cowfs.run("diff", "e").out == changes
    assert cowfs.mount("e") == point
    after = state(cowfs, point)
    assert after[0] == before[0]
    assert after[1] == before[1]
    # And it goes on: new numbers are new, old files can be changed.
    cowfs.sh(point, "echo more >> a.txt; : > another; "
                    "test $(stat -c %i another) -gt $(stat -c %i zero)")
    cowfs.sh(point, "rm another; cat a.txt")


def test_kept_environments_are_not_mounted_and_listed(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo x > new")
    cowfs.run("umount", "e", "--keep")
    assert point not in mountpoint.mounts_below(cowfs.folder)
    rows = cowfs.run("--json", "ps").json()
    assert [(r["name"], r["v"]) for r in rows] == [("e", 1)]
    cowfs.run("daemon", "stop")  # kept ones do not hold it


def test_killed_server_ends_calls_and_hangs_nobody(cowfs, tree):
    """ENOTCONN, within limits, for a process that works in the mount."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    worker = cowfs.start_inside(point, [PYTHON, "-uc", """
import os, sys, errno
n = 0
print('go', flush=True)
while True:
    try:
        with open(f'file{n}', 'w') as f:
            f.write(str(n))
        os.rename(f'file{n}', f'done{n}')
    except OSError as e:
        print(n, errno.errorcode[e.errno], flush=True)
        sys.exit(0)
    n += 1
"""], 60)
    assert worker.stdout.readline() == b"go\n"
    wait_until(lambda: cowfs.sh(point, "test -e done100; echo $?",
                                expect=None).out == "0\n", 20)
    cowfs.kill_server()
    result = cowfs.finish(worker, 20)
    count, error = result.out.split()
    assert error in ("ENOTCONN", "ECONNABORTED"), result
    # Everything acknowledged is there.
    cowfs.mount("e")
    names = cowfs.sh(point, "ls").out.split()
    for i in range(int(count)):
        assert f"done{i}" in names
    sample = range(0, int(count), 17)
    out = cowfs.sh(point, "; ".join(f"cat done{i}; echo" for i in sample)
                   or ":").out.split()
    assert out == [str(i) for i in sample]


def test_killed_server_while_nobody_looks(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo x > new")
    cowfs.kill_server()
    assert cowfs.run("diff", "e").out == "A\tnew\n"
    result = cowfs.run("umount", "e", "--discard")
    assert not result.out
    assert cowfs.run("--json", "ps").out == ""


def test_killed_keeper_leaves_nothing(cowfs, tree):
    """The server does not live on without its keeper for ever."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo x > new")
    server = cowfs.server_pid()
    others = [p for p in mountpoint.processes_of(cowfs.path) if p != server]
    for pid in others:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not mountpoint.processes_of(cowfs.path), 10,
               "the server ends as well")
    assert cowfs.sh(cowfs.mount("e"), "cat new").out == "x\n"


def test_sigterm_keeps(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo x > new")
    os.kill(cowfs.server_pid(), signal.SIGTERM)
    wait_until(lambda: not mountpoint.processes_of(cowfs.path), 10,
               "server and keeper end")
    assert not mountpoint.mounts_below(cowfs.folder)
    assert cowfs.sh(cowfs.mount("e"), "cat new").out == "x\n"


def test_numbers_do_not_go_back(cowfs, tree):
    cowfs.load(tree)
    seen = set()
    point = cowfs.mount("base", "e")
    for how in (keep, kill, keep_and_restart):
        for i in range(3):
            number = int(cowfs.sh(
                point, ": > f; stat -c %i f; rm f").out)
            assert number not in seen
            seen.add(number)
        how(cowfs)
        cowfs.mount("e")


def test_shared_mappings_are_in_the_kept_state(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.py(point, """
        with open('b.txt', 'r+b') as f:
            m = mmap.mmap(f.fileno(), 0)
            m[10:20] = b'0123456789'""")
    keep_and_restart(cowfs)
    cowfs.mount("e")
    assert cowfs.sh(point, "head -c 20 b.txt | tail -c 10").out == \
        "0123456789"
