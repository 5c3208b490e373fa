# SPDX-License-Identifier: MIT
"""Ways out of a sandbox: each is a small program that succeeds outside, so that
its refusal inside means something.

A program prints "done" when it got what it was after. Outside it runs as the
caller would run it; inside by `cowfs run`, as root, as root that became another
user, or as a user (the ctest entry user.features).
"""
import contextlib
import os
import shutil
import socket
import subprocess

import pytest

import mountpoint
from conftest import skip_unless

PYTHON = mountpoint.PYTHON

PRELUDE = """
import ctypes, errno, fcntl, mmap, os, signal, socket, stat, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
def syscall(number, *args):
    r = libc.syscall(number, *args)
    if r < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
    return r
def connect(address):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect(address)
def write(path, data=b"x"):
    with open(path, "ab") as f:
        f.write(data)
w = sys.argv[1:]
"""

# name: (program, what it needs). Words of `w` are made by the test.
PROGRAMS = {
    # what others have
    "read the store": ("assert open(w[0] + '/format').read()", ""),
    "list the store": ("assert os.listdir(w[0] + '/envs')", ""),
    "write into the store": ("write(w[0] + '/planted')", ""),
    "talk to the control socket": ("connect(w[0] + '/ctl.sock')", ""),
    "read another environment": (
        "assert open(w[1] + '/a.txt').read()", ""),
    "read the origin": ("assert open(w[2] + '/a.txt').read()", "at"),
    "write into the origin": ("write(w[2] + '/a.txt')", "at"),
    "read another origin": ("assert open(w[3] + '/f').read()", ""),
    "read the host's home": ("assert open(w[4] + '/secret').read()", ""),
    "the SSH agent": ("connect(os.environ.get('AGENT') or w[5])", ""),
    "a socket in /run": ("connect(w[6])", "root"),
    "an abstract socket": ("connect('\\0' + w[7])", "no-net"),
    "the password file": ("assert open('/etc/shadow').read()", "root"),
    # the host's files
    "write to /usr": ("write(w[8])", "root"),
    "write to /etc": ("write(w[9])", "root"),
    "write to /var": ("write(w[10])", "root"),
    "write to the host's /tmp": (
        "write(w[11] + '/planted'); assert os.listdir(w[11]) != "
        "['planted']", ""),
    "write to /proc/sys": (
        "d = open('/proc/sys/vm/swappiness').read()\n"
        "open('/proc/sys/vm/swappiness', 'w').write(d)", "root"),
    "write to /sys": (
        "p = '/sys/kernel/mm/transparent_hugepage/enabled'\n"
        "open(p, 'r+').close()", "root"),
    "its limits through cgroups": (
        "import glob\n"
        "dirs = glob.glob('/sys/fs/cgroup/*/cgroup.procs') + "
        "glob.glob('/sys/fs/cgroup/cgroup.procs')\n"
        "open(dirs[0], 'w').close()", "root"),
    "the memory of the host": (
        "assert os.listdir('/dev/shm').count(os.path.basename(w[12]))", ""),
    "a segment of System V": (
        "syscall(29, int(w[13]), 0, 0o600)", "x86_64"),
    # the host's processes
    "see a process": ("os.stat('/proc/' + w[14]); "
                      "assert b'victim' in open('/proc/' + w[14] + "
                      "'/cmdline', 'rb').read()", ""),
    "signal a process": ("os.kill(int(w[14]), signal.SIGWINCH); "
                         "assert b'victim' in open('/proc/' + w[14] + "
                         "'/cmdline', 'rb').read()", ""),
    "trace the first process": (
        "call('ptrace', 16, int(w[15]), 0, 0)", "root"),
    "the root of the first process": (
        "assert os.listdir('/proc/' + w[15] + '/root')", "root"),
    "the program of the first process": (
        "os.open('/proc/' + w[15] + '/exe', os.O_RDONLY)", "root"),
    # rights
    "mount": ("call('mount', b'x', b'/mnt', b'tmpfs', 0, None)\n"
              "call('umount', b'/mnt')", "root"),
    "make / writable": (
        "call('mount', None, b'/', None, 0x1020, None)", "root"),
    "a user name space": ("call('unshare', 0x10000000)", ""),
    "a mount name space": (
        "call('unshare', 0x10020000)", ""),
    "a name space by clone": (
        "pid = syscall(56, 0x10000000 | 17, 0, 0, 0, 0)\n"
        "if not pid: os._exit(0)\n"
        "os.waitpid(pid, 0)", "x86_64"),
    "a device": ("os.mknod('node', 0o600 | stat.S_IFBLK, os.makedev(7, 0))\n"
                 "os.unlink('node')", "root"),
    "a device of the tree": ("os.open('null-device', os.O_WRONLY)", "root"),
    "a device of the host": (
        "os.stat('/dev/kmsg'); os.open('/dev/kmsg', os.O_RDONLY)", "root"),
    "setuid": ("import subprocess\n"
               "assert subprocess.run(['./setuid-id', '-u'], "
               "capture_output=True).stdout == b'0\\n'", "other"),
    "become root": ("os.setuid(1234)", "root"),
    "change a root": ("os.chroot('.')", "root"),
    "the keyring": ("syscall(250, 0, -3, 1)", "x86_64"),
    "bpf": ("a = struct.pack('IIII', 2, 4, 4, 1) + bytes(56)\n"
            "os.close(syscall(321, 0, a, 72))", "root x86_64"),
    "performance counters": (
        "a = struct.pack('IIQ', 1, 112, 0) + bytes(96)\n"
        "syscall(298, a, 0, -1, -1, 0)", "root x86_64"),
    "files by handle": (
        "h = struct.pack('II', 128, 0) + bytes(128)\n"
        "b = ctypes.create_string_buffer(h)\n"
        "m = ctypes.c_int()\n"
        "call('name_to_handle_at', -100, b'/etc/passwd', b, "
        "ctypes.byref(m), 0)\n"
        "d = os.open('/etc', os.O_RDONLY)\n"
        "call('open_by_handle_at', d, b, 0)", "root"),
    "the clock": ("import time\n"
                  "import ctypes as c\n"
                  "class T(c.Structure): _fields_ = [('s', c.c_long), "
                  "('n', c.c_long)]\n"
                  "class X(c.Structure): _fields_ = [('m', c.c_uint), "
                  "('p', c.c_byte * 204)]\n"
                  "x = X(m=0x8000)\n"
                  "call('sethostname', *(lambda h: (h, len(h)))"
                  "(socket.gethostname().encode()))", "root"),
}


def outside_ok(need):
    """Whether this machine and caller can be asked for it outside."""
    return "x86_64" not in need or os.uname().machine == "x86_64"


class Field:
    """What the programs are after, on the host."""

    def __init__(self, store, tree, stack):
        self.store = store
        folder = store.folder
        home = folder / "home"
        home.mkdir()
        (home / "secret").write_text("s")
        store.env["HOME"] = str(home)
        other = folder / "other"
        other.mkdir()
        (other / "f").write_text("f")
        shared = folder / "shared"
        shared.mkdir()
        if os.geteuid() == 0:
            os.mknod(tree / "null-device", 0o666 | 0o020000,
                     os.makedev(1, 3))
            os.chmod(tree / "null-device", 0o666)
            shutil.copy(shutil.which("id"), tree / "setuid-id")
            os.chmod(tree / "setuid-id", 0o4755)
        store.load(tree)
        store.load(other, "other")
        store.mount("base", "e")
        second = store.mount("base", "second")
        store.mount("other", "third")
        run = folder / "run.sock"
        if os.geteuid() == 0:
            run = f"/run/cowfs-test-{os.getpid()}-{id(self)}.sock"
        self.agent = folder / "agent.sock"
        for path in (run, self.agent, "\0" + folder.name):
            s = stack.enter_context(socket.socket(socket.AF_UNIX))
            s.bind(str(path))
            s.listen(64)
            if str(path).startswith("/run/"):
                stack.callback(os.unlink, path)
        store.env["SSH_AUTH_SOCK"] = str(self.agent)
        shm = f"/dev/shm/cowfs-test-{os.getpid()}-{id(self)}"
        open(shm, "w").close()
        stack.callback(os.unlink, shm)
        key, segment = self.segment()
        stack.callback(segment)
        victim = subprocess.Popen(
            [PYTHON, "-c", "import time; time.sleep(600)", "victim"],
            start_new_session=True)
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        marks = [f"/{d}/cowfs-test-{os.getpid()}" for d in
                 ("usr/local", "etc", "var/lib")]
        for mark in marks:
            stack.callback(lambda m=mark: os.path.exists(m) and os.unlink(m))
        self.words = [str(w) for w in (
            store.path, second, tree, other, home, self.agent, run,
            folder.name, *marks, shared, shm, key, victim.pid, 1)]
        (shared / "there").write_text("")
        self.victim = victim

    @staticmethod
    def segment():
        import ctypes
        libc = ctypes.CDLL(None)
        key = 0x40000000 | (os.getpid() & 0xffffff)
        number = libc.shmget(key, 4096, 0o600 | 0o1000)
        return key, lambda: libc.shmctl(number, 0, None)

    def program(self, name, inside):
        words = list(self.words)
        if not inside:
            words[15] = str(self.victim.pid)
        return [PYTHON, "-c",
                PRELUDE + PROGRAMS[name][0] + "\nprint('done')", *words]


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    """One for all programs: they leave nothing behind that others meet."""
    skip_unless(shutil.which("bwrap"), "bwrap")
    from conftest import have_fuse, make_tree
    skip_unless(have_fuse(), "fuse")
    store = mountpoint.Store()
    with contextlib.ExitStack() as stack:
        tree = store.folder / "tree"
        make_tree(tree)
        yield Field(store, tree, stack)
        wrong = store.close()
    assert not wrong, wrong


def run_outside(field, name, need):
    argv = field.program(name, False)
    if "other" in need:
        argv = ["setpriv", "--reuid", "65534", "--regid", "65534",
                "--clear-groups", *argv]
    return field.store.finish(field.store.spawn(
        argv, cwd=field.store.folder / "tree"), 30)


def run_inside(field, name, need, *options):
    store = field.store
    env = "second" if "at" in need else "e"
    options = [*options, *(["--at", "/elsewhere"] if "at" in need else []),
               "--net", "none"]
    if "other" in need and "--user" not in options:
        options += ["--user", "65534"]
    return store.run("run", *options, env, "--",
                     *field.program(name, True), expect=None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_refused(field, name):
    need = PROGRAMS[name][1]
    if os.geteuid() != 0 and ("root" in need or "other" in need):
        pytest.skip("needs root outside")
    if not outside_ok(need):
        pytest.skip("another machine")
    outside = run_outside(field, name, need)
    assert outside.out == "done\n", f"it does nothing outside: {outside}"
    inside = run_inside(field, name, need)
    assert inside.code == 1 and inside.out == "", inside
    assert "Error" in inside.err, inside
    if os.geteuid() == 0:
        again = run_inside(field, name, need, "--user", "65534:65534")
        assert again.code == 1 and again.out == "", again


def test_no_capability_and_no_new_rights(field):
    status = field.store.run("run", "--net", "none", "e", "--", "cat",
                             "/proc/self/status").out
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert f"{name}:\t0000000000000000\n" in status, status
    assert "NoNewPrivs:\t1\n" in status and "Seccomp:\t2\n" in status


def test_no_descriptor_of_the_host(field):
    out = field.store.run("run", "--net", "none", "e", "--", "ls",
                          "/proc/self/fd").out
    assert out.split() == ["0", "1", "2", "3"], out  # ls has one open


def test_own_processes_may_be_traced(field):
    skip_unless(shutil.which("strace"), "strace")
    field.store.run("run", "--net", "none", "e", "--", "strace", "-o",
                    "/tmp/trace", "true")
