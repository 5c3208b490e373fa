# SPDX-License-Identifier: MIT
"""Quotas with the tools that people use: what does not fit is refused in its
call, nothing earlier is lost, and there is always a way out. --ro."""
import os
import signal

import mountpoint
import pytest
from helpers import listing

KIB, MIB = 1 << 10, 1 << 20
FULL = "Disk quota exceeded"


def row(store, env="e"):
    return store.run("--json", "show", env).json()[0]


def df(store, point, inodes=False):
    """[size, used, available]: KiB, or inodes."""
    fields = "itotal,iused,iavail" if inodes else "size,used,avail"
    out = store.inside(point, ["df", "-k", f"--output={fields}", "."]).out
    return [int(n) for n in out.splitlines()[1].split()]


@pytest.fixture
def point(cowfs, tree):
    """The mount point of an environment "e" of 1 MiB and 20 inodes."""
    cowfs.load(tree)
    return cowfs.mount("base", "e", "--quota", "1M,20")


# --- what is refused -------------------------------------------------------

def test_dd_fills_it_to_the_block_and_df_agrees(cowfs, point):
    assert df(cowfs, point) == [1024, 0, 1024]
    assert df(cowfs, point, inodes=True) == [20, 0, 20]
    result = cowfs.sh(point, "dd if=/dev/zero of=f bs=4k count=1000",
                      expect=1)
    assert FULL in result.err and "256+0 records out" in result.err
    assert df(cowfs, point) == [1024, 1024, 0]
    assert df(cowfs, point, inodes=True) == [20, 1, 19]
    assert row(cowfs)["used"] == MIB and row(cowfs)["used_inodes"] == 1
    # A block of the snapshot is copied by the first write to it.
    result = cowfs.sh(point, "printf x | dd of=big conv=notrunc", expect=1)
    assert FULL in result.err
    cowfs.sh(point, "rm f; printf x | dd of=big conv=notrunc status=none")
    assert df(cowfs, point) == [1024, 4, 1020]


def test_every_call_that_grows_says_so(cowfs, point):
    """And leaves what was there as it was."""
    out = cowfs.py(point, """
        with open('full', 'wb') as f:
            f.write(bytes(1 << 20))
        def call(what, fn, *args):
            try:
                fn(*args)
                print(what, 'done')
            except OSError as e:
                print(what, errno.errorcode[e.errno])
        fd = os.open('new', os.O_RDWR | os.O_CREAT)
        call('write', os.write, fd, b'x')
        call('allocate', os.posix_fallocate, fd, 0, 4096)
        call('copy', os.copy_file_range, os.open('big', os.O_RDONLY), fd, 99)
        call('symlink', os.symlink, 'target', 'sym')
        call('xattr', os.setxattr, 'new', 'user.k', b'v')
        base = os.open('b.txt', os.O_RDWR)
        call('copy-up', os.pwrite, base, b'x', 3)
        call('longer', os.truncate, 'new', 1 << 30)
        call('mkdir', os.mkdir, 'd')
        call('link', os.link, 'new', 'new2')
        call('rename', os.rename, 'new2', 'new3')
        call('in place', os.pwrite, os.open('full', os.O_WRONLY), b'yy', 9)
        call('shorter', os.truncate, 'full', 4096)
        call('write', os.pwrite, fd, b'x', 0)
        for i in range(30):
            try:
                os.close(os.open(f'n{i}', os.O_CREAT | os.O_WRONLY))
            except OSError as e:
                print(i, errno.errorcode[e.errno])
                break
        call('mkdir', os.mkdir, 'd2')
        call('unlink', os.unlink, 'n0')
        call('mkdir', os.mkdir, 'd2')
    """).out.split("\n")
    assert out[:-1] == [
        "write EDQUOT", "allocate EDQUOT", "copy EDQUOT", "symlink EDQUOT",
        "xattr EDQUOT", "copy-up EDQUOT", "longer done", "mkdir done",
        "link done", "rename done", "in place done", "shorter done",
        "write done", "17 EDQUOT", "mkdir EDQUOT", "unlink done",
        "mkdir done"]
    assert cowfs.sh(point, "head -c 10 b.txt").out == "beta\nbeta\n"


def test_what_was_just_deleted_makes_room(cowfs, point):
    """Though others keep the server busy: the kernel's word that a file is
    gone may come after the request for the next one."""
    cowfs.py(point, """
        for i in range(20):
            open(f'f{i}', 'x').close()
        others = []
        for _ in range(3):
            others.append(os.fork())
            if not others[-1]:
                while True:
                    os.utime('b.txt')
        try:
            for i in range(2000):
                os.unlink('f3')
                open('f3', 'x').close()
                os.unlink('f4')
                os.mkdir('f4')
                os.rmdir('f4')
                os.symlink('x', 'f4')
        finally:
            for pid in others:
                os.kill(pid, 9)
                os.wait()
    """)


def test_a_shared_mapping_learns_it_in_msync_and_fsync(cowfs, point):
    out = cowfs.py(point, """
        for call in ('msync', 'fsync'):
            fd = os.open(call, os.O_RDWR | os.O_CREAT)
            os.ftruncate(fd, 2 << 20)
            m = mmap.mmap(fd, 2 << 20)
            m[:] = b'm' * (2 << 20)
            try:
                m.flush() if call == 'msync' else os.fsync(fd)
                print('done')
            except OSError as e:
                print(errno.errorcode[e.errno])
            del m
            os.close(fd)
            os.unlink(call)
    """).out.split()
    assert out == ["EDQUOT", "EDQUOT"]
    cowfs.sh(point, "echo more > x; sync x")


def test_it_is_unmounted_with_pages_that_do_not_fit(cowfs, point):
    """Nobody asked for them with msync; the rest is kept."""
    cowfs.py(point, """
        with open('f', 'wb') as f:
            f.write(bytes([7]) * (1 << 20))
        fd = os.open('m', os.O_RDWR | os.O_CREAT)
        os.ftruncate(fd, 1 << 20)
        m = mmap.mmap(fd, 1 << 20)
        m[:] = b'm' * (1 << 20)
    """)
    cowfs.run("umount", "e", "--keep")
    assert cowfs.mount("e") == point
    assert row(cowfs)["used"] == MIB
    assert cowfs.sh(point, "tr -d '\\007' < f | wc -c; wc -c < m").out == \
        "0\n1048576\n"


def test_removed_and_open_counts_until_it_is_closed(cowfs, point):
    cowfs.py(point, """
        fd = os.open('f', os.O_RDWR | os.O_CREAT)
        os.write(fd, bytes(1 << 20))
        os.unlink('f')
        other = os.open('g', os.O_RDWR | os.O_CREAT)
        try:
            os.write(other, b'x')
            sys.exit(1)
        except OSError as e:
            assert e.errno == errno.EDQUOT
        os.close(fd)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                os.write(other, b'x')
                sys.exit(0)
            except OSError as e:
                assert e.errno == errno.EDQUOT
                time.sleep(0.01)
        sys.exit(2)
    """)
    assert row(cowfs)["used"] == 4 * KIB


# --- the way out -----------------------------------------------------------

def test_it_is_changed_live(cowfs, point):
    fill = "dd if=/dev/zero of=f bs=64k count=100 2>&1 | grep -c exceeded"
    cowfs.sh(point, fill)
    cowfs.run("set", "e", "--quota", "3M")
    assert row(cowfs)["quota"] == 3 * MIB
    assert row(cowfs)["quota_inodes"] == 20  # was not spoken of
    cowfs.sh(point, fill)
    assert row(cowfs)["used"] == 3 * MIB
    cowfs.run("set", point + "/src", "--quota", "64K,none")
    assert "quota_inodes" not in row(cowfs)
    assert df(cowfs, point)[::2] == [64, 0]
    cowfs.sh(point, "test $(stat -c %s f) = 3145728; rm -r src; "
                    "truncate -s 60k f; printf x > n")
    cowfs.run("set", "e", "--quota", "none")
    assert "quota" not in row(cowfs)
    cowfs.sh(point, "dd if=/dev/zero of=f bs=1M count=5 status=none")


@pytest.mark.parametrize("value", [
    "12xyz", "", "0", "1M,", "1M,x", "1M,0", "1M,-1", "1.5M", ",5", "none,x",
    "9999999T", "1M,2,3"])
def test_what_makes_no_sense_is_usage(cowfs, point, value):
    for command in (["set", "e"], ["mount", "base", "x"]):
        result = cowfs.run(*command, f"--quota={value}", expect=2)
        assert not result.out and result.err.startswith("cowfs "), result
    assert row(cowfs)["quota"] == MIB


def test_refusals_of_set(cowfs, point):
    assert "missing" in cowfs.run("set", "e", expect=2).err
    assert "unknown" in cowfs.run("set", "x", "--ttl", "1h", expect=3).err
    for value in ("0", "1w", "h", "999999999d", "-1"):
        cowfs.run("set", "e", f"--ttl={value}", expect=2)


def end_kept(store):
    store.run("umount", "e", "--keep")


def end_killed(store):
    store.kill_server()


def end_term(store):
    pid = store.server_pid()
    os.kill(pid, signal.SIGTERM)
    mountpoint.wait_until(lambda: not mountpoint.processes_of(store.path))


@pytest.mark.parametrize("end", [end_kept, end_killed, end_term])
def test_quota_and_use_survive(cowfs, point, end):
    cowfs.sh(point, """
        dd if=/dev/zero of=f bs=4k count=300 2> /dev/null || :
        ln f g; rm f; mv g a.txt
        printf y | dd of=big bs=1 seek=70000 conv=notrunc status=none || :
        setfattr -n user.a -v b src 2> /dev/null || :
        fallocate -p -o 8192 -l 8192 a.txt
        ln -s somewhere sym; mkdir d
    """)
    before = row(cowfs)
    files = listing(cowfs, point, "--content")
    assert 1000 * KIB < before["used"] <= MIB
    end(cowfs)
    kept = row(cowfs)
    assert cowfs.mount("e") == point
    after = row(cowfs)
    for key in ("quota", "quota_inodes", "used", "used_inodes"):
        assert before[key] == kept[key] == after[key], key
    assert listing(cowfs, point, "--content") == files
    assert FULL in cowfs.sh(point, "dd if=/dev/zero of=h bs=4k count=300",
                            expect=1).err
    cowfs.sh(point, "rm a.txt h")


def test_bounds_of_a_kept_environment(cowfs, point):
    cowfs.sh(point, "echo x > n")
    cowfs.run("umount", "e", "--keep")
    cowfs.run("set", "e", "--quota", "4K")
    rows = cowfs.run("--json", "ps").json()
    assert rows[0]["quota"] == 4 * KIB and "used" not in rows[0]
    assert row(cowfs)["used"] == 4 * KIB
    cowfs.mount("e")
    assert cowfs.run("--json", "ps").json()[0]["used"] == 4 * KIB
    assert FULL in cowfs.sh(point, "/bin/echo y > m", expect=1).err
    # mount of one that exists sets them, too, mounted or not
    assert cowfs.mount("e", "--quota", "8K") == point
    cowfs.sh(point, "echo y > m")
    cowfs.run("umount", "e", "--keep")
    cowfs.mount("e", "--quota", "2M,30")
    assert df(cowfs, point)[0] == 2048 and df(cowfs, point, inodes=True)[0] == 30


def test_it_is_told_in_words(cowfs, point):
    cowfs.sh(point, "dd if=/dev/zero of=f bs=4k count=3 status=none")
    lines = cowfs.run("show", "e").lines()
    assert "quota: 1.0 MiB, 20 inodes" in lines
    assert "used: 12.0 KiB, 1 inode" in lines
    head, line = cowfs.run("ps").lines()
    assert "QUOTA" in head and "1.0 MiB,20" in line and "12.0 KiB" in line


# --- programs that run into it ---------------------------------------------

def test_an_untar_runs_into_it(cowfs, tree, tmp_path):
    """Then some goes, and the rest fits."""
    big = tmp_path / "big"
    big.mkdir()
    for i in range(200):
        (big / f"f{i:03}").write_bytes(bytes([i]) * 20000)
    tar = tmp_path / "t.tar"
    assert cowfs.finish(cowfs.spawn(["tar", "--sort=name", "-cf", tar, "-C", big,
                                       "."]),
                        60).code == 0
    cowfs.load(tree)
    point = cowfs.mount("base", "e", "--quota", "2M")
    result = cowfs.sh(point, f"mkdir x; tar -xf {tar} -C x", expect=2)
    assert FULL in result.err
    # 20,000 bytes are five blocks; what tar got whole is whole.
    assert cowfs.sh(point, "cat x/f000 x/f050 | cksum").out == \
        cowfs.sh(big, "cat f000 f050 | cksum").out
    cowfs.sh(point, "find x -type f -empty | head -1 | grep -q .; "
                    "rm -r x; test ! -e x")
    assert row(cowfs)["used"] == 0
    cowfs.run("set", "e", "--quota", "5M")
    cowfs.sh(point, f"mkdir x; tar -xf {tar} -C x; diff -r x {big}")


def test_an_inode_quota_stops_an_untar(cowfs, tree, tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for i in range(120):
        (many / f"f{i:03}").write_text(f"{i}\n")
    cowfs.load(tree)
    point = cowfs.mount("base", "e", "--quota", "1G,100")
    result = cowfs.sh(point, f"cp -r {many} .", expect=1)
    assert result.err.count(FULL) == 21  # the directory is one
    cowfs.run("set", "e", "--quota", "1G,200")
    cowfs.sh(point, f"cp -r {many} . && diff -r many {many}")
    assert row(cowfs)["used_inodes"] == 121


def test_git_runs_into_it_and_goes_on(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e", "--quota", "2M")
    git = "git -c user.name=t -c user.email=t@t "
    cowfs.sh(point, f"git init -q .; git add src; {git}commit -qm one")
    result = cowfs.sh(point, "dd if=/dev/urandom of=r bs=64k count=40 "
                             "2> /dev/null || git add r", expect=None)
    assert result.code and (FULL in result.err or "quota" in result.err)
    cowfs.sh(point, "git fsck --strict; git log --oneline | grep -c one")
    cowfs.sh(point, f"rm -f r .git/index.lock; echo two > src/f00.c; "
                    f"git add src; {git}commit -qm two; git fsck --strict; "
                    "test $(git rev-list --count HEAD) = 2; git status")


SQLITE = """
import sqlite3
db = sqlite3.connect('t.db', isolation_level=None)
assert db.execute('pragma journal_mode=' + sys.argv[1]).fetchone()
db.execute('create table if not exists t(a integer primary key, b blob)')
done = db.execute('select count(*) from t').fetchone()[0]
try:
    for i in range(done, 400):
        db.execute('insert into t values(?, ?)', (i, bytes([i % 251]) * 9000))
        done = i + 1
except sqlite3.OperationalError as e:
    print('stopped', e)
print(done, flush=True)
db.close()
db = sqlite3.connect('t.db')
assert db.execute('pragma integrity_check').fetchone() == ('ok',)
rows = db.execute('select a, b from t order by a').fetchall()
assert len(rows) == done
assert all(b == bytes([a % 251]) * 9000 for a, b in rows)
"""


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_sqlite_runs_into_it_and_goes_on(cowfs, tree, mode):
    """What was committed is there; after a raise it takes the rest."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e", "--quota", "2M")
    out = cowfs.py(point, SQLITE, mode).out.split("\n")
    assert out[0].startswith("stopped"), out
    assert 10 < int(out[1]) < 400
    cowfs.run("set", "e", "--quota", "20M")
    assert cowfs.py(point, SQLITE, mode).out.split("\n")[0] == "400"


# --- the disk's reserve ----------------------------------------------------

def test_environments_leave_the_reserve_to_what_deletes(small_disk, tree):
    """Even when something else takes the rest of it, but for a little."""
    cowfs = small_disk
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    result = cowfs.sh(point, "dd if=/dev/zero of=f bs=64k count=2000",
                      expect=1)
    assert "No space left" in result.err
    room = os.statvfs(cowfs.path)
    free = room.f_bavail * room.f_frsize
    assert 3 * MIB <= free <= 5 * MIB, free
    assert df(cowfs, point)[2] < MIB // KIB
    # Names are small: what the last block left is soon gone.
    cowfs.sh(point, "i=0; while mkdir d$i 2> /dev/null; do i=$((i+1)); done; "
                    "test $i -lt 5000", limit=120)
    for grows in ("mkdir d", "ln -s x s", "ln b.txt l", "echo y > new",
                  "setfattr -n user.a -v b b.txt"):
        assert "No space" in cowfs.sh(point, grows, expect=None).err, grows
    # In place, and what deletes: with only a part of the reserve left.
    (cowfs.path / "other").write_bytes(bytes(free - MIB))
    cowfs.sh(point, "printf zz | dd of=f conv=notrunc status=none; "
                    "chmod 600 b.txt; mv src/f01.c src/g; rm -r src gone; "
                    "truncate -s 30M f; sync f")
    cowfs.run("umount", "e", "--keep")
    (cowfs.path / "other").unlink()
    cowfs.mount("e")
    cowfs.sh(point, "test $(stat -c %s f) = 31457280; rm f; "
                    "dd if=/dev/zero of=g bs=1M count=20 status=none")


# --- read-only -------------------------------------------------------------

def test_nothing_changes_read_only(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e", "--ro")
    assert row(cowfs)["read_only"] is True
    out = cowfs.py(point, """
        def call(what, fn, *args):
            try:
                fn(*args)
                print(what, 'done')
            except OSError as e:
                print(what, errno.errorcode[e.errno])
        call('create', os.open, 'n', os.O_CREAT | os.O_WRONLY)
        call('tmpfile', os.open, '.', os.O_TMPFILE | os.O_RDWR)
        call('open', os.open, 'a.txt', os.O_RDWR)
        call('mkdir', os.mkdir, 'd')
        call('symlink', os.symlink, 'a', 'b')
        call('link', os.link, 'a.txt', 'b')
        call('mkfifo', os.mkfifo, 'p')
        call('unlink', os.unlink, 'a.txt')
        call('rmdir', os.rmdir, 'src')
        call('rename', os.rename, 'a.txt', 'z')
        call('truncate', os.truncate, 'a.txt', 0)
        call('chmod', os.chmod, 'a.txt', 0)
        call('chown', os.chown, 'a.txt', 1, 1)
        call('utime', os.utime, 'a.txt')
        call('setxattr', os.setxattr, 'a.txt', 'user.k', b'v')
        call('removexattr', os.removexattr, 'a.txt', 'user.k')
        fd = os.open('big', os.O_RDONLY)
        call('allocate', os.posix_fallocate, fd, 0, 10)
        m = mmap.mmap(fd, 4096, prot=mmap.PROT_READ)
        call('read', lambda: m[5])
        call('map', mmap.mmap, fd, 4096, mmap.MAP_SHARED)
        call('fsync', os.fsync, fd)
    """).out.split("\n")
    refused = ("create tmpfile open mkdir symlink link mkfifo unlink rmdir "
               "rename truncate chmod chown utime setxattr removexattr")
    assert out[:-1] == [w + " EROFS" for w in refused.split()] + [
        "allocate EBADF", "read done", "map EACCES", "fsync done"]
    folder = cowfs.path / "envs/e"
    assert os.listdir(folder) == ["env"]
    # This time only; and not under the feet of who writes.
    cowfs.run("umount", "e", "--keep")
    cowfs.mount("e")
    assert row(cowfs)["read_only"] is False
    assert cowfs.run("mount", "e", "--ro", expect=4).err
    cowfs.sh(point, "echo x > n")
    cowfs.run("umount", "e", "--keep")
    cowfs.mount("e", "--ro")
    assert cowfs.sh(point, "cat n").out == "x\n"
    assert "Read-only" in cowfs.sh(point, "rm n", expect=1).err
