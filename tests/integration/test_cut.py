# SPDX-License-Identifier: MIT
"""umount --keep with the server, its keeper or the command killed at every
write and sync: what programs were told is there at the next mount.

The program is linked with tests/support/faults.c; client, server and keeper
count together in a file that they map. Cuts of commands that need no server
are unit tests (test_cut.c, test_fail_env.c).
"""
import os
import struct

import mountpoint
import pytest
from helpers import listing, wait_until

WRITE, SYNC = 1, 2
KILL, TEAR = 1, 2
LAYOUT = "IIIIqqII"  # struct shared of faults.c
PLACES_MAX = 500

WORK = """
echo changed > a.txt
printf 'XYZ' | dd of=big bs=1 seek=300001 conv=notrunc status=none
mkdir -p new/dir
seq 3000 > new/dir/seq
ln new/dir/seq new/hard
rm -r gone
mv moved elsewhere
setfattr -n user.k -v v src/f06.c
"""
# The last bytes reach the server no later than the umount; nobody is told so.
LATE = """
f = open('late', 'w+b')
f.truncate(50000)
print('made', flush=True)
m = mmap.mmap(f.fileno(), 50000)
m[:40000] = b'm' * 40000
m.flush()
print('synced', flush=True)
m[40000:] = b'l' * 10000
"""


class Faults:
    """The file that the processes under test count in."""

    def __init__(self, store):
        program = os.environ.get("COWFS_FAULTY_BIN")
        if not program:
            pytest.skip("needs COWFS_FAULTY_BIN")
        self.path = store.folder / "faults"
        self.path.write_bytes(bytes(4096))
        folder = store.folder / "bin"
        folder.mkdir()
        (folder / "cowfs").symlink_to(program)
        store.env["PATH"] = f"{folder}:{store.env['PATH']}"
        store.env["COWFS_FAULTS"] = str(self.path)

    def arm(self, what, nth):
        with open(self.path, "r+b") as f:
            f.write(struct.pack(LAYOUT, WRITE | SYNC, what, 0, 0, nth, 0, 1,
                                0))

    def disarm(self):
        """Ends it; says whether somebody was killed."""
        with open(self.path, "r+b") as f:
            size = struct.calcsize(LAYOUT)
            fields = struct.unpack(LAYOUT, f.read(size))
            f.seek(0)
            f.write(bytes(size))
        return bool(fields[-1])


def content(store, point):
    """What was there before the cut; the last file and the times of the
    directory that it is in aside."""
    return [row for row in listing(store, point, "--content")
            if not row.startswith(('[".",', '["./late",'))]


def settle(store):
    """A server that was killed takes its keeper along; what is left of them
    must not be asked while it ends."""
    status = store.run("daemon", "status", expect=None)
    if status.code != 0:
        wait_until(lambda: not mountpoint.processes_of(store.path), 10,
                   "keeper and server have ended")


def assert_late(store, point, told):
    """What the program in the mount was told is there."""
    script = "print(open('late', 'rb').read().count(b'm'))"
    found = store.py(point, script, expect=None)
    if "made" in told:
        assert found.code == 0, found
    if "synced" in told:
        assert found.out == "40000\n"


def assert_sound(store):
    """A record that was never finished is left for the next mount."""
    checked = store.run("fsck", expect=None)
    assert checked.code == 0 or "E10" in checked.out, checked
    if checked.code != 0:
        store.run("daemon", "stop")
        assert store.run("fsck", "--repair").code == 0


def end_cut(store, faults, what, nth):
    """A life of an environment with its end cut; says whether it was."""
    point = store.mount("base", "e")
    store.sh(point, WORK)
    before = content(store, point)
    faults.arm(what, nth)
    told = store.py(point, LATE, expect=None).out
    store.run("umount", "e", "--keep", expect=None)
    store.run("daemon", "stop", expect=None)
    cut = faults.disarm()
    assert cut or "synced" in told
    settle(store)
    assert_sound(store)
    point = store.mount("e")
    assert_late(store, point, told)
    assert content(store, point) == before, f"{what} at {nth}"
    store.run("umount", "e", "--discard")
    store.run("daemon", "stop")
    assert store.run("fsck").out == "0 problems\n"
    return cut


def begin_cut(store, faults, what, nth):
    """Likewise with its beginning cut: it is there or it is not."""
    faults.arm(what, nth)
    store.run("mount", "base", "e", expect=None)
    cut = faults.disarm()
    settle(store)
    assert_sound(store)
    if store.run("show", "e", expect=None).code == 0:
        point = store.mount("e")
    else:
        point = store.mount("base", "e")
    store.sh(point, "cat a.txt; echo x > y")
    store.run("umount", "e", "--discard")
    store.run("daemon", "stop")
    assert store.run("fsck").out == "0 problems\n"
    return cut


def cut_everywhere(store, tree, life, what, step, at_least=8):
    """Cuts at every step-th place, killed and torn at different ones."""
    faults = Faults(store)
    store.load(tree)
    nth = what if step > 1 else 1
    while life(store, faults, what, nth):
        nth += step
        assert nth < PLACES_MAX
    print(f"{nth - 1} places")
    assert nth > at_least


@pytest.mark.parametrize("what", [KILL, TEAR])
@pytest.mark.parametrize("life", [begin_cut, end_cut])
def test_killed_at_a_write_or_sync(cowfs, tree, life, what):
    cut_everywhere(cowfs, tree, life, what, 4)


@pytest.mark.long
@pytest.mark.parametrize("what", [KILL, TEAR])
@pytest.mark.parametrize("life", [begin_cut, end_cut])
def test_killed_at_any_write_or_sync(cowfs, tree, life, what):
    cut_everywhere(cowfs, tree, life, what, 1)
