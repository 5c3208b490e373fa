# SPDX-License-Identifier: MIT
"""mount --artifact, umount --artifacts, and what umount --json tells."""
import json
import os
import shutil
import stat
import threading

import pytest

from conftest import skip_unless
from helpers import one_line_error, wait_until


@pytest.fixture
def box(loaded):
    loaded.out = loaded.folder / "out"
    return loaded


def mount(box, *patterns, name="e"):
    options = [word for p in patterns for word in ("--artifact", p)]
    return box.mount("base", name, *options)


def umount(box, *args, expect=0, **kw):
    return box.run("umount", "e", "--artifacts", box.out, *args,
                   expect=expect, **kw)


def found(top):
    """Paths of everything in it that is no directory, the logs left out."""
    paths = []
    for folder, dirs, names in os.walk(os.fsencode(top)):
        paths += [os.path.relpath(os.path.join(folder, n), os.fsencode(top))
                  for n in names]
    return sorted(os.fsdecode(p) for p in paths
                  if not p.startswith(b"cowfs-logs/"))


def envs(box):
    return [r["name"] for r in box.run("--json", "ps").json()]


# --- at the end of run --new -------------------------------------------------

def test_new_copies_them_in_the_end(box):
    """Also when the command has failed; the folder is the caller's."""
    got = box.run("run", "--new", "base", "--artifacts", "out", "--artifact",
                  "r/**", "--artifact", "*.log", "--", "sh", "-c",
                  "mkdir r; echo x > r/x; echo l > a.log; echo n > n; exit 7",
                  expect=7, cwd=box.folder)
    assert got.out == ""
    assert found(box.out) == ["a.log", "r/x"]
    assert list((box.out / "cowfs-logs").iterdir())
    assert envs(box) == []


def test_new_with_nowhere_to_copy_to_runs_nothing(box):
    box.out.mkdir()
    (box.out / "there").write_text("already\n")
    for options in (("--artifacts", box.out), ("--artifacts", "/etc/passwd"),
                    ("--artifacts", "/proc/none"),
                    ("--artifact", "../x", "--artifacts", box.folder / "a")):
        got = box.run("run", "--new", "base", *options, "--", "touch",
                      box.folder / "ran", expect=125)
        assert one_line_error(got), got
    assert envs(box) == [] and not (box.folder / "a").exists()
    assert sorted(os.listdir(box.out)) == ["there"]
    fine = box.folder / "fine"
    box.run("run", "--new", "base", "--artifacts", fine, "--", "true")
    assert os.listdir(fine) == ["cowfs-logs"]


def test_artifacts_are_those_of_new(box):
    box.mount("base", "e")
    for args in (("e", "--artifacts", box.out), ("e", "--artifact", "x"),
                 ("--new", "base", "--artifact", "x")):
        got = box.run("run", *args, "--", "true", expect=125)
        assert one_line_error(got) and "only with" in got.err
    assert not box.out.exists()


# --- what is copied ----------------------------------------------------------

FILES = ["a.log", "r/x.png", "r/dip/er/y.png", "r/.hidden", "r/z.txt",
         "src/r/w.png", "star*name", "q?", "lit[1]", "b\\s", "end/", "e.d/f"]


@pytest.mark.parametrize("pattern,want", [
    ("r/**", ["r/.hidden", "r/dip/er/y.png", "r/x.png", "r/z.txt"]),
    ("/r/**", ["r/.hidden", "r/dip/er/y.png", "r/x.png", "r/z.txt"]),
    ("r", ["r/.hidden", "r/dip/er/y.png", "r/x.png", "r/z.txt"]),
    ("./r//", ["r/.hidden", "r/dip/er/y.png", "r/x.png", "r/z.txt"]),
    ("r/*", ["r/.hidden", "r/dip/er/y.png", "r/x.png", "r/z.txt"]),
    ("r/*.png", ["r/x.png"]),
    ("*.png", []),
    ("**/*.png", ["r/dip/er/y.png", "r/x.png", "src/r/w.png"]),
    ("r/**/*.png", ["r/dip/er/y.png", "r/x.png"]),
    ("**/r/**", ["r/.hidden", "r/dip/er/y.png", "r/x.png", "r/z.txt",
                 "src/r/w.png"]),
    ("**/dip", ["r/dip/er/y.png"]),
    ("a.log/**", []),
    ("?.log", ["a.log"]),
    ("star\\*name", ["star*name"]),
    ("q\\?", ["q?"]),
    ("lit[1]", ["lit[1]"]),
    ("b\\\\s", ["b\\s"]),
    ("e.?/?", ["e.d/f"]),
    ("nothing/here", []),
])
def test_patterns(box, pattern, want):
    point = mount(box, pattern)
    box.py(point, f"""
        for path in {FILES!r}:
            if os.path.dirname(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
            if not path.endswith('/'):
                open(path, 'w').write(path)""")
    result = umount(box, "--discard")
    assert found(box.out) == want
    assert all((box.out / p).read_text() == p for p in want)
    assert ("no artifact is" in result.err) == (not want)
    assert envs(box) == []


def test_names_of_any_bytes(box):
    point = mount(box, "odd/**", "two/*\udcff*")
    box.py(point, """
        os.makedirs(b'odd/\\xff\\n'); os.mkdir('two')
        open(b'odd/\\xff\\n/ \\x01\\xfe', 'w').close()
        open(b'two/a\\xffb', 'w').close(); open(b'two/ab', 'w').close()""")
    umount(box)
    assert found(box.out) == ["odd/\udcff\n/ \x01\udcfe", "two/a\udcffb"]


def test_several_patterns_and_the_base(box):
    mount(box, "*.txt", "src/**")
    umount(box)
    assert "a.txt" in found(box.out)
    assert (box.out / "a.txt").read_text() == "alpha\n"


def test_patterns_are_kept_and_replaced(box):
    point = mount(box, "one")
    box.sh(point, "echo 1 > one; echo 2 > two")
    box.run("umount", "--keep", "e")
    box.run("daemon", "stop")
    box.mount("e")
    umount(box, "--keep")
    assert found(box.out) == ["one"] and envs(box) == ["e"]
    shutil.rmtree(box.out)
    box.mount("e", "--artifact", "two")
    umount(box)
    assert found(box.out) == ["two"] and envs(box) == []


@pytest.mark.parametrize("pattern", ["", "/", "..", "a/../b", ".", "x" * 5000,
                                     "a/" * 70])
def test_bad_patterns(box, pattern):
    assert one_line_error(box.run("mount", "base", "e", "--artifact", pattern,
                                  expect=2))
    assert envs(box) == []


# --- how it is copied --------------------------------------------------------

def test_kinds_modes_times_holes_and_links(box, tmp_path):
    point = mount(box, "r/**", "h2")
    secret = tmp_path / "secret"
    secret.write_text("s")
    box.py(point, f"""
        import socket
        os.makedirs('r/d')
        open('r/f', 'w').write('x' * 10)
        os.link('r/f', 'r/g'); os.link('r/f', 'h2'); os.link('r/f', 'h3')
        with open('r/sparse', 'wb') as f:
            f.seek(64 << 20); f.write(b'end'); f.truncate(65 << 20)
        os.symlink({str(secret)!r}, 'r/link')
        os.symlink('/etc', 'r/dir'); os.symlink('f', 'r/near')
        os.mkfifo('r/fifo')
        socket.socket(socket.AF_UNIX).bind('r/sock')
        os.chmod('r/f', 0o4751); os.chmod('r/d', 0o700)
        open('r/run', 'w').close(); os.chmod('r/run', 0o6777)
        os.utime('r/f', ns=(1, 1500000000123456789))
        os.utime('r/d', ns=(1, 1400000000123456789))""")
    result = umount(box)
    assert found(box.out) == ["h2", "r/f", "r/g", "r/run", "r/sparse"]
    assert "5 artifacts left out" in result.err
    st = (box.out / "r/f").stat()
    assert stat.S_IMODE(st.st_mode) == 0o751
    assert stat.S_IMODE((box.out / "r/run").stat().st_mode) == 0o755
    assert st.st_mtime_ns == 1500000000123456789 and st.st_nlink == 3
    assert st.st_uid == os.geteuid()
    assert st.st_ino == (box.out / "h2").stat().st_ino
    folder = (box.out / "r/d").stat()
    assert stat.S_IMODE(folder.st_mode) == 0o700
    assert folder.st_mtime_ns == 1400000000123456789
    sparse = box.out / "r/sparse"
    assert sparse.stat().st_size == 65 << 20
    assert sparse.stat().st_blocks * 512 <= 1 << 20
    with open(sparse, "rb") as f:
        f.seek(64 << 20)
        assert f.read(4) == b"end\0"


def test_never_through_a_link_in_the_environment(box, tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target/x").write_text("outside")
    point = mount(box, "r/**", "lnk/*", "lnk")
    box.py(point, f"os.symlink({str(tmp_path / 'target')!r}, 'lnk');"
                  "os.mkdir('r'); os.symlink('../lnk', 'r/l')")
    umount(box)
    assert found(box.out) == []


def test_never_through_a_link_in_the_target(box, tmp_path):
    box.out.symlink_to(tmp_path)
    point = mount(box, "f")
    box.sh(point, "echo x > f")
    assert one_line_error(umount(box, expect=3))
    assert envs(box) == ["e"] and os.listdir(point)
    assert "f" not in os.listdir(tmp_path)


def test_a_target_that_is_swapped_while_it_is_copied(box, tmp_path):
    """A process renames what appears there and puts links in its place."""
    target = tmp_path / "elsewhere"
    target.mkdir()
    done = threading.Event()
    swaps = [0]

    def swap():
        while not done.is_set():
            for top, dirs, _ in os.walk(box.out):
                for name in dirs:
                    path = os.path.join(top, name)
                    try:
                        os.rename(path, str(tmp_path / f"m{swaps[0]}"))
                        os.symlink(target, path)
                        swaps[0] += 1
                    except OSError:
                        pass

    point = mount(box, "r/**")
    box.py(point, "for i in range(30):\n"
                  "    for j in range(5):\n"
                  "        os.makedirs(f'r/{i}/{j}/x')\n"
                  "        open(f'r/{i}/{j}/x/f', 'w').write('x' * 5000)\n")
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(6):
            result = umount(box, "--keep", expect=None)
            assert result.code in (0, 3), result
            for entry in box.out.iterdir() if box.out.exists() else ():
                if entry.is_symlink():
                    entry.unlink(missing_ok=True)
                else:
                    shutil.rmtree(entry, ignore_errors=True)
            assert os.listdir(target) == []
            assert envs(box) == ["e"]
    finally:
        done.set()
        thread.join()
    assert swaps[0] > 0 and os.listdir(target) == []
    shutil.rmtree(box.out, ignore_errors=True)
    umount(box)
    assert len(found(box.out)) == 150


# --- nothing is lost ---------------------------------------------------------

def test_a_target_that_cannot_be_used(box, tmp_path):
    point = mount(box, "f")
    box.sh(point, "echo x > f")
    box.run("run", "-d", "e", "--", "sleep", "600")
    full = tmp_path / "full"
    full.mkdir()
    (full / "old").write_text("old")
    file = tmp_path / "file"
    file.write_text("")
    for target in (full, file, tmp_path / "no/such", box.path / "x",
                   f"{point}/out", point, box.path, "/", ".."):
        result = box.run("umount", "e", "--artifacts", target, expect=None)
        assert result.code in (2, 3) and one_line_error(result), target
    # Nothing was even ended for it.
    assert box.run("--json", "stat", "e").json()[0]["processes"] == 1
    assert os.listdir(full) == ["old"] and not (box.path / "x").exists()
    assert box.run("--json", "ps").json()[0]["state"] == "mounted"
    box.run("umount", "e", "--discard")


def test_a_full_disk(box, as_root, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = box.spawn(["mount", "-t", "tmpfs", "-o", "size=1m", "x", small])
    assert box.finish(mounted, 10).code == 0
    try:
        point = mount(box, "**/big")
        box.sh(point, "mkdir d; head -c 3000000 /dev/urandom > d/big")
        result = box.run("umount", "e", "--artifacts", small / "out", expect=3)
        assert one_line_error(result)
        assert "d/big: No space left on device" in result.err
        assert os.listdir(small) == [] and envs(box) == ["e"]
        assert os.path.getsize(
            os.path.join(box.mount("e"), "d/big")) == 3000000
        umount(box)
        assert os.path.getsize(box.out / "d/big") == 3000000
    finally:
        box.finish(box.spawn(["umount", small]), 10)


def test_a_name_that_appears_meanwhile(box):
    """Two at once into one directory: one of them is refused, and kept."""
    for name in "ab":
        box.sh(mount(box, "f", name=name), f"echo {name} > f")
    children = [box.spawn(["cowfs", "umount", name, "--artifacts",
                           str(box.out)]) for name in "ab"]
    codes = [box.finish(child, 60).code for child in children]
    if codes.count(0) == 2:
        pytest.fail(f"both: {found(box.out)}")
    assert sorted(codes) == [0, 3]
    assert (box.out / "f").read_text() == "ab"[codes.index(0)] + "\n"
    assert envs(box) == ["ab"[codes.index(3)]]
    assert sorted(os.listdir(box.out)) == ["f"]
    box.run("umount", *envs(box), "--discard")


def test_several_have_a_directory_each(box):
    for name in "ab":
        box.sh(mount(box, "f", name=name), f"echo {name} > f")
    box.run("umount", "--all", "--artifacts", box.out)
    assert found(box.out) == ["a/f", "b/f"] and envs(box) == []


def test_what_cannot_be_read(box):
    skip_unless(os.geteuid() != 0, "no root")
    point = mount(box, "f")
    box.sh(point, "echo x > f; chmod 0 f")
    assert one_line_error(umount(box, expect=3))
    assert envs(box) == ["e"] and not box.out.exists()
    box.run("umount", "e", "--discard")


# --- logs --------------------------------------------------------------------

def test_logs_are_taken_out(box):
    mount(box)
    box.run("run", "e", "--", "sh", "-c", "seq 500000; echo err >&2; exit 3",
            expect=3)
    box.run("run", "e", "true")
    want = box.run("logs", "e", "1")
    rows = box.run("logs", "e", "--json").out
    umount(box)
    logs = box.out / "cowfs-logs"
    assert sorted(os.listdir(logs)) == ["1.err", "1.out", "runs.json"]
    assert (logs / "1.out").read_text() == want.out
    assert (logs / "1.err").read_text() == "err\n"
    assert (logs / "runs.json").read_text() == rows
    assert json.loads(rows.splitlines()[0])["exit"] == 3


def test_nothing_to_take_leaves_nothing(box):
    mount(box)
    result = umount(box)
    assert result.err == "" and not box.out.exists()


# --- umount --json -----------------------------------------------------------

def last_row(result):
    return json.loads(result.out.splitlines()[-1])


def test_json_tells_what_was_done(box):
    point = mount(box, "made")
    box.sh(point, "echo x > made")
    box.run("run", "-d", "e", "--", "sh", "-c", "sleep 4000 & exec sleep 4001")
    wait_until(lambda: box.run("--json", "stat", "e").json()[0]["processes"]
               == 2, 10, "both")
    row = last_row(umount(box, "--json"))
    assert row["v"] == 1 and row["name"] == "e"
    assert [(p["kind"], p["command"]) for p in row["stopped"]] == \
        [("process", "sleep")] * 2
    assert all(not os.path.exists(f"/proc/{p['pid']}")
               for p in row["stopped"])
    assert set(row["freed"]) == {"sandbox", f"mount {point}"}
    assert row["rescue"].startswith("e-") and row["remained"] == []
    assert row["artifacts"] == str(box.out) and row["kept"] is False
    assert row["artifact_files"] == 1 and row["artifact_bytes"] == 2


def test_json_of_a_quiet_one_and_of_a_kept_one(box):
    mount(box)
    row = last_row(box.run("umount", "e", "--keep", "--json"))
    assert row["kept"] is True and row["stopped"] == []
    assert row["remained"] == [] and "rescue" not in row
    assert "artifacts" not in row
    row = last_row(box.run("umount", "e", "--json"))
    assert row["freed"] == [] and row["kept"] is False


def test_json_names_what_was_ended_elsewhere(box):
    point = mount(box)
    child = box.start_inside(point, ["sleep", "4002"])
    wait_until(lambda: box.run("umount", "e", "--dry-run", expect=None).code
               == 4, 10, "it is busy")
    result = box.run("umount", "e", "--kill", "--json")
    box.finish(child, 10)
    kinds = {(p["kind"], p["command"]) for p in last_row(result)["stopped"]}
    assert ("outside", "sleep") in kinds


def test_many_processes_are_ended_and_counted(box):
    mount(box)
    box.run("run", "-d", "e", "--", "sh", "-c",
            "for i in $(seq 600); do sleep 4003 & done; wait")
    wait_until(lambda: box.run("--json", "stat", "e").json()[0]["processes"]
               >= 601, 30, "all")
    row = last_row(box.run("umount", "e", "--json"))
    assert len(row["stopped"]) == 512 and row["stopped_more"] == 89
    assert row["remained"] == []
