# SPDX-License-Identifier: MIT
"""export --tar and import --tar: ids, bytes, and archives that lie."""
import gzip
import hashlib
import io
import os
import pty
import shutil
import signal
import subprocess
import tarfile
import time

import pytest
from helpers import fewer, one_line_error, store_state
from mountpoint import binary, required
from test_import import all_kinds

EMPTY_END = 1024  # bytes of zeros at the end
GOLDEN = ("3c308534cb9fec0b40ab6d50022baaad"
          "1e29403e0f88dc9c27bf7e3cc1c7fe46")


def everything(top):
    """What an archive can hold, and what needs its rarer headers."""
    all_kinds(top)
    long = "l" * 200
    (top / long / long).mkdir(parents=True)
    (top / long / long / "deep").write_text("deep")
    os.link(top / long / long / "deep", top / long / "again")
    os.link(top / "link", top / "link2", follow_symlinks=False)
    os.link(top / "fifo", top / "moved/fifo")
    (top / "far").symlink_to("t/" * 300)
    for name in ("nfd e\u0301", "equal=sign", "%41"):
        (top / name).write_text(name)
    os.setxattr(top / "a.txt", "user.k=v%20", b"odd name")
    os.setxattr(top, "user.root", b"r")
    for name, size, data in (("one byte", 9 << 30, 5 << 30),
                             ("start", 1 << 20, 0),
                             ("end", (1 << 20) + 1, 1 << 20)):
        with open(top / name, "wb") as f:
            f.truncate(size)
            f.seek(data)
            f.write(b"x")
    with open(top / "only a hole", "wb") as f:
        f.truncate(10 << 30)
    (top / "zeros").write_bytes(bytes(5000))
    os.chown(top / "moved", 3_000_000, 4_000_000_000)
    os.utime(top / "zeros", ns=(0, -9_750_000_000))
    os.utime(top / "link", ns=(0, 77_500_000_000), follow_symlinks=False)
    top.chmod(0o700)


def archive(path, *entries):
    """Writes an archive of (name, attributes, data)."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as t:
        for name, attributes, *data in entries:
            m = tarfile.TarInfo(name)
            if data:
                m.size = len(data[0])
            for key, value in attributes.items():
                setattr(m, key, value)
            t.addfile(m, io.BytesIO(data[0]) if data else None)
    return path


def link(to):
    return {"type": tarfile.LNKTYPE, "linkname": to}


def symlink(to):
    return {"type": tarfile.SYMTYPE, "linkname": to}


DIR = {"type": tarfile.DIRTYPE, "mode": 0o755}


def unpacked(store, path):
    """The same archive as tar unpacks it, imported as a directory."""
    folder = store.folder / "unpacked"
    folder.mkdir()
    subprocess.run(["tar", "-C", folder, "--numeric-owner", "-xpf", path],
                   check=True)
    result = store.load(folder, "unpacked")
    shutil.rmtree(folder)
    return result


def read_in(store, path, *options):
    return store.run("import", "--tar", path, *options).out.strip()


def refused(store, path, *words, code=3, options=()):
    """One line that says why, and nothing of it in the store."""
    result = store.run("import", "--tar", path, *options, expect=code)
    assert one_line_error(result), result
    for word in words:
        assert word in result.err, result.err
    assert store.run("snapshots").out == ""


# --- there and back ----------------------------------------------------------

def test_round_trip(new_store, as_root, tree):
    everything(tree)
    a, b = new_store(), new_store()
    snapshot = a.load(tree)
    first, again = a.folder / "1.tar", a.folder / "2.tar"
    assert a.run("export", "base", "--tar", first).out == snapshot + "\n"
    a.run("export", snapshot, "--tar", again)
    assert first.read_bytes() == again.read_bytes()
    assert first.stat().st_size < 2 << 20  # no hole was written
    assert read_in(b, first, "-t", "x") == snapshot
    assert first.read_bytes() == subprocess.run(
        [binary(), "export", "x", "--tar", "-"], env=b.env, check=True,
        stdout=subprocess.PIPE).stdout
    assert b.run("fsck").out.endswith("0 problems\n")


def test_tools_unpack_an_equal_tree(plain, as_root, tree):
    everything(tree)
    # what bsdtar does in its own way: it composes letters, reads fractions of
    # negative numbers otherwise, and knows no '%' in names of attributes
    for name in ("nfd e\u0301", "zeros", "a.txt", "src/hard"):
        (tree / name).unlink()
    os.utime(tree / "run.sh", (5, 5))
    os.setxattr(tree / "run.sh", "user.k", b"v")
    snapshot = plain.load(tree)
    out = plain.folder / "1.tar"
    plain.run("export", "base", "--tar", out)
    commands = [["tar", "--xattrs", "--xattrs-include=*", "--acls"]]
    if shutil.which("bsdtar") or required("bsdtar"):
        commands.append(["bsdtar"])
    for command in commands:
        to = plain.folder / command[0]
        to.mkdir()
        subprocess.run([*command, "--numeric-owner", "-C", to, "-xpf", out],
                       check=True, stderr=subprocess.DEVNULL)
        st = tree.stat()  # bsdtar forgets that of "./"
        os.utime(to, ns=(st.st_atime_ns, st.st_mtime_ns))
        assert plain.load(to, "x") == snapshot, command[0]
        shutil.rmtree(to)


def test_archives_of_others(plain, as_root, tree):
    """As the directory itself: pax and GNU, sparse files in either form."""
    everything(tree)
    # tar makes hard links of files only, and libarchive loses a sign
    for name in ("moved/fifo", "a.txt", "src/hard"):
        (tree / name).unlink()
    snapshot = plain.load(tree)
    for options in (["--sparse-version=1.0"], ["--sparse-version=0.1"]):
        out = plain.folder / "gnu.tar"
        subprocess.run(["tar", "--format=posix", "--xattrs", "--acls",
                        "--xattrs-include=*", "--numeric-owner", "-S",
                        *options, "-C", tree, "-cf", out, "."], check=True)
        assert read_in(plain, out) == snapshot, options
    old = plain.folder / "old.tar"
    subprocess.run(["tar", "--format=gnu", "-S", "--numeric-owner", "-C", tree,
                    "-cf", old, "."], check=True)
    assert read_in(plain, old) == unpacked(plain, old)


@pytest.mark.parametrize("tool", ["gzip", "zstd", "xz", "bzip2"])
def test_compression(plain, tree, tool):
    plain.load(tree)
    out = plain.folder / "1.tar"
    snapshot = plain.run("export", "base", "--tar", out).out.strip()
    packed = subprocess.run([tool, "-c", out], check=True,
                            stdout=subprocess.PIPE).stdout
    (plain.folder / "packed").write_bytes(packed)
    assert read_in(plain, plain.folder / "packed") == snapshot
    result = subprocess.run([binary(), "import", "--tar", "-"], env=plain.env,
                            input=packed, stdout=subprocess.PIPE, check=True)
    assert result.stdout.decode().strip() == snapshot
    cut = packed[:len(packed) * 2 // 3]
    (plain.folder / "packed").write_bytes(cut)
    result = plain.run("import", "--tar", plain.folder / "packed", expect=3)
    assert one_line_error(result)


def test_environment(cowfs, as_root, tree):
    everything(tree)
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    out, again = cowfs.folder / "1.tar", cowfs.folder / "2.tar"
    base = cowfs.run("export", "base", "--tar", out).out
    assert cowfs.run("export", "e", "--tar", again).out == base
    assert out.read_bytes() == again.read_bytes()
    cowfs.sh(point, "rm -r src; echo new > new; ln new moved/new; mkdir -p p/q;"
             "echo more >> b.txt; setfattr -n user.n -v 1 new; ln a.txt z")
    cowfs.py(point, "import socket; socket.socket(1).bind('p/sock')")
    result = cowfs.run("export", f"{point}/moved", "--tar", out)
    assert "left out a socket: p/sock" in result.err
    assert cowfs.load(point, "through") == result.out.strip() != base.strip()
    cowfs.run("umount", "--keep", "e")
    assert cowfs.run("export", "e", "--tar", again).out == result.out
    assert out.read_bytes() == again.read_bytes()
    names = cowfs.run("snapshots").lines()
    assert len(names) == 3, names  # none of them is an export's


def test_environment_while_it_is_written(cowfs, tree):
    """One moment: of two files written in turn, none is ahead by two."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    writer = cowfs.start_inside(
        point, ["sh", "-c", "i=0; while :; do i=$((i+1));"
                "printf %06d $i > one; printf %06d $i > two; done"])
    out = cowfs.folder / "1.tar"
    seen = []
    try:
        while len(seen) < 5:
            cowfs.run("export", "e", "--tar", out)
            with tarfile.open(out) as t:
                if "two" not in t.getnames():
                    continue
                texts = [t.extractfile(n).read() for n in ("one", "two")]
            if all(texts):  # a new content begins with none
                seen.append([int(text) for text in texts])
    finally:
        os.killpg(writer.pid, signal.SIGKILL)
        cowfs.finish(writer, 10)
    assert all(one - two in (0, 1) for one, two in seen), seen
    assert seen[0] != seen[-1]


# --- where to ------------------------------------------------------------------

def test_export_is_all_or_nothing(plain, tree):
    plain.load(tree)
    folder = plain.folder / "out"
    folder.mkdir()
    kept = folder / "kept"
    kept.write_text("kept")
    (folder / "by link").symlink_to("kept")
    # a damaged store: the file stays what it was
    result = plain.run("export", "nothing", "--tar", kept, expect=3)
    assert one_line_error(result)
    assert kept.read_text() == "kept" and len(os.listdir(folder)) == 2
    plain.run("export", "base", "--tar", folder / "by link")
    assert (folder / "by link").is_symlink()
    assert tarfile.open(kept).getnames()[0] == "."
    assert len(os.listdir(folder)) == 2
    for name, code in ((folder, 2), (folder / "no/such", 2),
                       ("/dev/full", 3)):
        assert one_line_error(
            plain.run("export", "base", "--tar", name, expect=code))
    assert one_line_error(plain.run("export", "base", expect=2))
    plain.run("export", "base", "--tar", "/dev/null")


def test_no_terminal(plain, tree):
    plain.load(tree)
    master, side = pty.openpty()
    try:
        for args, kw in ((["export", "base"], {"stdout": side}),
                         (["import"], {"stdin": side})):
            done = subprocess.run([binary(), *args, "--tar", "-"],
                                  env=plain.env, stderr=subprocess.PIPE, **kw)
            assert done.returncode == 2 and b"terminal" in done.stderr
    finally:
        os.close(master)
        os.close(side)


def test_gc_waits_for_no_silent_pipe(plain, tree):
    plain.load(tree)
    p = subprocess.Popen([binary(), "import", "--tar", "-"], env=plain.env,
                         stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    time.sleep(0.2)
    plain.run("gc", limit=10)
    p.stdin.close()
    assert p.wait(10) == 3


def test_bytes_stay_the_same(plain):
    """Between versions, too: what this is was looked at once."""
    xattrs = {"SCHILY.xattr.user.k": "v", "mtime": "1234567890.5"}
    out = archive(
        plain.folder / "1.tar", ("d", {**DIR, "mtime": -5}),
        ("d/f", {"uid": 1 << 30, "mode": 0o4711, "pax_headers": xattrs}, b"x"),
        ("d/g", link("d/f")), ("n" * 150, symlink("t" * 150)),
        ("\u00fc", {"type": tarfile.CHRTYPE, "devmajor": 5, "devminor": 300}),
        ("sparse", {}, bytes(131072) + b"y" + bytes(300000)))
    read_in(plain, out, "-t", "x")
    plain.run("export", "x", "--tar", out)
    assert hashlib.sha256(out.read_bytes()).hexdigest() == GOLDEN


def test_damage_is_told(plain, tree):
    (tree / "big").write_bytes(os.urandom(300_000))
    plain.load(tree)
    content = (tree / "big").read_bytes()[:1000]
    hit = 0
    for segment in (f for f in plain.path.rglob("*") if f.is_file()):
        data = segment.read_bytes()
        if content in data:
            segment.write_bytes(data.replace(content, bytes(1000)))
            hit += 1
    assert hit == 1
    out = plain.folder / "1.tar"
    result = plain.run("export", "base", "--tar", out, expect=3)
    assert one_line_error(result) and not out.exists()


def test_options(plain, tree):
    out = archive(plain.folder / "1.tar", ("a/b", {}, b"x"), ("c", {}, b"y"),
                  ("a/l", link("c")))
    for args in (["--tar", out, tree], ["--tar", out, "--rescan"],
                 ["--tar", out, "--max-size", "much"],
                 ["--tar", out, "--max-files", "-1"],
                 ["--tar", plain.folder / "none"], ["--tar", plain.folder],
                 [tree, "--max-size", "1G"]):
        assert one_line_error(plain.run("import", *args, expect=2)), args
    assert not plain.path.exists()
    plain.run("import", "--tar", out, "-t", "cut", "--exclude", "a/b", "-m",
              "note")
    again = plain.folder / "2.tar"
    plain.run("export", "cut", "--tar", again)
    assert tarfile.open(again).getnames() == [".", "a", "a/l", "c"]
    assert str(out) in plain.run("snapshots").out
    result = plain.run("import", "--tar", out, "--exclude", "c", expect=3)
    assert "--exclude leaves out" in result.err


# --- entries as tar takes them --------------------------------------------------

AS_TAR = [
    [("x", {}, b"old"), ("y", link("x")), ("x", {}, b"new")],
    [("x", {}, b"old"), ("x", link("x")), ("z", link("./x"))],
    [("d", DIR), ("d", {"type": tarfile.DIRTYPE, "mode": 0o700})],
    [("x", symlink("etc")), ("x", {}, b"now a file")],
    [("d", DIR), ("d", symlink("x"))],
    [("b", {}, b"1"), ("a", {}, b"2"), ("b-c", {}, b"3"), ("b.d", DIR)],
    [("s", symlink("nowhere")), ("t", link("s"))],
    [("./", {"type": tarfile.DIRTYPE, "mode": 0o750, "uid": 7}),
     (".//x", {}, b"1")],
]


def test_as_tar_does(plain, as_root):
    for entries in AS_TAR:
        # the root's time is set, or it would be the time of unpacking
        out = archive(plain.folder / "1.tar", ("./", DIR), *entries)
        assert read_in(plain, out) == unpacked(plain, out), entries


def test_what_is_missing_is_made(plain):
    out = archive(plain.folder / "1.tar", ("/abs/deep/x", {}, b"1"))
    read_in(plain, out, "-t", "x")
    again = plain.folder / "2.tar"
    plain.run("export", "x", "--tar", again)
    for m in tarfile.open(again).getmembers()[:3]:
        assert (m.mode, m.uid, m.gid, m.mtime) == (0o755, 0, 0, 0), m.name
    assert tarfile.open(again).getnames()[-1] == "abs/deep/x"


def test_nothing_at_all(plain):
    out = archive(plain.folder / "1.tar")
    read_in(plain, out, "-t", "x")
    plain.run("export", "x", "--tar", out)
    assert tarfile.open(out).getnames() == ["."]


# --- archives that lie -----------------------------------------------------------

REFUSED = [
    (("..",), [("../x", {}, b"1")]),
    (("..",), [("a/../../x", {}, b"1")]),
    (("..",), [("x", link("../../etc/passwd"))]),
    (("hard link",), [("x", link("/etc/passwd"))]),
    (("hard link",), [("x", link("y")), ("y", {}, b"1")]),
    (("directory",), [("d", DIR), ("x", link("d"))]),
    (("symbolic link",), [("x", symlink("/tmp")), ("x/y", {}, b"1")]),
    (("symbolic link",), [("d", DIR), ("d/x", symlink("..")),
                          ("d/x/y/z", {}, b"1")]),
    (("symbolic link",), [("x", symlink(".")), ("f", {}, b"1"),
                          ("h", link("x/f"))]),
    (("no directory",), [("x", {}, b"1"), ("x/y", {}, b"2")]),
    (("names in it",), [("d", DIR), ("d/x", {}, b"1"), ("d", symlink("/"))]),
    (("names in it",), [("d/x", {}, b"1"), ("d", {}, b"a file")]),
    (("root",), [("./", symlink("/etc"))]),
    (("root",), [(".", {}, b"a file")]),
    (("long",), [("n" * 256, {}, b"1")]),
    (("long",), [("d/" * 5000 + "x", {}, b"1")]),
    (("owner",), [("x", {"uid": 1 << 32}, b"1")]),
    (("--max-size",), [("x", {"size": 1 << 41})]),
    (("larger",), [("x", {"size": 1 << 60})]),
    (("--max-size",), [("x", {"pax_headers": {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0",
        "GNU.sparse.name": "x", "GNU.sparse.realsize": str(1 << 41)}},
        b"1\n0\n1\n" + bytes(506) + b"x")]),
    (("",), [("x", {"pax_headers": {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0",
        "GNU.sparse.name": "x", "GNU.sparse.realsize": "10"}},
        b"1\n4096\n1\n" + bytes(503) + b"x")]),
]


def test_refused(plain):
    for words, entries in REFUSED:
        refused(plain, archive(plain.folder / "bad.tar", *entries), *words)


def test_limits(plain):
    many = archive(plain.folder / "many.tar",
                   *((f"f{i}", {}, b"12345") for i in range(20)))
    refused(plain, many, "--max-files", options=("--max-files", "20"))
    refused(plain, many, "--max-size", options=("--max-size", "99"))
    read_in(plain, many, "--max-files", "21", "--max-size", "100")


def test_bombs_stay_small(plain):
    """A file of zeros packed a thousandfold, and sparse ones: holes."""
    out = plain.folder / "bomb.tar"
    with tarfile.open(out, "w:gz", compresslevel=1) as t:
        m = tarfile.TarInfo("zeros")
        m.size = 32 << 20
        t.addfile(m, open("/dev/zero", "rb"))
    refused(plain, out, "--max-size", options=("--max-size", "20M"))
    read_in(plain, out)
    size = sum(f.stat().st_size for f in (plain.path / "objects").rglob("*"))
    assert size < 4 << 20


def test_garbage(plain):
    bad = plain.folder / "bad.tar"
    for data in (b"", b"no archive\n" * 100, bytes(100),
                 b"\x1f\x8b" + bytes(range(200))):
        bad.write_bytes(data)
        refused(plain, bad)


def cuts(size, end):
    """All boundaries of blocks where an archive is not whole, some others."""
    step = max(512, (end // fewer(25)) // 512 * 512)
    return [*range(512, end + 1, step), 1, 511, 513, end - 1, end, size // 3]


def taken_out(store, tree):
    """Its archive, and the id, when the store has nothing of it any more."""
    store.load(tree)
    whole = store.folder / "1.tar"
    snapshot = store.run("export", "base", "--tar", whole).out.strip()
    store.run("rm", "base")
    store.run("gc")
    return whole, snapshot


def test_truncated_anywhere(plain, tree):
    whole, snapshot = taken_out(plain, tree)
    data = whole.read_bytes()
    before = store_state(plain.path)
    part = plain.folder / "part.tar"
    for n in cuts(len(data), len(data) - EMPTY_END):
        part.write_bytes(data[:n])
        result = plain.run("import", "--tar", part, expect=3)
        assert one_line_error(result), n
    assert plain.run("snapshots").out == ""
    plain.run("gc")
    assert set(store_state(plain.path)) == set(before)
    part.write_bytes(data[:-512])  # one of the two blocks is enough
    assert read_in(plain, part) == snapshot
    part.write_bytes(data + b"what follows the end is not read")
    assert read_in(plain, part) == snapshot


def test_killed_half_way(plain, tree):
    """What a killed import stored is garbage for gc, and nothing else."""
    (tree / "big").write_bytes(os.urandom(8 << 20))
    whole, snapshot = taken_out(plain, tree)
    data = whole.read_bytes()
    for n in (0, 1000, 1 << 20, len(data) - 2048):
        p = subprocess.Popen([binary(), "import", "--tar", "-"],
                             env=plain.env, stdin=subprocess.PIPE)
        p.stdin.write(data[:n])
        p.stdin.flush()
        time.sleep(0.1)
        p.send_signal(signal.SIGKILL)
        p.wait(10)
        p.stdin.close()
        assert plain.run("snapshots").out == ""
        plain.run("gc")
        assert plain.run("fsck").out.endswith("0 problems\n")
    left = sum(f.stat().st_size for f in (plain.path / "objects").rglob("*"))
    assert left < 1 << 20
    assert read_in(plain, whole) == snapshot


@pytest.mark.long
def test_a_million_names(plain):
    """Time and memory of many small files in one archive."""
    out = plain.folder / "many.tar"
    empty = tarfile.TarInfo().tobuf(tarfile.USTAR_FORMAT)
    tail = empty[100:148], empty[156:]
    plain_sum = sum(empty[:148]) + 8 * 32 + sum(empty[156:])
    with open(out, "wb") as f:
        for i in range(1_000_000):
            name = b"d%d/e%d/file%d" % (i % 1000, i % 17, i)
            f.write(name.ljust(100, b"\0") + tail[0] +
                    b"%06o\0 " % (plain_sum + sum(name)) + tail[1])
        f.write(bytes(EMPTY_END))
    done = subprocess.run(
        ["/usr/bin/time", "-f", "%e %M", binary(), "import", "--tar", out],
        env=plain.env, stderr=subprocess.PIPE, check=True, text=True)
    seconds, kib = done.stderr.split()[-2:]
    assert float(seconds) < 120
    assert int(kib) < 500 << 10


@pytest.mark.long
def test_a_list_of_holes_has_bounds(plain):
    """350 KiB that want a gigabyte: there is no memory for it."""
    out = plain.folder / "holes.tar.gz"
    count = 20_000_000
    data = f"{count}\n".encode() + b"0\n0\n" * count
    archive(plain.folder / "holes.tar", ("x", {"pax_headers": {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0",
        "GNU.sparse.name": "x", "GNU.sparse.realsize": "10"}}, data))
    out.write_bytes(gzip.compress((plain.folder / "holes.tar").read_bytes(), 1))
    (plain.folder / "holes.tar").unlink()
    refused(plain, out, "memory", options=("--max-files", "10000"))


@pytest.mark.long
def test_no_slower_than_tar(plain):
    """300 MiB of real files, at most 1.0 x tar xf and sync -f, 128 MiB."""
    out = plain.folder / "usr.tar"
    total = 0
    with tarfile.open(out, "w", format=tarfile.PAX_FORMAT) as t:
        for top, dirs, names in os.walk("/usr/share"):
            dirs.sort()
            for name in sorted(names):
                path = os.path.join(top, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    t.add(path)
                    total += os.path.getsize(path)
            if total > 300 << 20:
                break
    if total < 300 << 20:
        pytest.skip("/usr/share is too small")
    ratios = []
    for i in range(3):
        to = plain.folder / f"to{i}"
        to.mkdir()
        subprocess.run(["sync", "-f", to], check=True)
        t0 = time.monotonic()
        subprocess.run(f"tar -C {to} -xf {out} && sync -f {to}", shell=True,
                       check=True)
        t1 = time.monotonic()
        done = subprocess.run(
            ["/usr/bin/time", "-f", "%M", binary(), "--store",
             plain.folder / f"s{i}", "import", "--tar", out],
            env=plain.env, stderr=subprocess.PIPE, check=True, text=True)
        ratios.append((time.monotonic() - t1) / (t1 - t0))
        assert int(done.stderr.split()[-1]) < 128 << 10
        shutil.rmtree(to)
    assert sorted(ratios)[1] <= 1.0, ratios
