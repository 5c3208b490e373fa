# SPDX-License-Identifier: MIT
"""A full disk: ENOSPC where room is needed, and nothing else.

The store is on a file system of 64 MiB of its own. What was there before it
was full stays, byte by byte; deleting, `umount --keep` and mounting go on;
what was deleted can be used at once.
"""
import os
import subprocess

import pytest
from helpers import PYTHON, SUPPORT, one_line_error

KINDS = ["tar", "sqlite", "git"]
EARLIER = """
mkdir earlier
for i in 1 2 3 4 5 6 7 8; do seq $i $((i * 3000)) > earlier/f$i; done
sync earlier/f3
head -c 6000000 /dev/urandom > ballast
mv src elsewhere
rm -r gone
"""


@pytest.fixture
def small_disk(as_root, cowfs, tmp_path):
    """The store stands on an ext4 of 64 MiB."""
    image, point = tmp_path / "image", cowfs.folder / "disk"
    point.mkdir()
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-J", "size=4",
                    image], check=True)
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    cowfs.path = point / "store"
    cowfs.env["COWFS_STORE"] = str(cowfs.path)
    yield cowfs
    cowfs.run("umount", "--all", "--discard", expect=None)
    cowfs.run("daemon", "stop", expect=None)
    assert "BUG" not in cowfs.log()
    subprocess.run(["umount", point], check=True)


def fill(store, point, *args):
    return store.inside(point, [PYTHON, SUPPORT / "fill.py", *args],
                        limit=200)


def sums(store, point):
    return store.sh(point, "cksum earlier/* elsewhere/*.c a.txt big; ls gone "
                           "|| true").out


def free_bytes(store):
    v = os.statvfs(store.path)
    return v.f_bavail * v.f_frsize


@pytest.mark.parametrize("kind", KINDS)
def test_environment_runs_full(small_disk, tree, kind):
    cowfs = small_disk
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, EARLIER)
    before = sums(cowfs, point)
    units = fill(cowfs, point, "fill", kind).out.strip()
    assert int(units) > 20
    fill(cowfs, point, "check", kind, units)
    assert sums(cowfs, point) == before
    # Full as it is: kept, found again, checked.
    cowfs.run("umount", "e", "--keep")
    cowfs.run("fsck")
    cowfs.mount("e")
    fill(cowfs, point, "check", kind, units)
    assert sums(cowfs, point) == before
    # What is deleted can be used at once.
    cowfs.sh(point, "rm ballast")
    fill(cowfs, point, "more", kind, units)
    fill(cowfs, point, "check", kind, str(int(units) + 1))
    cowfs.kill_server()
    cowfs.mount("e")
    fill(cowfs, point, "check", kind, str(int(units) + 1))
    assert sums(cowfs, point) == before


def test_imports_run_full(small_disk, tree, tmp_path):
    cowfs = small_disk
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, EARLIER)
    before = sums(cowfs, point)
    big, done = tmp_path / "big", []
    while True:
        big.mkdir()
        for i in range(20):
            (big / f"f{i}").write_bytes(os.urandom(200000))
        result = cowfs.run("import", big, "-t", f"t{len(done)}", expect=None)
        if result.code:
            break
        done.append(f"t{len(done)}")
        big.rename(tmp_path / done[-1])
    assert result.code == 3 and one_line_error(result), result
    assert "full" in result.err and len(done) >= 3
    # The reserve: environments go on.
    cowfs.sh(point, "head -c 1000000 /dev/urandom > after; sync after")
    assert sums(cowfs, point) == before
    for name in done:
        path = cowfs.mount(name, "look")
        cowfs.sh(path, f"diff -r . {tmp_path / name}")
        cowfs.run("umount", "look", "--discard")
    # gc copies what lives on of a segment, so some room it needs.
    cowfs.run("rm", *done)
    cowfs.run("gc")
    cowfs.load(big, "again")
    cowfs.sh(cowfs.mount("again", "look"), f"diff -r . {big}")
    assert sums(cowfs, point) == before
    cowfs.run("umount", "--all", "--keep")
    cowfs.run("fsck")


def test_a_disk_that_others_fill(small_disk, tree):
    """Not one block is left: deleting and keeping work all the same."""
    cowfs = small_disk
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, EARLIER)
    before = sums(cowfs, point)
    foreign = cowfs.path.parent / "foreign"
    with pytest.raises(OSError), open(foreign, "wb", buffering=0) as f:
        while True:
            f.write(bytes(4096))
    assert free_bytes(cowfs) < 1 << 16
    out = cowfs.sh(point, "head -c 3000000 /dev/zero > more", expect=None)
    assert out.code and "No space left" in out.err
    cowfs.sh(point, "rm -f more; rm ballast earlier/f8; mv earlier moved;"
                    "mv moved earlier; chmod 600 a.txt")
    before = sums(cowfs, point)
    cowfs.run("umount", "e", "--keep")
    cowfs.run("mount", "e")
    assert sums(cowfs, point) == before
    foreign.unlink()
    cowfs.sh(point, "head -c 3000000 /dev/zero > more; sync more")
    assert sums(cowfs, point) == before
    cowfs.run("umount", "e", "--keep")
    cowfs.run("fsck")
