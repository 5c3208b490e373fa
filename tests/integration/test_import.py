# SPDX-License-Identifier: MIT
"""import: everything that a tree can hold comes back in the mount."""
import os
import re
import socket
import subprocess
import threading

import pytest
from conftest import user_command
from helpers import assert_same_tree, one_line_error


def all_kinds(top):
    """Adds what only root can make, and names that hurt."""
    os.mkfifo(top / "fifo", 0o640)
    os.mknod(top / "null", 0o20666, os.makedev(1, 3))
    os.mknod(top / "disk", 0o60600, os.makedev(7, 250))
    for name in (b"new\nline", b"tab\t\"quote\"", b"\xff\xfe\x80", b" lead",
                 b"x" * 255, "übung".encode(), b".wh.not-a-whiteout"):
        with open(os.path.join(os.fsencode(top), name), "wb") as f:
            f.write(name)
    os.chown(top / "b.txt", 1234, 5678)
    os.chmod(top / "b.txt", 0o6751)
    os.chmod(top / "src/deep", 0o1777)
    os.chmod(top / "gone", 0o2700)
    os.setxattr(top / "b.txt", "user.note", b"\0\1binary")
    os.setxattr(top / "src", "trusted.t", b"dir")
    os.setxattr(top / "link", "trusted.t", b"link", follow_symlinks=False)
    for argv in (["setcap", "cap_net_raw+ep", top / "run.sh"],
                 ["setfacl", "-m", "u:33:rw", top / "empty"],
                 ["setfacl", "-d", "-m", "g:33:rx", top / "src/deep"]):
        subprocess.run(argv, check=True)
    for name, ns in (("a.txt", -1), ("empty", 2**33 * 10**9 + 123456789),
                     ("run.sh", 1)):
        os.utime(top / name, ns=(ns, ns))
    os.utime(top / "dangling", ns=(7, 77777777777), follow_symlinks=False)
    os.utime(top, ns=(5, 5000000005))


def test_every_kind_is_the_same_in_the_mount(cowfs, as_root, tree):
    all_kinds(tree)
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    assert_same_tree(cowfs, tree, point)
    assert cowfs.run("diff", "e").out == ""


def test_import_prints_the_id_and_nothing_else(plain, tree):
    out = plain.run("import", tree, "-t", "base").out
    assert re.fullmatch(r"[0-9a-f]{16,}\n", out), out


def test_id_depends_on_the_tree_alone(new_store, tree):
    a, b = new_store(), new_store()
    first = a.load(tree)
    size = store_bytes(a)
    assert a.load(tree, "again:v2") == first
    assert store_bytes(a) - size < 1 << 20
    # Another order of creation, another place, another store.
    other = b.folder / "elsewhere"
    subprocess.run(["cp", "-a", tree, other], check=True)
    assert b.load(other, "x") == first


def store_bytes(store):
    out = subprocess.run(["du", "-s", "-B1", store.path], check=True,
                         capture_output=True, text=True).stdout
    return int(out.split()[0])


def test_id_changes_with_metadata(plain, tree):
    ids = {plain.load(tree)}
    (tree / "a.txt").chmod(0o600)
    ids.add(plain.load(tree))
    os.utime(tree / "a.txt", ns=(1, 1))
    ids.add(plain.load(tree))
    os.setxattr(tree / "a.txt", "user.x", b"1")
    ids.add(plain.load(tree))
    assert len(ids) == 4


def test_sockets_are_left_out_and_counted(plain, tree):
    for i in range(3):
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(tree / f"src/sock{i}"))
    result = plain.run("import", tree, "-t", "base")
    assert "3 sockets" in result.err, result


def test_exclude(cowfs, tree):
    cowfs.load(tree, "base", "--exclude", "*.c", "--exclude", "gone")
    point = cowfs.mount("base", "e")
    names = cowfs.sh(point, "find . | sort").out.split()
    assert "./src/deep/er/leaf" in names
    assert not [n for n in names if n.endswith(".c") or "gone" in n]


def test_store_inside_the_tree_is_left_out(cowfs, tree):
    inside = str(tree / "st")
    cowfs.run("--store", inside, "import", tree, "-t", "base")
    try:
        point = cowfs.mount("--store", inside, "base", "e")
        names = cowfs.sh(point, "ls -A").out.split()
        assert "a.txt" in names and "st" not in names
    finally:
        cowfs.run("--store", inside, "umount", "e", "--discard", expect=None)
        cowfs.run("--store", inside, "daemon", "stop", expect=None)


def test_other_file_systems_are_not_entered(cowfs, as_root, tree):
    (tree / "other").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", tree / "other"],
                   check=True)
    try:
        (tree / "other/file").write_text("x")
        cowfs.load(tree, "without")
        cowfs.load(tree, "with", "--cross-mounts")
    finally:
        subprocess.run(["umount", "-l", tree / "other"], check=True)
    a, b = cowfs.mount("without", "a"), cowfs.mount("with", "b")
    assert cowfs.sh(a, "ls -A other").out == ""
    assert cowfs.sh(b, "ls -A other").out == "file\n"


def test_unreadable_files_fail_and_are_named(plain, as_root, tree):
    """By a user: root reads everything."""
    for i in range(12):
        (tree / f"secret{i:02}").write_text("s")
        (tree / f"secret{i:02}").chmod(0)
    user = user_command(plain)
    load = user + ["import", str(tree), "-t", "base"]
    result = plain.finish(plain.spawn(load), 60)
    assert result.code == 3 and not result.out, result
    assert 10 <= len(re.findall(r"secret\d\d", result.err)) <= 11, result
    listed = plain.finish(plain.spawn(user + ["snapshots"]), 60)
    assert "base" not in listed.out
    result = plain.finish(plain.spawn(load + ["--skip-unreadable"]), 60)
    assert result.code == 0, result


def test_a_tree_that_changes_gives_no_torn_file(cowfs, tmp_path):
    """A writer replaces the whole content of one size by another letter
    while imports read: no snapshot may hold both letters."""
    top = tmp_path / "live"
    top.mkdir()
    hot = top / "hot"
    hot.write_bytes(b"a" * 300000)
    stop = threading.Event()

    def write():
        i = 0
        while not stop.is_set():
            i += 1
            tmp = top / "hot.tmp"
            tmp.write_bytes((b"a", b"b")[i % 2] * 300000)
            os.replace(tmp, hot)
            stop.wait(0.003)

    writer = threading.Thread(target=write)
    writer.start()
    done = 0
    try:
        for i in range(8):
            result = cowfs.run("import", top, "-t", f"t{i}", "--exclude",
                               "hot.tmp", expect=None)
            assert result.code in (0, 3), result
            if result.code:
                assert "hot" in result.err or "live" in result.err
                continue
            done += 1
            point = cowfs.mount(f"t{i}", f"e{i}")
            letters = cowfs.py(point, """
                print(sorted(set(open('hot', 'rb').read())))""").out
            assert letters.strip() in ("[97]", "[98]")
    finally:
        stop.set()
        writer.join()
    assert done


def test_stale_git_locks_are_left_out(cowfs, tmp_path):
    repo = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", repo], check=True)
    (repo / ".git/index.lock").write_text("")
    (repo / ".git/refs/heads/x.lock").write_text("")
    (repo / "yarn.lock").write_text("kept")
    result = cowfs.run("import", repo, "-t", "base")
    assert "lock" in result.err
    point = cowfs.mount("base", "e")
    found = cowfs.sh(point, "find . -name '*.lock'").out.split()
    assert found == ["./yarn.lock"]


@pytest.mark.parametrize("path", ["nowhere", "file"])
def test_a_path_that_is_no_directory_is_usage(plain, tmp_path, path):
    (tmp_path / "file").write_text("x")
    result = plain.run("import", tmp_path / path, expect=None)
    assert result.code == (2 if path == "file" else result.code)
    assert result.code in (2, 3) and one_line_error(result), result


def test_a_failed_import_changes_nothing(plain, tree, tmp_path):
    first = plain.load(tree)
    before = plain.run("--json", "snapshots").out
    plain.run("import", tmp_path / "nowhere", "-t", "base", expect=None)
    assert plain.run("--json", "snapshots").out == before
    assert first in before


def test_two_imports_at_once(plain, tree, tmp_path):
    other = tmp_path / "other"
    subprocess.run(["cp", "-a", tree, other], check=True)
    (other / "more").write_bytes(os.urandom(500000))
    children = [plain.spawn(["cowfs", "import", str(t), "-t", n])
                for t, n in ((tree, "a"), (other, "b"), (tree, "c"))]
    results = [plain.finish(c, 60) for c in children]
    assert [r.code for r in results] == [0, 0, 0], results
    ids = [r.out.strip() for r in results]
    assert ids[0] == ids[2] != ids[1]
    assert plain.load(other, "again") == ids[1]


def test_a_mounted_environment_can_be_imported(cowfs, tree):
    """It lies in the store's folder, and is no part of the store."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo more > more")
    cowfs.load(point, "copy")
    assert_same_tree(cowfs, point, cowfs.mount("copy", "c"))
