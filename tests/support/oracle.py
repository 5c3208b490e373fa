#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""oracle.py - carries out file system operations and says what came of them.

One such process works in the cowfs mount, another in a plain folder that was
copied from the same base; test_model.py sends both the same batches and
compares the answers. A batch is a list of (method, arguments...); each answer
is (value or errno name, what the touched paths look like now).

What is compared, and what is not:
- st_mtime exactly when it lies before the run (base files have old times, and
  utimens sets old ones only), else just as "recent": so a time that was set or
  that should have moved is seen, and the moment is not.
- the mtime of a FIFO not at all: what goes through it never reaches a file
  system, and for FUSE the kernel does not tell the time of it.
- chown(-1, -1) of a setuid file that is another's changes nothing; whether it
  is an error, FUSE's kernel does not leave to us.
- inode numbers as identity: a plain folder on tmpfs never uses a number again,
  so equal names for equal numbers must come out on both sides.
- not compared: atime, ctime, btime, sizes of directories, st_blocks, st_dev.
"""
import ctypes
import errno
import fcntl
import mmap
import os
import pickle
import stat
import struct
import sys
import time
import zlib

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400
OLD = time.time_ns() - 86400 * 10**9
SLOTS = 8


def check(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def fsb(path):
    return os.fsencode(path)


def pattern(seed, size):
    """Bytes that differ from one another and are cheap to make."""
    unit = struct.pack("<Q", seed * 0x9e3779b97f4a7c15 % 2**64)
    return (unit * (size // 8 + 1))[:size]


def fill(mapped, offset, data):
    """The kernel copies: a page that a dead server does not give is an error
    then, and no SIGBUS."""
    with open(os.memfd_create("data"), "w+b", buffering=0) as f, \
            memoryview(mapped) as whole, \
            whole[offset:offset + len(data)] as part:
        f.write(data)
        try:
            n = os.preadv(f.fileno(), [part], 0)
        except OSError as e:
            if e.errno != errno.EFAULT:
                raise
            n = -1
    if n != len(data):
        raise OSError(errno.ENOTCONN, "a mapped page cannot be had")


def pread(fd, size, offset):
    """A read ends early before a page that a dead server does not give: the
    next one says so."""
    data = b""
    while len(data) < size and (
            more := os.pread(fd, size - len(data), offset + len(data))):
        data += more
    return data


class Oracle:
    def __init__(self):
        self.fds = {}
        self.classes = {}

    # -- what a path looks like -------------------------------------------
    def identity(self, st):
        return self.classes.setdefault(st.st_ino, len(self.classes))

    def shape(self, st):
        mtime = st.st_mtime_ns if st.st_mtime_ns < OLD else "recent"
        if stat.S_ISFIFO(st.st_mode):
            mtime = "the kernel's"
        size = None if stat.S_ISDIR(st.st_mode) else st.st_size
        rdev = st.st_rdev if stat.S_IFMT(st.st_mode) in (
            stat.S_IFCHR, stat.S_IFBLK) else 0
        return (oct(st.st_mode), st.st_nlink, size, st.st_uid, st.st_gid,
                mtime, rdev, self.identity(st))

    def look(self, path):
        try:
            st = os.lstat(path)
        except OSError as e:
            return errno.errorcode[e.errno]
        kind = stat.S_IFMT(st.st_mode)
        names = sorted(os.listxattr(path, follow_symlinks=False))
        extra = [(n, os.getxattr(path, n, follow_symlinks=False))
                 for n in names]
        content = None
        if kind == stat.S_IFREG:
            with open(path, "rb") as f:
                data = f.read()
            content = (len(data), zlib.crc32(data))
        elif kind == stat.S_IFLNK:
            content = os.readlink(path)
        elif kind == stat.S_IFDIR:
            content = sorted(os.listdir(path))
        return (*self.shape(st), extra, content)

    def tree(self):
        rows, stack = {}, ["."]
        while stack:
            path = stack.pop()
            rows[path] = row = self.look(path)
            if row[0].startswith("0o4"):
                stack += [path + "/" + n for n in row[-1]]
        return rows

    def open(self, path, flags, mode=0o777):
        """A FIFO must not block, and whether a device may be opened is a
        matter of mount options: here never."""
        try:
            kind = os.lstat(path).st_mode
        except OSError:
            kind = 0
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            raise OSError(errno.ENXIO, "device")
        return os.open(path, flags | os.O_NONBLOCK, mode)

    # -- operations: return (value, touched paths) --------------------------
    def create(self, path, mode, seed, size):
        fd = self.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
        try:
            os.write(fd, pattern(seed, size))
        finally:
            os.close(fd)

    def rewrite(self, path, seed, size):
        fd = self.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
        try:
            os.write(fd, pattern(seed, size))
        finally:
            os.close(fd)

    def pwrite(self, path, offset, seed, size):
        fd = self.open(path, os.O_WRONLY)
        try:
            return os.pwrite(fd, pattern(seed, size), offset)
        finally:
            os.close(fd)

    def append(self, path, seed, size):
        fd = self.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            return os.write(fd, pattern(seed, size))
        finally:
            os.close(fd)

    def pread(self, path, offset, size):
        fd = self.open(path, os.O_RDONLY)
        try:
            return zlib.crc32(pread(fd, size, offset))
        finally:
            os.close(fd)

    def truncate(self, path, size):
        """Whether mtime moves when the size does not differs (tmpfs: no,
        ext4: yes), so that is left out."""
        st = os.stat(path)
        if st.st_size == size and not stat.S_ISDIR(st.st_mode):
            return "same size"
        return os.truncate(path, size)

    def fallocate(self, path, mode, offset, size):
        fd = self.open(path, os.O_RDWR)
        try:
            return check(LIBC.fallocate(fd, mode, ctypes.c_long(offset),
                                        ctypes.c_long(size)))
        finally:
            os.close(fd)

    def unlink(self, path):
        os.unlink(path)

    def mkdir(self, path, mode):
        os.mkdir(path, mode)

    def rmdir(self, path):
        os.rmdir(path)

    def rename(self, old, new, flags):
        check(LIBC.renameat2(AT_FDCWD, fsb(old), AT_FDCWD, fsb(new),
                             ctypes.c_uint(flags)))

    def link(self, old, new):
        os.link(old, new, follow_symlinks=False)

    def symlink(self, target, path):
        os.symlink(target, path)

    def mknod(self, path, mode, device):
        os.mknod(path, mode, device)

    def chmod(self, path, mode):
        os.chmod(path, mode)

    def chown(self, path, uid, gid):
        try:
            os.lchown(path, uid, gid)
        except PermissionError:
            if (uid, gid) != (-1, -1):
                raise

    def utimens(self, path, atime, mtime):
        os.utime(path, ns=(atime, mtime), follow_symlinks=False)

    def setxattr(self, path, name, value, flags):
        os.setxattr(path, name, value, flags, follow_symlinks=False)

    def getxattr(self, path, name):
        return os.getxattr(path, name, follow_symlinks=False)

    def removexattr(self, path, name):
        os.removexattr(path, name, follow_symlinks=False)

    def access(self, path, mode):
        return os.access(path, mode, effective_ids=True)

    def rmtree(self, path):
        """As rm -rf does it: the names first, then one after the other."""
        count = 0
        for name in sorted(os.listdir(path)):
            inner = path + "/" + name
            if stat.S_ISDIR(os.lstat(inner).st_mode):
                count += self.rmtree(inner)
            else:
                os.unlink(inner)
                count += 1
        os.rmdir(path)
        return count

    def tmpfile(self, folder, path, seed, size):
        fd = self.open(folder, os.O_TMPFILE | os.O_RDWR, 0o640)
        try:
            os.write(fd, pattern(seed, size))
            before = os.fstat(fd).st_nlink
            check(LIBC.linkat(AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD,
                              fsb(path), AT_SYMLINK_FOLLOW))
            return before, os.fstat(fd).st_nlink
        finally:
            os.close(fd)

    def map_write(self, path, offset, seed, size):
        """Through a shared mapping. tmpfs leaves mtime alone then, others
        move it: so it is set afterwards."""
        fd = self.open(path, os.O_RDWR)
        try:
            length = os.fstat(fd).st_size
            if length == 0:
                return 0
            with mmap.mmap(fd, length) as m:
                offset %= length
                data = pattern(seed, min(size, length - offset))
                fill(m, offset, data)
                m.flush()
                seen = zlib.crc32(pread(fd, length, 0))
            os.utime(fd, ns=(1, seed))
            return seen
        finally:
            os.close(fd)

    def copy_range(self, source, target, from_, to, size):
        a = self.open(source, os.O_RDONLY)
        try:
            b = self.open(target, os.O_WRONLY)
            try:
                done = 0
                while done < size:
                    n = os.copy_file_range(a, b, size - done, from_ + done,
                                           to + done)
                    if n == 0:
                        break
                    done += n
                return done
            finally:
                os.close(b)
        finally:
            os.close(a)

    def seek_data(self, path):
        """Holes that are reported hold no data; data may be over-reported."""
        fd = self.open(path, os.O_RDONLY)
        try:
            data = pread(fd, os.fstat(fd).st_size, 0)
            at = 0
            while at < len(data):
                try:
                    begin = os.lseek(fd, at, os.SEEK_DATA)
                except OSError as e:
                    if e.errno != errno.ENXIO:
                        raise
                    begin = len(data)
                assert begin >= at and not any(data[at:begin]), (at, begin)
                if begin >= len(data):
                    break
                at = os.lseek(fd, begin, os.SEEK_HOLE)
                assert begin < at <= len(data), (begin, at)
            return "sane"
        finally:
            os.close(fd)

    def churn(self, folder):
        """Reads a directory of several buffers while it changes: what was
        there all the time comes exactly once."""
        os.mkdir(folder)
        names = [f"{i:03}" + "n" * 180 for i in range(300)]
        for n in names:
            os.close(self.open(folder + "/" + n, os.O_CREAT | os.O_WRONLY))
        seen = []
        with os.scandir(folder) as it:
            for entry in it:
                seen.append(entry.name)
                if entry.name not in names:
                    continue
                # By name, for the order is each file system's own.
                if int(entry.name[:3]) % 3 == 0:
                    os.unlink(folder + "/" + entry.name)
                if int(entry.name[:3]) % 7 == 0:
                    os.mkdir(folder + "/extra" + entry.name[:3])
        found = [n for n in seen if n in set(names)]
        return sorted(found) == names

    # -- open files that live over several steps ----------------------------
    def hold(self, slot, path, flags):
        fd = self.open(path, flags, 0o644)
        self.drop(slot)
        self.fds[slot] = fd

    def held(self, slot):
        if slot not in self.fds:
            raise OSError(errno.EBADF, "no such slot")
        return self.fds[slot]

    def drop(self, slot):
        fd = self.fds.pop(slot, None)
        if fd is not None:
            os.close(fd)

    def drop_all(self):
        for slot in list(self.fds):
            self.drop(slot)

    def held_write(self, slot, offset, seed, size):
        return os.pwrite(self.held(slot), pattern(seed, size), offset)

    def held_read(self, slot, offset, size):
        return zlib.crc32(pread(self.held(slot), size, offset))

    def held_stat(self, slot):
        return self.shape(os.fstat(self.held(slot)))

    def held_truncate(self, slot, size):
        if os.fstat(self.held(slot)).st_size == size:
            return "same size"
        return os.ftruncate(self.held(slot), size)

    def held_chmod(self, slot, mode):
        os.fchmod(self.held(slot), mode)

    def held_sync(self, slot):
        os.fsync(self.held(slot))

    def held_lock(self, slot):
        fcntl.flock(self.held(slot), fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(self.held(slot), fcntl.LOCK_UN)

    # -- one step -----------------------------------------------------------
    def look_or_say(self, path):
        """A server may die between a step and the look at what it did."""
        try:
            return self.look(path)
        except OSError as e:
            if e.errno in (errno.ENOTCONN, errno.ECONNABORTED):
                return errno.errorcode[e.errno]
            raise

    def forget(self):
        """Identities are counted from here."""
        self.classes = {}

    def step(self, user, touched, name, args):
        try:
            if user:
                os.setegid(user)
                os.seteuid(user)
            try:
                value = getattr(self, name)(*args)
            finally:
                if user:
                    os.seteuid(0)
                    os.setegid(0)
        except OSError as e:
            value = errno.errorcode.get(e.errno, e.errno)
        return value, [self.look_or_say(p) for p in touched]


def receive(stream):
    head = stream.read(4)
    if len(head) < 4:
        return None
    return pickle.loads(stream.read(struct.unpack("<I", head)[0]))


def send(stream, thing):
    data = pickle.dumps(thing)
    stream.write(struct.pack("<I", len(data)) + data)
    stream.flush()


def main():
    oracle = Oracle()
    os.umask(0o022)
    os.setgroups([]) if os.geteuid() == 0 else None
    while (batch := receive(sys.stdin.buffer)) is not None:
        answer = []
        for user, touched, name, args in batch:
            try:
                answer.append(oracle.step(user, touched, name, args))
            except Exception as e:  # the driver shows it, with the step
                answer.append((f"broken: {e!r}", []))
        send(sys.stdout.buffer, answer)


if __name__ == "__main__":
    main()
