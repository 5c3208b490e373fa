# SPDX-License-Identifier: MIT
"""mount: usable when it returns, private, the same everywhere."""
import os
import subprocess

import mountpoint
import pytest
from helpers import assert_same_tree, one_line_error


def numbers(store, point):
    """Inode numbers and the order of readdir, of a whole tree."""
    return store.py(point, """
        def show(d):
            for e in os.scandir(d):
                st = e.stat(follow_symlinks=False)
                assert e.inode() == st.st_ino < 2**53, e
                print(e.path, st.st_ino, st.st_nlink, st.st_ctime_ns,
                      st.st_mtime_ns, st.st_blocks, st.st_size, st.st_mode)
                if e.is_dir(follow_symlinks=False):
                    show(e.path)
        show('.')""").out


def test_mount_prints_a_usable_path(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    assert os.path.isabs(point)
    assert point in mountpoint.mounts_below(cowfs.folder)
    assert cowfs.sh(point, "cat a.txt").out == "alpha\n"


def test_times_of_birth(cowfs, tree):
    """Of what is old and what is new; with the setting, of nothing, and
    nothing else is asked for them."""
    cowfs.load(tree)
    count, births = {}, "touch new; stat -c %W new a.txt; stat a.txt"
    for env, settings in (("e", []), ("f", ["--birth-times", "no"])):
        row, = cowfs.run("--json", "settings", *settings).json()
        assert row["birth_times"] == (env == "e")
        found = cowfs.sh(cowfs.mount("base", env), births).lines()[:2]
        assert all((int(n) > 0) == (env == "e") for n in found), found
        count[env] = cowfs.run("--json", "show", env).json()[0]["requests"]
    assert count["f"] < count["e"]
    # What is mounted stays as it is; text says it, too.
    assert int(cowfs.sh(cowfs.path / "mnt/e", "stat -c %W new").out) > 0
    assert "birth-times: no\n" in cowfs.run("settings").out
    cowfs.run("settings", "--grace", "3")
    assert cowfs.run("--json", "settings").json()[0] == {
        "v": 1, "max_store": 0, "grace_days": 3, "birth_times": False}


def test_command_substitution_returns(cowfs, tree):
    """The server keeps no descriptor of the command that started it."""
    cowfs.load(tree)
    script = 'd=$(cowfs mount base e); cat <<EOF\n$d\nEOF\n'
    result = cowfs.finish(cowfs.spawn(["bash", "-c", script]), 20)
    assert result.out.strip() in mountpoint.mounts_below(cowfs.folder)
    for pid in mountpoint.processes_of(cowfs.path):
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert os.getsid(pid) != os.getsid(0)


def test_a_name_is_made_up_from_the_path(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base")
    rows = cowfs.run("--json", "ps").json()
    assert [r["name"] for r in rows] == [os.path.basename(point)]
    assert cowfs.mount("base") != point


def test_two_environments_do_not_see_each_other(cowfs, tree):
    cowfs.load(tree)
    a, b = cowfs.mount("base", "a"), cowfs.mount("base", "b")
    cowfs.sh(a, "echo changed > a.txt; rm -r gone; mkdir new; : > new/x; "
                "mv moved elsewhere; chmod 600 b.txt; printf Z | dd of=big "
                "bs=1 seek=5000 conv=notrunc status=none")
    assert_same_tree(cowfs, tree, b)
    assert cowfs.run("diff", "b").out == ""
    cowfs.sh(b, "echo other > a.txt")
    assert cowfs.sh(a, "cat a.txt").out == "changed\n"


def test_numbers_and_order_are_the_same_in_every_mount(cowfs, tree):
    cowfs.load(tree)
    a, b = cowfs.mount("base", "a"), cowfs.mount("base", "b")
    assert numbers(cowfs, a) == numbers(cowfs, b)
    before = numbers(cowfs, a)
    cowfs.run("umount", "--all")
    cowfs.run("daemon", "stop")
    assert numbers(cowfs, cowfs.mount("base", "c")) == before


def test_a_snapshot_is_named_by_id_prefix_and_tag(cowfs, tree):
    sid = cowfs.load(tree, "base:v1")
    assert cowfs.sh(cowfs.mount(sid, "a"), "cat a.txt").out == "alpha\n"
    cowfs.mount(sid[:12], "b")
    cowfs.mount("base:v1", "c")
    result = cowfs.run("mount", "base", "d", expect=3)  # means base:latest
    assert one_line_error(result), result


def test_mounting_again_prints_the_path(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    assert cowfs.mount("e") == point
    result = cowfs.run("mount", "base", "e", expect=3)
    assert one_line_error(result), result


def test_at_makes_and_removes_the_folder(cowfs, tree):
    cowfs.load(tree)
    at = cowfs.folder / "made/here"
    at.parent.mkdir()
    assert cowfs.mount("base", "e", "--at", at) == str(at)
    assert cowfs.sh(at, "cat a.txt").out == "alpha\n"
    cowfs.run("umount", "e")
    assert not at.exists() and at.parent.exists()


def test_at_prints_a_relative_path_as_given(cowfs, tree):
    cowfs.load(tree)
    out = cowfs.mount("base", "e", "--at", "rel", cwd=cowfs.folder)
    assert out == "rel"
    assert cowfs.sh(cowfs.folder / "rel", "cat a.txt").out == "alpha\n"


def test_at_an_empty_folder_leaves_it(cowfs, tree):
    cowfs.load(tree)
    at = cowfs.folder / "empty"
    at.mkdir()
    cowfs.mount("base", "e", "--at", at)
    cowfs.run("umount", "e")
    assert at.is_dir() and not list(at.iterdir())


@pytest.mark.parametrize("where", ["full", "store/x", "store", "file"])
def test_at_is_refused(cowfs, tree, where):
    cowfs.load(tree)
    (cowfs.folder / "full").mkdir()
    (cowfs.folder / "full/x").write_text("x")
    (cowfs.folder / "file").write_text("x")
    result = cowfs.run("mount", "base", "e", "--at", cowfs.folder / where,
                       expect=None)
    assert result.code in (2, 3) and one_line_error(result), result
    assert cowfs.run("--json", "ps").out == ""
    assert not (cowfs.path / "x").exists()


def test_a_store_inside_a_mount_is_refused(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    result = cowfs.run("--store", point + "/store", "import", tree,
                       expect=None)
    assert result.code in (2, 3) and one_line_error(result), result


STRANGER = """
import os, sys
def mode():
    return oct(os.stat("f").st_mode)[-4:]
with open("f", "wb") as f:
    f.write(b"x" * 10000)
os.chmod("f", 0o6777)
fd, other = os.open("f", os.O_RDWR), os.open("f", os.O_RDONLY)
{before}
os.seteuid(1234)
try:
    {call}
except PermissionError:
    pass
print(mode())
os.seteuid(0)
print(mode())
"""


@pytest.mark.parametrize("call,left", [
    ("os.chown('f', -1, -1)", "6777"),
    ("os.chown('f', -1, -1); os.pwrite(fd, b'y', 5)", "0777"),
    ("os.pwrite(fd, b'y', 5)", "0777"),
    ("os.ftruncate(fd, 5)", "0777"),
    ("os.posix_fallocate(fd, 0, 20000)", "0777"),
    ("os.copy_file_range(other, fd, 10, 0, 5000)", "0777")])
@pytest.mark.parametrize("owner,at_once", [(0, None), (1234, "0777")])
def test_setuid_goes_by_the_owner_or_with_a_write(
        cowfs, as_root, tree, call, left, owner, at_once):
    """Who neither owns a file nor writes it leaves its bits alone."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    before = f"os.chown('f', {owner}, {owner}); os.chmod('f', 0o6777)"
    out = cowfs.py(point, STRANGER.format(call=call, before=before)).out
    assert out.split() == [at_once or left] * 2


def test_others_may_use_the_mount_of_root(cowfs, as_root, tree):
    """By mode bits: a 0700 folder stays closed."""
    (tree / "gone").chmod(0o700)
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    user = "setpriv --reuid 65534 --regid 65534 --clear-groups "
    assert cowfs.sh(point, user + "cat a.txt").out == "alpha\n"
    assert cowfs.sh(point, user + "ls gone", expect=None).code != 0
    assert cowfs.sh(point, user + "touch x", expect=None).code != 0


def test_twenty_mounts_at_once(cowfs, tree):
    cowfs.load(tree)
    children = [cowfs.spawn(["cowfs", "mount", "base", f"e{i}"])
                for i in range(20)]
    results = [cowfs.finish(c, 60) for c in children]
    assert all(r.code == 0 for r in results), results
    assert len({r.out for r in results}) == 20
    rows = cowfs.run("--json", "ps").json()
    assert {r["name"] for r in rows} == {f"e{i}" for i in range(20)}
    for r in results[::7]:
        assert cowfs.sh(r.out.strip(), "cat a.txt").out == "alpha\n"


def test_one_name_at_once_gives_one_environment(cowfs, tree):
    cowfs.load(tree)
    cowfs.mount("base", "warm")
    children = [cowfs.spawn(["cowfs", "mount", "base", "same"])
                for _ in range(8)]
    codes = sorted(cowfs.finish(c, 60).code for c in children)
    assert codes == [0] + [3] * 7


def test_a_long_store_path(new_store, tree):
    """A socket path over 107 bytes."""
    store = new_store()
    store.path = store.folder / ("long" * 20) / ("path" * 15) / "store"
    store.path.parent.mkdir(parents=True)
    store.env["COWFS_STORE"] = str(store.path)
    store.load(tree)
    point = store.mount("base", "e")
    assert store.sh(point, "cat a.txt").out == "alpha\n"


def test_mounts_live_in_the_store_and_go(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    assert point.startswith(str(cowfs.path) + "/mnt/")
    sock = cowfs.path / "ctl.sock"
    assert sock.stat().st_mode & 0o777 == 0o600
    cowfs.run("umount", "e")
    cowfs.run("daemon", "stop")
    assert not mountpoint.mounts_below(cowfs.folder)
    assert not sock.exists()
    assert subprocess.run(["ls", "-A", cowfs.path / "mnt"],
                          capture_output=True).stdout == b""
