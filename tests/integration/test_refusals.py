# SPDX-License-Identifier: MIT
"""Wrong stores and wrong inputs: one line that says what it is, the exit code
of the contract, a server that lives on, and nothing changed.

Each case makes something wrong, runs commands that must refuse it, and is
looked at before and after. Wrong calls are in test_errors.py. Cases that must
work stand at the end.
"""
import fcntl
import os
import shutil
import signal
import socket
import struct
import time

import mountpoint
import pytest
from helpers import one_line_error, store_state

import lmdb_layout


def set_bytes(path, offset, data):
    with open(path, "r+b") as f:
        f.seek(offset)
        f.write(data)


def store_is_a_file(s):
    shutil.rmtree(s)
    s.write_text("text")


def store_is_other_things(s):
    shutil.rmtree(s)
    s.mkdir()
    (s / "letter").write_text("dear")


def store_is_gone(s):
    shutil.rmtree(s)


def format_gone(s):
    (s / "format").unlink()


def format_short(s):
    os.truncate(s / "format", 20)


def format_empty(s):
    os.truncate(s / "format", 0)


def format_garbage(s):
    (s / "format").write_bytes(os.urandom(300))


def format_long(s):
    with open(s / "format", "ab") as f:
        f.write(b"x" * 10000)


def format_flipped(s):
    set_bytes(s / "format", 12, b"2")


def format_folder(s):
    (s / "format").unlink()
    (s / "format").mkdir()


def index_gone(s):
    shutil.rmtree(s / "index")


def index_file(s):
    shutil.rmtree(s / "index")
    (s / "index").write_text("x")


def data_gone(s):
    (s / "index/data.mdb").unlink()


def data_empty(s):
    os.truncate(s / "index/data.mdb", 0)


def data_short(s):
    os.truncate(s / "index/data.mdb", 5000)


def data_cut(s):
    used = (s / "index/data.mdb").read_bytes()
    os.truncate(s / "index/data.mdb",
                (lmdb_layout.Layout(used).last - 1) * 4096)


def data_garbage(s):
    size = (s / "index/data.mdb").stat().st_size
    (s / "index/data.mdb").write_bytes(os.urandom(size))


def data_zeros(s):
    size = (s / "index/data.mdb").stat().st_size
    (s / "index/data.mdb").write_bytes(bytes(size))


def data_folder(s):
    (s / "index/data.mdb").unlink()
    (s / "index/data.mdb").mkdir()


def meta_damaged(s):
    set_bytes(s / "index/data.mdb", 16, b"\0\0\0\0")


def page_damaged(s):
    """The root of the main table."""
    data = (s / "index/data.mdb").read_bytes()
    new = max((0, 4096), key=lambda at: struct.unpack_from(
        "<Q", data, at + 144)[0])
    root = struct.unpack_from("<Q", data, new + 16 + 72 + 40)[0]
    set_bytes(s / "index/data.mdb", root * 4096 + 12, b"\xff\xff")


def ref_damaged(s, name=b"base:latest"):
    data = (s / "index/data.mdb").read_bytes()
    regions = lmdb_layout.unused(data)
    at = -1
    while True:
        at = data.index(name, at + 1)
        if not lmdb_layout.why_unused(regions, at):
            break
    set_bytes(s / "index/data.mdb", at + len(name) + 1, b"\xaa\xbb\xcc")


def segments_gone(s):
    shutil.rmtree(s / "segments")


def segment_gone(s):
    next((s / "segments").iterdir()).unlink()


def segment_cut(s):
    os.truncate(next((s / "segments").iterdir()), 40)


def segment_zeros(s):
    path = next((s / "segments").iterdir())
    path.write_bytes(bytes(path.stat().st_size))


def env_damaged(s):
    set_bytes(s / "envs/kept/env", 20, b"\x55\x66")


def env_short(s):
    os.truncate(s / "envs/kept/env", 10)


def env_gone(s):
    (s / "envs/kept/env").unlink()


def journal_header(s):
    set_bytes(s / "envs/kept/journal", 10, b"\x55\x66")


def journal_middle(s):
    set_bytes(s / "envs/kept/journal", 70, b"\x55\x66\x77")


def env_of_nothing(s):
    """The snapshot that the environment was made from is not there."""
    segment_zeros(s)


LIST = ["snapshots"]
NEW = ["mount", "base", "fresh"]
OLD = ["mount", "kept"]
# what is made wrong: the commands that refuse, their code, words of the line
STORES = [
    (store_is_a_file, [LIST, NEW, ["fsck"]], 3, "store"),
    (store_is_a_file, [["import", "TREE"]], 3, "Not a directory"),
    (store_is_other_things, [LIST, NEW, ["import", "TREE"], ["fsck"]], 3,
     "store"),
    (store_is_gone, [NEW, OLD, ["fsck"], ["tag", "base", "x"]], 3, ""),
    (format_gone, [LIST, NEW, ["import", "TREE"]], 3, ""),
    (format_short, [LIST, NEW, ["import", "TREE"]], 3, "format is damaged"),
    (format_empty, [LIST, NEW], 3, "format is damaged"),
    (format_garbage, [LIST, NEW], 3, "format is damaged"),
    (format_long, [LIST, NEW], 3, "format is damaged"),
    (format_flipped, [LIST, NEW, ["import", "TREE"]], 3, "format is damaged"),
    (format_folder, [LIST, NEW], 3, ""),
    (index_gone, [LIST, NEW, ["import", "TREE"]], 3, "fsck --repair"),
    (index_file, [LIST, NEW], 3, "fsck --repair"),
    (data_gone, [LIST, NEW, ["import", "TREE"]], 3, "fsck --repair"),
    (data_empty, [LIST, NEW, ["import", "TREE"]], 3, "fsck --repair"),
    (data_short, [LIST, NEW, ["tag", "base", "x"]], 3, "fsck --repair"),
    (data_cut, [LIST, NEW, ["import", "TREE"]], 3, "fsck --repair"),
    (data_garbage, [LIST, NEW, ["import", "TREE"]], 3, "fsck --repair"),
    (data_zeros, [LIST, NEW], 3, "fsck --repair"),
    (data_folder, [LIST, NEW], 3, ""),
    (meta_damaged, [LIST, NEW, ["rm", "base"]], 3, "fsck --repair"),
    (page_damaged, [LIST, NEW, ["rm", "base"]], 3, "fsck --repair"),
    (ref_damaged, [LIST, NEW, ["mount", "base", "x"]], 3, "fsck --repair"),
    (segments_gone, [LIST, NEW, ["import", "TREE"]], 3, "segments is missing"),
    (segment_gone, [NEW], 3, ""),
    (segment_cut, [NEW], 3, ""),
    (segment_zeros, [NEW], 3, ""),
    (env_damaged, [OLD, ["diff", "kept"]], 3, ""),
    (env_short, [OLD], 3, ""),
    (env_gone, [OLD], 3, ""),
    (journal_header, [OLD, ["diff", "kept"]], 3, "journal"),
    (journal_middle, [OLD, ["diff", "kept"]], 3, "journal"),
    (env_of_nothing, [OLD], 3, "snapshot"),
]


@pytest.fixture
def filled(cowfs, tree):
    """A store with a snapshot and an environment that was kept."""
    cowfs.load(tree)
    point = cowfs.mount("base", "kept")
    cowfs.sh(point, "echo new > file; rm a.txt; mkdir d; chmod 600 b.txt")
    cowfs.run("umount", "kept", "--keep")
    cowfs.run("daemon", "stop")
    cowfs.tree = tree
    cowfs.log_skip = ["damage", "server: ", "keeper: ", r"inode \d+",
                      "cannot"]
    return cowfs


def refused(result, code, words):
    assert result.code == code and one_line_error(result), result
    assert words in result.err, result


def refuse(store, args, code, words):
    args = [a.replace("TREE", str(store.tree)) for a in args]
    refused(store.run(*args, expect=code), code, words)


@pytest.mark.parametrize(
    "wrong, calls, code, words", STORES,
    ids=[f"{i}-{c[0].__name__}" for i, c in enumerate(STORES)])
def test_wrong_store(filled, wrong, calls, code, words):
    wrong(filled.path)
    before = store_state(filled.folder)
    for args in calls:
        refuse(filled, args, code, words)
    filled.run("daemon", "stop", expect=None)
    after = store_state(filled.folder)
    for made in ("bin",):
        after.pop(made, None)
    assert after == before


def test_a_later_version_is_refused(filled, tmp_path):
    """Its first and last line have this form in every version."""
    text = b"cowfs store 2\nhash 1\nchunk 17\n"
    filled.path.joinpath("format").write_bytes(
        text + b"checksum " + SUM_OF_2 + b"\n")
    for args in (LIST, NEW, ["import", "TREE"], ["fsck"],
                 ["fsck", "--repair"]):
        refuse(filled, args, 3, "use a newer cowfs")


# XXH3-64 of the three lines above, seeded as docs/format.md says.
SUM_OF_2 = b"c4f4f2b68231df91"


def test_another_users_store(filled, as_root):
    """A store of root's is not readable by others."""
    from conftest import user_command
    argv = user_command(filled)
    for args in (LIST, NEW, ["import", str(filled.tree)], ["fsck"]):
        child = filled.spawn([*argv, "--store", str(filled.path), *args])
        result = filled.finish(child, 20)
        assert result.code in (3, 4) and one_line_error(result), result


def test_a_read_only_disk(filled, as_root):
    """Reading works, what would change something says so."""
    remount = ("mount --bind {0} {0} && mount -o remount,ro,bind {0} && "
               "cd / && exec \"$@\"").format(filled.path)

    def run(*args):
        child = filled.spawn(["unshare", "-m", "sh", "-c", remount, "sh",
                              "cowfs", *args])
        return filled.finish(child, 30)

    before = store_state(filled.folder)
    assert "base:latest" in run("snapshots").out
    for args in (["import", str(filled.tree), "-t", "x"],
                 ["tag", "base", "x"], ["rm", "base"],
                 ["fsck", "--repair"], ["mount", "base", "y"]):
        result = run(*args)
        assert result.code == 3 and one_line_error(result), result
        assert "ead-only" in result.err, result
        assert "--store DIR" in result.err, result
    assert run("fsck").code == 0
    assert store_state(filled.folder) == before


def test_a_full_disk(filled, as_root, tmp_path):
    """An import that finds no room says so, and the store is as before."""
    disk = filled.folder / "disk"
    disk.mkdir()
    script = f"""
        mount -t tmpfs -o size=32m tmpfs {disk}
        export COWFS_STORE={disk}/store
        cowfs import {filled.tree}/src -t small >&2
        head -c 50000000 /dev/urandom > {tmp_path}/many
        mkdir {tmp_path}/large && mv {tmp_path}/many {tmp_path}/large/
        cowfs import {tmp_path}/large -t large 2> {tmp_path}/err
        echo $?
        cowfs fsck
        cowfs snapshots --json
        """
    child = filled.spawn(["unshare", "-m", "sh", "-c", script])
    result = filled.finish(child, 60)
    lines = result.out.splitlines()
    assert lines[0] == "3" and lines[1] == "0 problems", result
    assert len(lines) == 3 and "small:latest" in lines[2], result
    err = (tmp_path / "err").read_text()
    assert err.startswith("cowfs import: ") and len(err.splitlines()) <= 2
    assert "No space left" in err or "free" in err, err


def test_a_disk_that_is_full_to_the_last_block(filled, as_root):
    """What needs room says so, what needs none works, nothing is lost."""
    disk = filled.folder / "disk"
    disk.mkdir()
    more = filled.folder / "more"
    more.mkdir()
    (more / "file").write_bytes(os.urandom(100000))
    calls = [("3", "import TREE -t x"), ("0", "tag base x"),
             ("3", "mount base n"), ("3", "settings --max-store 5G"),
             ("0", "snapshots"), ("0", "ps"), ("0", "diff e"), ("0", "gc"),
             ("0", "fsck"), ("0", "umount e --keep"), ("0", "daemon stop"),
             ("0", "diff e")]
    tests = "".join(
        f"echo '@@ {code} {call}'; cowfs {call} 2>&1 >/dev/null; "
        'echo "exit $?"\n'.replace("TREE", str(more))
        for code, call in calls)
    script = f"""
        mount -t tmpfs -o size=64m tmpfs {disk}
        export COWFS_STORE={disk}/store
        cowfs import {filled.tree} -t base && cowfs mount base e
        echo hello > {disk}/store/mnt/e/hello
        dd if=/dev/zero of={disk}/filler bs=4k 2>/dev/null
        {tests}
        rm {disk}/filler
        echo "@@ 0 end"
        cowfs mount e && cat {disk}/store/mnt/e/hello
        cowfs umount --all --discard && cowfs snapshots --json
        cowfs daemon stop; cowfs fsck"""
    child = filled.spawn(["unshare", "-m", "timeout", "-s", "KILL", "60",
                          "sh", "-c", script])
    result = filled.finish(child, 70)
    parts = result.out.split("@@ ")
    assert len(parts) == len(calls) + 2, result
    for part in parts[1:-1]:
        title, *lines = part.splitlines()
        assert lines[-1] == f"exit {title[0]}", part
        if title[0] == "3":
            assert lines[0].startswith(f"cowfs {title.split()[1]}: "), part
            assert len(lines) == 3 and "what is not needed" in lines[1], part
            assert "full" in lines[0] or "No space left" in lines[0], part
    end = parts[-1].splitlines()
    assert end[2] == "hello" and "base:latest" in end[3], result
    assert end[-1] == "0 problems", result


def test_a_store_that_another_has_for_itself(filled):
    """As fsck --repair has it, from its first to its last moment."""
    before = store_state(filled.folder)
    with open(filled.path / "server.lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        children = [filled.spawn(["cowfs", *args]) for args in (
            NEW, OLD, ["daemon", "start"], ["ps"], ["fsck", "--repair"])]
        for child in children:
            refused(filled.finish(child, 30), 4, "in use")
    assert store_state(filled.folder) == before


def test_in_use(filled):
    filled.run("daemon", "start")
    refuse(filled, ["fsck", "--repair"], 4, "in use")
    assert filled.status()


# --- inputs ----------------------------------------------------------------

def test_an_unreadable_file_is_named(plain, tree, as_root):
    from conftest import user_command
    (tree / "src/f01.c").chmod(0)
    plain.folder.chmod(0o777)
    child = plain.spawn([*user_command(plain), "--store",
                         str(plain.folder / "mine"), "import", str(tree)])
    result = plain.finish(child, 30)
    assert result.code == 3 and one_line_error(result), result
    assert "src/f01.c: Permission denied" in result.err


def reads_below(pid, top):
    """Whether a process has something there open, or has ended."""
    try:
        fds = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return True
    for fd in fds:
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(f"{top}/"):
                return True
        except OSError:
            pass  # closed meanwhile
    return not fds


def test_a_directory_that_vanishes_half_way(filled, tmp_path):
    """Half of a directory is no snapshot of it."""
    top = tmp_path / "top"
    filled.mount("base", "work")  # or the server would end, having no work
    pid = filled.server_pid()
    vanished = 0
    for delay in range(1, 13, 3):
        for d in range(30):
            (top / f"d{d}").mkdir(parents=True)
            for i in range(30):
                (top / f"d{d}/f{i}").write_text(f"{delay} {d} {i}\n")
        before = filled.run("snapshots", "--json").out
        child = filled.spawn(["cowfs", "import", str(top)])
        while not reads_below(child.pid, top):
            pass
        time.sleep(delay / 2000)
        os.kill(child.pid, signal.SIGSTOP)
        shutil.rmtree(top)
        os.kill(child.pid, signal.SIGCONT)
        result = filled.finish(child, 30)
        if result.code:
            assert result.code in (2, 3) and one_line_error(result), result
            assert filled.run("snapshots", "--json").out == before
        vanished += "vanished while it was read" in result.err
    assert vanished, "none was stopped half-way"
    assert filled.server_pid() == pid
    filled.run("umount", "work", "--discard")
    assert filled.run("fsck").out.endswith("0 problems\n")


def messages():
    """Malformed control messages: none may end the server."""
    yield b""
    yield b"\0"
    yield b"GET / HTTP/1.0\r\n\r\n"
    yield b"\xff" * 4
    yield b"\xff" * 4096
    yield struct.pack("<I", 0)
    yield struct.pack("<I", 1 << 31)
    yield struct.pack("<IIII", 16, 0xffff, 0, 0)
    yield os.urandom(100)
    yield os.urandom(100000)


def test_malformed_messages(filled):
    point = filled.mount("base", "e")
    pid = filled.server_pid()
    before = store_state(filled.folder)
    for data in messages():
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(10)
        s.connect(str(filled.path / "ctl.sock"))
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
        except OSError:
            pass
        s.close()
        assert filled.server_pid() == pid
    assert filled.sh(point, "cat run.sh").out.startswith("#!/bin/sh")
    assert store_state(filled.folder) == before


# --- what works ------------------------------------------------------------

def test_an_empty_directory(cowfs, tmp_path):
    (tmp_path / "none").mkdir()
    cowfs.load(tmp_path / "none")
    assert cowfs.sh(cowfs.mount("base", "e"), "ls -A").out == ""
    assert cowfs.run("fsck").out.endswith("0 problems\n")


def test_names_of_255_bytes_and_deep_paths(cowfs, tmp_path):
    """Names as long as Linux has them; paths beyond PATH_MAX by steps."""
    top = tmp_path / "top"
    top.mkdir()
    (top / ("n" * 255)).write_text("long\n")
    cowfs.py(top, """
        for i in range(40):
            os.mkdir('d' * 120)
            os.chdir('d' * 120)
        open('leaf', 'w').write('deep\\n')
        """)
    cowfs.load(top)
    point = cowfs.mount("base", "e")
    assert cowfs.sh(point, "cat nnn*").out == "long\n"
    assert cowfs.py(point, """
        for i in range(40):
            os.chdir('d' * 120)
        print(open('leaf').read(), end='')
        """).out == "deep\n"
    assert cowfs.run("fsck").out.endswith("0 problems\n")
    # rmtree walks by descriptors, so that it gets there as well.
    assert mountpoint.mounts_below(cowfs.folder)


@pytest.mark.parametrize("count", [
    20000, pytest.param(100000, marks=pytest.mark.long)])
def test_many_entries(cowfs, tmp_path, count):
    top = tmp_path / "top"
    top.mkdir()
    for i in range(count):
        os.close(os.open(top / f"entry{i:06}", os.O_CREAT | os.O_WRONLY))
    cowfs.load(top)
    point = cowfs.mount("base", "e")
    assert cowfs.sh(point, "ls -f | wc -l").out == f"{count + 2}\n"
    assert cowfs.run("fsck").out.endswith("0 problems\n")
