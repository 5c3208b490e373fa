# SPDX-License-Identifier: MIT
"""What containers' root file systems ask of a view: devices, setuid files,
capabilities, owners, and kernel overlays over it and into it."""
import os
import subprocess
import stat

import pytest

import small_root
from conftest import skip_unless

pytestmark = pytest.mark.usefixtures("as_root")
NOBODY = 65534


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """A small root with what only root can put into one."""
    top = tmp_path_factory.mktemp("origin") / "root"
    small_root.make(top)
    if os.geteuid() != 0:
        return top
    os.mknod(top / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.chmod(top / "dev/null", 0o666)
    os.mknod(top / "dev/loop", 0o660 | stat.S_IFBLK, os.makedev(7, 300))
    os.chmod(top / "dev/loop", 0o660)
    (top / "bin/id").chmod(0o4755)
    (top / "secret").write_text("s3\n")
    (top / "secret").chmod(0o600)
    subprocess.run(["setcap", "cap_dac_read_search+ep", top / "bin/cat"],
                   check=True)
    (top / "dir/sub").mkdir(parents=True)
    for name in ("dir/one", "dir/two", "dir/sub/three", "gone"):
        (top / name).write_text(name + "\n")
    return top


@pytest.fixture
def view(cowfs, origin):
    cowfs.load(origin)
    cowfs.point = cowfs.mount("base", "e")
    return cowfs


def in_root(store, script, uid=0):
    return store.inside("/", ["chroot", f"--userspec={uid}:{uid}", store.point,
                              "/bin/sh", "-euc", script], expect=None)


def test_device_nodes_are_devices(view):
    out = in_root(view, "echo x > /dev/null; cat /dev/null; "
                        "stat -c '%F %t %T %a' /dev/null /dev/loop")
    assert out.out == "character special file 1 3 666\n" \
        "block special file 7 12c 660\n", out
    assert in_root(view, "mknod /dev/own c 1 3; echo x > /dev/own; "
                         "stat -c %t:%T /dev/own").out == "1:3\n"


def test_setuid_files_give_their_owner(view):
    assert in_root(view, "id -u", NOBODY).out == "0\n"
    # Who changes one takes the bit away; who owns it by root sets it.
    assert in_root(view, "chmod 0755 /bin/id").code == 0
    assert in_root(view, "id -u", NOBODY).out == f"{NOBODY}\n"


def test_capabilities_of_files_count(view):
    assert in_root(view, "cat /secret", NOBODY).out == "s3\n"
    in_root(view, "cp /bin/cat /bin/dog")  # which takes no xattrs along
    assert in_root(view, "dog /secret", NOBODY).code != 0
    # A change of the content takes them away.
    view.sh(view.point, "cat bin/dog > x; cat x > bin/cat; rm x")
    assert in_root(view, "cat /secret", NOBODY).code != 0


def test_owners_change_recursively(view):
    view.sh(view.point, "chown -R 1000:1001 .")
    odd = view.sh(view.point, "find . ! -uid 1000 -o ! -gid 1001").out
    assert odd == ""
    # As anywhere, files lose the bit with their owner, and capabilities.
    assert view.sh(view.point, "stat -c %a bin/id; getcap bin/cat").out == \
        "755\n"


@pytest.fixture
def overlay(view, tmp_path):
    """Mounts overlays; they go before the store does."""
    skip_unless(os.environ.get("COWFS_TESTS_ALONE") == "1", "alone")
    mounted = []

    def mount(lower, upper, work, *options):
        point = tmp_path / f"merged{len(mounted)}"
        point.mkdir(exist_ok=True)
        text = f"lowerdir={lower},upperdir={upper},workdir={work}"
        view.inside("/", ["mount", "-t", "overlay", "-o",
                          ",".join([text, *options]), "overlay", point])
        mounted.append(point)
        return point

    def umount():
        view.inside("/", ["umount", mounted.pop()])

    mount.away = umount
    yield mount
    while mounted:
        umount()


WORK = """
    ls dir | cat
    echo more >> dir/one        # copied up
    rm gone                     # a whiteout
    rm -r dir/sub; mkdir dir/sub; echo new > dir/sub/new     # opaque
    mv dir renamed; mkdir dir
    ln renamed/two hard; chown 5:6 hard
    mknod null c 1 3; mkfifo fifo
    setfattr -n user.x -v y renamed/two
"""
SEEN = """
    find . ! -name . ! -path './bin*' ! -path './lib*' ! -path './usr*' \
        -printf '%P %y %m %U %G\\n' | sort
    cat renamed/one renamed/sub/new hard; getfattr --only-values -n user.x hard
"""


def test_an_overlay_over_a_view(view, overlay, tmp_path):
    upper = tmp_path / "fs"
    upper.mkdir()
    view.inside("/", ["mount", "-t", "tmpfs", "tmpfs", upper])
    try:
        (upper / "u").mkdir()
        (upper / "w").mkdir()
        merged = overlay(view.point, upper / "u", upper / "w")
        view.sh(merged, "ls dir | cat; echo more >> dir/one; rm gone; "
                        "rm -r dir/sub; mkdir dir/sub; echo x > dir/new")
        assert view.sh(merged, "cat dir/one dir/new; ls dir/sub").out == \
            "dir/one\nmore\nx\n"
        assert view.sh(merged, "stat -c %a bin/id").out == "4755\n"
        assert view.run("diff", "e").out == ""
        # It holds the view, though nobody is in it.
        busy = view.run("umount", "e", expect=4)
        assert f"- mount {merged}" in busy.err.splitlines()
        assert view.sh(view.point, "cat gone").out == "gone\n"
        overlay.away()
    finally:
        view.inside("/", ["umount", upper])
    view.run("umount", "e")


def test_a_view_as_an_overlays_upper(view, overlay, origin):
    """All that an upper layer has to be: types in listings, trusted xattrs,
    whiteouts by rename; as the kernel's own file system does it."""
    view.sh(view.point, "mkdir u w")
    merged = overlay(origin, f"{view.point}/u", f"{view.point}/w",
                     "redirect_dir=on", "metacopy=on", "index=on")
    view.sh(merged, WORK)
    seen = view.sh(merged, SEEN).out
    lines = seen.splitlines()
    assert "gone f" not in seen and "dir d 755 0 0" in lines
    assert "renamed/sub/new f 644 0 0" in lines and "hard f 644 5 6" in lines
    assert not [x for x in lines if x.startswith("renamed/sub/three")]
    out = view.sh(view.point, "stat -c '%F %t:%T' u/gone; getfattr "
                  "--only-values -n trusted.overlay.redirect u/renamed; echo; "
                  "getfattr --only-values -n trusted.overlay.opaque "
                  "u/renamed/sub").lines()
    assert out[0] == "character special file 0:0"
    assert out[1].endswith("dir") and out[2] == "y", out
    # It is busy; unmounted and mounted again everything is as it was.
    assert view.run("umount", "e", expect=4)
    overlay.away()
    view.run("umount", "e", "--keep")
    view.point = view.mount("e")
    merged = overlay(origin, f"{view.point}/u", f"{view.point}/w",
                     "redirect_dir=on", "metacopy=on", "index=on")
    assert view.sh(merged, SEEN).out == seen
    overlay.away()
    # The origin is a lower layer: nobody writes there.
    assert (origin / "gone").exists() and (origin / "dir/sub/three").exists()


def test_the_kernel_has_nothing_to_complain_of(view, overlay, origin):
    """What an upper lacks is said in the kernel's log alone."""
    before = dmesg()
    view.sh(view.point, "mkdir u w")
    merged = overlay(origin, f"{view.point}/u", f"{view.point}/w")
    view.sh(merged, "mv gone went")
    new = dmesg()[len(before):]
    assert not [line for line in new if "overlayfs" in line
                and "not support" in line], new
    overlay.away()


def dmesg():
    out = subprocess.run(["dmesg"], stdout=subprocess.PIPE, text=True,
                         check=False)
    skip_unless(out.returncode == 0 and out.stdout, "dmesg")
    return out.stdout.splitlines()
