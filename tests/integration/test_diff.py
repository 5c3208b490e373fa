# SPDX-License-Identifier: MIT
"""diff: what changed, in the exact form that scripts rely on."""
import os

import pytest
from conftest import make_tree as base_tree  # noqa: F401
from conftest import skip_unless
from many_envs import env, shared  # noqa: F401

import mountpoint

# name, what is done, the lines that diff prints, options
CASES = [
    ("nothing", ":", [], []),
    ("reading", "cat a.txt b.txt > /dev/null; ls -R > /dev/null", [], []),
    ("new file", "echo x > new", ["A\tnew"], []),
    ("new empty file", ": > new", ["A\tnew"], []),
    ("new in a new folder", "mkdir n; echo x > n/x", ["A\tn/x"], []),
    ("new empty folder", "mkdir n", ["A\tn/"], []),
    ("nested new empty folders", "mkdir -p n/m/o", ["A\tn/m/o/"], []),
    ("new symlink", "ln -s x new", ["A\tnew"], []),
    ("new fifo", "mkfifo new", ["A\tnew"], []),
    ("new hard link", "ln b.txt new", ["A\tnew"], []),
    ("content", "echo x >> b.txt", ["M\tb.txt"], []),
    ("content of both names", "echo x >> a.txt",
     ["M\ta.txt", "M\tsrc/hard"], []),
    ("one byte of a big file",
     "printf Z | dd of=big bs=1 seek=99999 conv=notrunc status=none",
     ["M\tbig"], []),
    ("truncated", "truncate -s 5 big", ["M\tbig"], []),
    ("mode", "chmod 600 b.txt", ["M\tb.txt"], []),
    ("owner", "chown 12 b.txt", ["M\tb.txt"], []),
    ("group", "chgrp 12 b.txt", ["M\tb.txt"], []),
    ("xattr", "setfattr -n user.a -v b b.txt", ["M\tb.txt"], []),
    ("mode of a folder", "chmod 700 src", ["M\tsrc/"], []),
    ("xattr of a folder", "setfattr -n user.a -v b src", ["M\tsrc/"], []),
    ("mode of the root", "chmod 700 .", ["M\t./"], []),
    ("deleted", "rm b.txt", ["D\tb.txt"], []),
    ("deleted folder", "rm -r gone", ["D\tgone/", "D\tgone/one"], []),
    ("deleted symlink", "rm dangling", ["D\tdangling"], []),
    ("one of two names", "rm src/hard", ["D\tsrc/hard"], []),
    ("symlink for a file", "rm b.txt; ln -s x b.txt", ["T\tb.txt"], []),
    ("file for a symlink", "rm link; echo x > link", ["T\tlink"], []),
    ("another target", "ln -sfn b.txt link", ["M\tlink"], []),
    ("renamed", "mv b.txt c.txt", ["R100\tb.txt\tc.txt"], []),
    ("renamed to another folder", "mv b.txt src/deep/",
     ["R100\tb.txt\tsrc/deep/b.txt"], []),
    ("renamed twice", "mv b.txt x; mv x src/y", ["R100\tb.txt\tsrc/y"], []),
    ("renamed and back", "mv b.txt x; mv x b.txt", [], []),
    ("renamed symlink", "mv dangling x", ["R100\tdangling\tx"], []),
    ("renamed and changed", "mv b.txt x; echo >> x",
     ["D\tb.txt", "A\tx"], []),
    ("renamed and another in its place", "mv b.txt x; echo new > b.txt",
     None, []),
    ("created and removed", "echo x > n; rm n; mkdir d; rmdir d", [], []),
    ("removed and restored", "cp -a b.txt /dev/shm/$$; rm b.txt; "
     "cp -a /dev/shm/$$ b.txt; rm /dev/shm/$$", [], []),
    ("written and restored", "cp b.txt n; echo x >> b.txt; cat n > b.txt; "
     "rm n", [], []),
    ("mode and back", "chmod 600 b.txt; chmod 644 b.txt", [], []),
    ("same bytes written", "printf alpha | dd of=a.txt conv=notrunc "
     "status=none", [], []),
    ("touched", "touch b.txt", [], []),
    ("unlinked and open", "exec 3> n; rm n; echo x >&3", [], []),
    ("quoted names", "echo > 'a b'; echo > 'ta\tb'; echo > 'q\"q'; "
     "echo > 'b\\s'; echo > 'ü'; echo > 'nl\nnl'; echo > \"'\"",
     ["A\t'", "A\ta b", 'A\t"b\\\\s"', 'A\t"nl\\nnl"', 'A\t"q\\"q"',
      'A\t"ta\\tb"', 'A\t"\\303\\274"'], []),
    ("sorted by bytes", "mkdir d; : > d/x; : > d.txt; : > d-x; : > D",
     ["A\tD", "A\td-x", "A\td.txt", "A\td/x"], []),
    ("several", "rm gone/one; echo x > z; chmod 600 a.txt; mv b.txt b2",
     ["M\ta.txt", "R100\tb.txt\tb2", "D\tgone/one", "M\tsrc/hard", "A\tz"],
     []),
    ("NUL", "mv b.txt 'c\td'; echo x > new",
     "R100\0b.txt\0c\td\0A\0new\0", ["-z"]),
    ("name-status by name", "echo x > new", ["A\tnew"], ["--name-status"]),
]
ROOT = {"owner", "group"}
PUT = {"renamed and another in its place"}


@pytest.mark.parametrize("what, script, want, options",
                         [c for c in CASES if c[0] not in PUT],
                         ids=[c[0] for c in CASES if c[0] not in PUT])
def test_row(shared, env, what, script, want, options):
    if what in ROOT:
        skip_unless(os.geteuid() == 0, "root")
    name, point = env
    shared.sh(point, script)
    out = shared.run("diff", name, *options).out
    if isinstance(want, str):
        assert out == want
    else:
        assert out.split("\n") == want + [""]
    code = shared.run("diff", name, "--exit-code", *options, expect=None).code
    assert code == (1 if want else 0)


def test_renamed_folder(shared, env):
    """Its files, each as a pure rename, sorted by the new path."""
    name, point = env
    shared.sh(point, "mv moved elsewhere")
    rows = shared.run("diff", name).lines()
    assert [r for r in rows if not r.endswith("/")] == [
        "R100\tmoved/x\telsewhere/x", "R100\tmoved/y\telsewhere/y"]


def test_renamed_folder_with_a_change_inside(shared, env):
    name, point = env
    shared.sh(point, "mv moved elsewhere; echo more >> elsewhere/x; "
                     "rm elsewhere/y; echo n > elsewhere/z")
    rows = shared.run("diff", name).lines()
    assert [r for r in rows if not r.endswith("/")] == [
        "A\telsewhere/x", "A\telsewhere/z", "D\tmoved/x", "D\tmoved/y"]


def test_renamed_and_another_in_its_place(shared, env):
    name, point = env
    shared.sh(point, "mv b.txt x; echo new > b.txt")
    rows = shared.run("diff", name).lines()
    assert rows in (["M\tb.txt", "A\tx"], ["A\tb.txt", "R100\tb.txt\tx"],
                    ["M\tb.txt", "R100\tb.txt\tx"])


def test_a_file_and_a_folder_swap_places(shared, env):
    name, point = env
    shared.sh(point, "rm b.txt; mkdir b.txt; : > b.txt/in; rm -r gone; "
                     ": > gone")
    rows = shared.run("diff", name).lines()
    assert "A\tb.txt/in" in rows and "D\tgone/one" in rows
    assert "T\tgone" in rows or "T\tgone/" in rows, rows


def test_times(shared, env):
    name, point = env
    shared.sh(point, "touch -d '2001-02-03' b.txt; echo x > new")
    assert shared.run("diff", name).lines() == ["A\tnew"]
    rows = shared.run("diff", name, "--times").lines()
    assert "A\tnew" in rows and any(r.endswith("\tb.txt") for r in rows)


def test_stat_counts(shared, env):
    name, point = env
    shared.sh(point, "echo x > new; rm b.txt; echo x >> big")
    out = shared.run("diff", name, "--stat").out
    assert "new" in out and "b.txt" in out and "big" in out
    assert "3" in out.splitlines()[-1]


def test_stat_says_one_path(shared, env):
    name, point = env
    shared.sh(point, "echo x > new")
    rows = shared.run("diff", name, "--stat").lines()
    assert rows == [" new | 1 +", " 1 file changed, 1 insertion(+)"]


def test_stat_with_nul_is_fields_alone(shared, env):
    name, point = env
    old = shared.sh(point, "stat -c %s b.txt").out.strip()
    shared.sh(point, "mv b.txt 'c\td'; echo x > new; rm gone/one; "
                     "printf 123 > src/n")
    gone, = [r["old_size"] for r in shared.run("--json", "diff", name).json()
             if r["path"] == "gone/one"]
    out = shared.run("diff", name, "--stat", "-z").out
    assert out == (f"{old}\0{old}\0b.txt\0c\td\0"
                   f"{gone}\x000\0gone/one\0" "0\x002\0new\0"
                   "0\x003\0src/n\0")
    assert shared.run("diff", name, "--stat", "-z", "--exit-code",
                      expect=1).out == out


def test_json(shared, env):
    name, point = env
    shared.sh(point, "mv b.txt c.txt; echo x > 'new\tfile'")
    rows = shared.run("--json", "diff", name).json()
    assert len(rows) == 2 and all(r["v"] == 1 for r in rows)
    assert [r["path"] for r in rows] == ["c.txt", "new\tfile"]


def test_ten_thousand_new_files(shared, env):
    name, point = env
    shared.py(point, """
        os.mkdir('many')
        for i in range(10000):
            os.close(os.open(f'many/{i:05}', os.O_CREAT | os.O_WRONLY))""")
    rows = shared.run("diff", name).lines()
    assert rows == [f"A\tmany/{i:05}" for i in range(10000)]


def test_dirty_shared_mapping_shows(shared, env):
    """Diff has the kernel write back what is dirty before it answers."""
    name, point = env
    child = shared.start_inside(point, [mountpoint.PYTHON, "-uc", """
import mmap, sys
f = open('b.txt', 'r+b')
m = mmap.mmap(f.fileno(), 0)
m[0:4] = b'BETA'
print('dirty', flush=True)
sys.stdin.readline()"""], stdin=-1)
    assert child.stdout.readline() == b"dirty\n"
    try:
        assert shared.run("diff", name).lines() == ["M\tb.txt"]
    finally:
        child.communicate(b"\n", 20)


def test_many_dirty_shared_mappings_show(cowfs, tmp_path):
    """More pages than the kernel queues at a time; none is overlooked."""
    top = tmp_path / "top"
    top.mkdir()
    for i in range(600):
        (top / f"f{i:03}").write_bytes(b"x" * 4096)
    cowfs.load(top)
    point = cowfs.mount("base", "e")
    child = cowfs.start_inside(point, [mountpoint.PYTHON, "-uc", """
import mmap, sys
maps = []
for i in range(600):
    with open(f'f{i:03}', 'r+b') as f:
        maps.append(mmap.mmap(f.fileno(), 0))
for m in maps:
    m[0:1] = b'y'
print('dirty', flush=True)
sys.stdin.readline()"""], stdin=-1)
    assert child.stdout.readline() == b"dirty\n"
    try:
        assert len(cowfs.run("diff", "e").lines()) == 600
    finally:
        cowfs.finish(child, 20, b"\n")
