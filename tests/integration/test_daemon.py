# SPDX-License-Identifier: MIT
"""The server: starts by itself, stops when told, bothered by nobody."""
import fcntl
import os
import random
import signal
import socket
import struct
import time

import mountpoint
import pytest
from helpers import one_line_error, wait_until


def test_start_status_stop(cowfs, tree):
    cowfs.load(tree)
    assert not mountpoint.processes_of(cowfs.path)
    cowfs.run("daemon", "status", expect=None)
    assert not mountpoint.processes_of(cowfs.path)  # asking starts nothing
    cowfs.run("daemon", "start")
    first = cowfs.server_pid()
    cowfs.run("daemon", "start")
    assert cowfs.server_pid() == first
    cowfs.run("daemon", "stop")
    assert not mountpoint.processes_of(cowfs.path)
    cowfs.run("daemon", "stop")


def test_stop_is_refused_while_mounted(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    result = cowfs.run("daemon", "stop", expect=4)
    assert one_line_error(result), result
    assert cowfs.sh(point, "cat a.txt").out == "alpha\n"


def test_many_starts_at_once_give_one_server(cowfs, tree):
    cowfs.load(tree)
    children = [cowfs.spawn(["cowfs", "daemon", "start"]) for _ in range(10)]
    results = [cowfs.finish(c, 30) for c in children]
    assert all(r.code == 0 for r in results), results
    assert len(mountpoint.processes_of(cowfs.path)) == 2  # and its keeper


def test_it_is_detached(cowfs, tree):
    cowfs.load(tree)
    cowfs.mount("base", "e")
    for pid in mountpoint.processes_of(cowfs.path):
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        for fd in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            assert "pipe:" not in target or fd not in "012", (pid, fd)


def test_no_server_after_a_stale_socket(cowfs, tree):
    cowfs.load(tree)
    cowfs.mount("base", "e")
    cowfs.kill_server()
    assert cowfs.sh(cowfs.mount("e"), "cat a.txt").out == "alpha\n"


def stopped(store, *commands):
    """Runs commands whose server does not answer: each ends, and says so."""
    children = [(store.spawn(["cowfs", *args]), code)
                for *args, code in commands]
    end = time.monotonic() + 16
    for child, code in children:
        result = store.finish(child, end - time.monotonic())
        assert result.code == code and one_line_error(result), result
        assert "the server does not answer" in result.err, result
        yield result


def test_no_command_waits_for_ever(cowfs, tree):
    cowfs.load(tree)
    cowfs.mount("base", "e")
    pid = cowfs.server_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        *results, _ = stopped(cowfs, ("ps", 4), ("daemon", "status", 4),
                              ("umount", "--all", 4), ("daemon", "stop", 3))
        for result in results:
            assert f"process {pid}" in result.err, result
            assert "server.log" in result.err, result
    finally:
        os.kill(pid, signal.SIGCONT)
    assert cowfs.run("--json", "ps").json()


@pytest.mark.long
def test_no_work_waits_for_ever(cowfs, tree):
    cowfs.load(tree)
    cowfs.mount("base", "e")
    pid = cowfs.server_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        t0 = time.monotonic()
        children = [cowfs.spawn(["cowfs", *args]) for args in
                    (["mount", "base", "f"], ["umount", "e"], ["diff", "e"])]
        for child in children:
            result = cowfs.finish(child, 70)
            assert result.code == 4 and one_line_error(result), result
        assert time.monotonic() - t0 > 50
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_request_to_an_ending_server_is_made_again(cowfs, tree):
    """It waits in the queue of a server that is killed before it reads."""
    cowfs.load(tree)
    cowfs.run("daemon", "start")
    pid = cowfs.server_pid()
    os.kill(pid, signal.SIGSTOP)
    child = cowfs.spawn(["cowfs", "mount", "base", "e"])
    time.sleep(0.3)
    os.kill(pid, signal.SIGKILL)
    result = cowfs.finish(child, 20)
    assert result.code == 0 and not result.err, result
    assert cowfs.server_pid() != pid


def connect(store):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(str(store.path / "ctl.sock"))
    return s


def garbage(seed):
    rng = random.Random(seed)
    whole = struct.pack("<IBBH", 4, 1, 1, 0)
    return [
        b"", b"\0", b"\xff" * 100, b"GET / HTTP/1.0\r\n\r\n",
        struct.pack("<I", 0), struct.pack("<I", 3) + b"abc",
        struct.pack("<I", 0xffffffff) + b"x" * 4096,
        struct.pack("<I", 1 << 17) + b"x" * (1 << 17),
        struct.pack("<IBBH", 4, 9, 1, 0), struct.pack("<IBBH", 4, 1, 200, 0),
        struct.pack("<IBBHHHI", 12, 1, 2, 0, 3, 0, 0xfffffff0),
        struct.pack("<IBBHHHI", 12, 1, 2, 0, 3, 0, 100),
        struct.pack("<IBBHHHI", 12, 1, 3, 0, 3, 0, 0),
        whole[:5], whole + whole[:3], rng.randbytes(5000),
        struct.pack("<I", 60000) + rng.randbytes(60000),
        *[struct.pack("<IBBH", 4 + n, 1, rng.randrange(1, 9), 0) +
          rng.randbytes(n) for n in range(0, 400, 7)],
    ]


def test_hostile_clients(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    pid = cowfs.server_pid()
    for message in garbage(1):
        with connect(cowfs) as s:
            try:
                s.sendall(message)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except (ConnectionError, BrokenPipeError):
                pass
    assert cowfs.server_pid() == pid
    assert cowfs.sh(point, "cat a.txt").out == "alpha\n"


def test_silent_and_half_clients_block_nobody(cowfs, tree):
    cowfs.load(tree)
    cowfs.mount("base", "e")
    silent = [connect(cowfs) for _ in range(8)]
    for s in silent[4:]:
        s.sendall(struct.pack("<I", 100) + b"half")
    t0 = time.monotonic()
    assert cowfs.run("--json", "ps").json()
    cowfs.mount("base", "f")
    assert time.monotonic() - t0 < 5
    flood = []
    for _ in range(300):
        try:
            flood.append(connect(cowfs))
        except OSError:
            break
    for s in silent + flood:
        s.close()
    wait_until(lambda: cowfs.run("--json", "ps", expect=None).code == 0, 20,
               "the server answers again")
    cowfs.run("umount", "f")


def test_a_client_that_does_not_read(cowfs, tree):
    """It asks for a long answer and takes nothing of it."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.py(point, """
        for i in range(3000):
            open(f'{i:04}' + 'n' * 200, 'w').close()""")
    name = b"e"
    ask = struct.pack("<BBH", 1, 6, 0) + struct.pack("<HHI", 3, 0, 1) + name
    with connect(cowfs) as s:
        s.sendall(struct.pack("<I", len(ask)) + ask)
        t0 = time.monotonic()
        assert len(cowfs.run("diff", "e").lines()) == 3000
        cowfs.mount("base", "f")
        cowfs.sh(point, ": > more")
        assert time.monotonic() - t0 < 10
    cowfs.run("umount", "f")


def test_strangers_are_refused(cowfs, as_root, tree):
    cowfs.load(tree)
    cowfs.mount("base", "e")
    os.chmod(cowfs.path, 0o755)
    os.chmod(cowfs.path / "ctl.sock", 0o666)
    source = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\n"
              "s.settimeout(10)\ns.connect(sys.argv[1])\n"
              "s.sendall(bytes([4, 0, 0, 0, 1, 1, 0, 0]))\n"
              "d = s.recv(65536)\nprint(len(d))")
    child = cowfs.spawn(["setpriv", "--reuid", "65534", "--regid", "65534",
                         "--clear-groups", mountpoint.PYTHON, "-c", source,
                         str(cowfs.path / "ctl.sock")])
    result = cowfs.finish(child, 20)
    assert result.out != "" and int(result.out) < 200 or result.code, result
    assert "version" not in result.out


@pytest.mark.long
def test_idle_exit(cowfs, tree):
    """60 s after its last environment is gone, and not before 50."""
    cowfs.load(tree)
    cowfs.mount("base", "e")
    cowfs.run("umount", "e")
    t0 = time.monotonic()
    wait_until(lambda: not mountpoint.processes_of(cowfs.path), 90,
               "the idle server exits")
    assert time.monotonic() - t0 > 50
    assert not mountpoint.mounts_below(cowfs.folder)


@pytest.mark.measures
@pytest.mark.parametrize("folders", [
    25, pytest.param(100, marks=pytest.mark.long)])
def test_memory_after_find(cowfs, tmp_path, folders):
    """The server holds nothing for a base file that was merely looked at."""
    top = tmp_path / "wide"
    for d in range(folders):
        folder = top / f"d{d:02}"
        folder.mkdir(parents=True)
        for i in range(1000):
            os.close(os.open(folder / f"f{i:03}", os.O_CREAT | os.O_WRONLY))
    cowfs.load(top)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "ls d00 > /dev/null")
    pid = cowfs.server_pid()

    def resident():
        with open(f"/proc/{pid}/status") as f:
            return [int(line.split()[1]) for line in f
                    if line.startswith("VmRSS:")][0]

    before = resident()
    count = cowfs.sh(point, "find . -type f -printf '%s\\n' | wc -l",
                     limit=120).out
    assert int(count) == folders * 1000
    grown = resident() - before
    print("grown by", grown, "kB")
    assert grown < folders * 164, f"{grown} kB"  # 16 MiB for 100,000


# --- without a server ---------------------------------------------------------

def test_ps_starts_no_server(cowfs, tree):
    """The store tells what there is, with the words that a server has."""
    cowfs.load(tree)
    cowfs.mount("base", "b", "--quota", "5M", "--ttl", "1h")
    cowfs.sh(cowfs.mount("base", "a"), "echo new > file")
    cowfs.run("umount", "--all", "--keep")
    (cowfs.path / "envs/damaged").mkdir()
    (cowfs.path / "envs/damaged/env").write_text("no")
    wanted = cowfs.run("--json", "ps").out
    assert [r["state"] for r in cowfs.run("--json", "ps").json()] == \
        ["kept", "kept", "damaged"]
    cowfs.run("daemon", "stop")
    log = cowfs.log()
    assert cowfs.run("--json", "ps").out == wanted
    assert cowfs.run("--json", "rm", "--dry-run", "base").code == 0
    assert "environments still stand on it: a, b" in \
        cowfs.run("rm", "base").err
    assert not mountpoint.processes_of(cowfs.path)
    assert cowfs.log() == log
    with pytest.raises(OSError):
        connect(cowfs)


def test_ps_of_a_store_that_cannot_be_written(cowfs, tree, as_root):
    cowfs.load(tree)
    cowfs.mount("base", "a")
    cowfs.run("umount", "a", "--keep")
    cowfs.run("daemon", "stop")
    wanted = cowfs.run("--json", "ps").out
    script = (f"mount --bind {cowfs.path} {cowfs.path} && "
              f"mount -o remount,ro,bind {cowfs.path} && cd / && "
              "cowfs --json ps")
    child = cowfs.spawn(["unshare", "-m", "sh", "-c", script])
    result = cowfs.finish(child, 30)
    assert (result.code, result.out, result.err) == (0, wanted, "")


def test_ps_waits_for_a_server_that_is_starting(cowfs, tree):
    """A lock that is held is no reason to read beside its holder."""
    cowfs.load(tree)
    cowfs.mount("base", "a")
    cowfs.run("umount", "a", "--keep")
    cowfs.run("daemon", "stop")
    with open(cowfs.path / "server.lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        child = cowfs.spawn(["cowfs", "--json", "ps"])
        time.sleep(0.5)
        assert child.poll() is None
    result = cowfs.finish(child, 30)
    assert result.code == 0 and '"kept"' in result.out, result
