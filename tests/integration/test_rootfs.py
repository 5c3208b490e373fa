# SPDX-License-Identifier: MIT
"""run --rootfs: an environment is the root of its own sandbox."""
import os
import pathlib
import tempfile

import pytest

import mountpoint
import small_root
from helpers import one_line_error, wait_until

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PRIVATE = {"/", "/proc", "/dev", "/tmp"}


@pytest.fixture(scope="module")
def origin():
    with tempfile.TemporaryDirectory(prefix="cowfs-t-") as folder:
        os.chmod(folder, 0o755)
        top = pathlib.Path(folder) / "root"
        small_root.make(top)
        yield top


@pytest.fixture
def root(at_home, origin):
    """A store with an environment e of a small root."""
    at_home.tree = origin
    at_home.load(origin)
    at_home.point = at_home.mount("base", "e")
    return at_home


def rsh(store, script, *options, **kw):
    return store.run("run", "--rootfs", *options, "e", "--", "sh", "-c",
                     script, **kw)


def changes(store):
    return store.run("diff", "e").lines()


def test_the_environment_is_the_root(root):
    out = rsh(root, "pwd; cat /etc/os-release; ls /").lines()
    assert out[:2] == ["/", 'NAME="small"']
    assert out[2:] == sorted(os.listdir(root.tree))
    assert changes(root) == []
    rsh(root, "echo new > /etc/made; mkdir /opt; rm /etc/group")
    assert changes(root) == ["D\tetc/group", "A\tetc/made", "A\topt/"]
    assert not (root.tree / "etc/made").exists()


def test_nothing_of_the_host_is_there(root, tmp_path):
    """Every mount and every path that the host has and the root has not."""
    secret = tmp_path / "secret"
    secret.write_text("s")
    out = rsh(root, "cat /proc/self/mountinfo").lines()
    points = {line.split()[4]: line for line in out}
    assert set(p for p in points if not p.startswith(("/proc/", "/dev/"))) \
        == PRIVATE
    # What lies in these is the kernel's, never a file system on a disk.
    for point, line in points.items():
        kind = line.split(" - ")[1].split()[0]
        assert kind in ("fuse.cowfs" if point == "/" else
                        ("proc", "tmpfs", "devtmpfs", "devpts", "mqueue")), \
            line
    for path in (secret, root.path, root.home, root.tree, "/usr/share",
                 "/var", "/sys", "/etc/hostname", mountpoint.binary()):
        assert os.path.exists(path)
        rsh(root, f"! ls {path} 2>/dev/null && ! cat {path} 2>/dev/null")
    assert rsh(root, "ls -A /tmp /root /run").out == "/root:\n\n/run:\n\n/tmp:\n"
    assert "store" not in rsh(root, "cat /proc/1/environ /proc/1/cmdline "
                              "/proc/1/maps 2>/dev/null; echo").out


def test_its_variables_are_a_roots(root):
    root.env.update(PATH="/nowhere/bin:" + root.env["PATH"], LANG="xx_YY",
                    TERM="dumb", SHELL="/bin/nowhere", TOKEN="t")
    found = dict(line.split("=", 1) for line in
                 rsh(root, "env", "--net", "none", "--env", "A=b").lines())
    for name in ("PWD", "OLDPWD", "_", "SHLVL"):
        found.pop(name, None)
    name = {0: "root"}.get(os.geteuid())
    who = {"USER": name, "LOGNAME": name} if name else {}
    assert found == dict(
        who, A="b", PATH=PATH, TERM="dumb", COWFS_ENV="e",
        HOME="/root" if name else "/", **ports(found))
    # Its shell stands in its list of users.
    assert root.run("run", "--rootfs", "e", data=b"echo $0\n").out == \
        "/bin/sh\n"


def ports(found):
    """Those that any sandbox has."""
    return {k: v for k, v in found.items()
            if k in ("PORT", "COWFS_PORT_0", "COWFS_URL")}


def test_root_has_no_rights_in_there(root, as_root):
    caps = rsh(root, "id -u; cat /proc/self/status").out
    assert caps.startswith("0\n")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert f"{name}:\t0000000000000000\n" in caps
    assert "NoNewPrivs:\t1\n" in caps
    out = rsh(root, "mknod /d b 7 0; cat < /dev/null && echo fine",
              expect=None)
    assert out.out == "fine\n" and "Operation not permitted" in out.err


def test_devices_and_setuid_files_of_the_tree_give_nothing(root, as_root):
    """Made by root in the mount, who may: the sandbox's mount refuses them."""
    null = os.stat("/dev/null").st_rdev
    root.py(root.point, """
        os.mknod("null", 0o666 | stat.S_IFCHR, int(sys.argv[1]))
        os.chown("bin/id", 0, 0)
        os.chmod("bin/id", 0o4755)
    """, str(null))
    out = rsh(root, "cat /null; id -u", "--user", "ada", expect=None)
    assert out.out == "1234\n" and "Permission denied" in out.err


def test_its_users_are_those_of_its_own_lists(root, as_root):
    ids = "id -u; id -g; echo $HOME $USER"
    for user, want in (("ada", "1234\n1235\n/home/u ada\n"),
                       ("ada:lovers", "1234\n77\n/home/u ada\n"),
                       ("1234", "1234\n1235\n/home/u ada\n"),
                       ("4321:8", "4321\n8\n/\n"),
                       ("root", "0\n0\n/root root\n")):
        assert rsh(root, ids, "--user", user).out == want
    for user in ("postgres", "nobody", "ada:daemon"):
        result = rsh(root, "true", "--user", user, expect=125)
        assert one_line_error(result) and "in the root's /etc/" in result.err


@pytest.mark.parametrize("kind", ["link", "fifo", "missing", "huge", "garbage"])
def test_lists_of_users_that_are_none_are_empty(root, kind):
    root.py(root.point, """
        os.unlink("etc/passwd")
        kind = sys.argv[1]
        if kind == "link":
            os.symlink("/etc/passwd", "etc/passwd")
        elif kind == "fifo":
            os.mkfifo("etc/passwd")
        elif kind == "huge":
            with open("etc/passwd", "wb") as f:
                f.truncate(1 << 40)
        elif kind == "garbage":
            with open("etc/passwd", "wb") as f:
                f.write(b"\\0\\xff:::\\nroot:x:0\\nroot:x:-:0:::rel\\n" * 99)
    """, kind)
    uid = os.geteuid()
    assert rsh(root, "id -u; echo $HOME").out == f"{uid}\n/\n"


def test_what_is_named_is_there_and_no_more(root, tmp_path):
    folder = tmp_path / "data"
    (folder / "in").mkdir(parents=True)
    (folder / "file").write_text("of the host\n")
    folder.chmod(0o777)
    (tmp_path / "one").write_text("alone\n")
    options = ["--rw", folder, "--ro", tmp_path / "one"]
    out = rsh(root, f"cat {folder}/file {tmp_path}/one; echo w > {folder}/new; "
              f"! echo w > {tmp_path}/one; ls {tmp_path}", *options)
    assert out.lines() == ["of the host", "alone", "data", "one"], out
    assert (folder / "new").read_text() == "w\n"
    assert (tmp_path / "one").read_text() == "alone\n"
    assert changes(root) == []  # they lie in what is private
    root.run("kill", "e")
    rsh(root, "ls /usr/include && cat /etc/hostname", "--ro", "/usr/include",
        "--ro", "/etc/hostname")
    assert changes(root) == ["A\tetc/hostname", "A\tusr/include/"]
    # What else is below a folder of the host that is named stays hidden.
    root.run("kill", "e")
    out = rsh(root, f"ls {root.folder} {root.folder}/store",
              "--ro", root.folder, expect=None)
    assert "format" not in out.out and "home" in out.out


@pytest.mark.parametrize("name", ["tmp", "proc", "dev"])
def test_a_link_where_something_is_mounted_is_refused(root, name, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    root.sh(root.point, f"rm -r {name}; ln -s {target} {name}")
    result = rsh(root, "true", expect=125)
    assert one_line_error(result) and f"/{name}: " in result.err
    assert os.listdir(target) == []


def test_places_that_are_missing_are_made(root):
    root.sh(root.point, "rmdir proc dev tmp")
    assert rsh(root, "echo > /dev/null; ls -d /tmp /proc/1").out == \
        "/proc/1\n/tmp\n"
    assert rsh(root, "echo x > /tmp/x && ls /tmp").out == "x\n"
    assert changes(root) == ["M\ttmp/"]  # whose mode was another


def test_it_shares_its_sandbox_only_with_its_like(root):
    rsh(root, "echo kept > /tmp/f")
    assert rsh(root, "cat /tmp/f").out == "kept\n"
    other = root.run("run", "e", "--", "true", expect=125)
    assert "runs with other options" in other.err
    root.run("kill", "e")
    assert root.run("run", "e", "--", "pwd").out == f"{root.tree}\n"


def test_working_directory_limits_records_kill(root):
    where = root.inside(root.tree / "home", ["cowfs", "run", "--rootfs", "e",
                                             "sh", "-c", "pwd"])
    assert where.out == "/home\n"
    assert root.inside("/", ["cowfs", "run", "--rootfs", "e", "--", "sh", "-c",
                             "pwd"]).out == "/\n"
    assert root.run("run", "--rootfs", "--timeout", "1", "e", "sleep", "60",
                    expect=124)
    rsh(root, "echo for the record", "--net", "none", expect=125)
    assert "sleep" in root.run("logs", "e").out
    root.run("run", "--rootfs", "--detach", "e", "--", "sleep", "600")
    assert mountpoint.boxes_of(root.folder)
    root.run("kill", "e")
    wait_until(lambda: not mountpoint.boxes_of(root.folder), 10, "it ended")
    for code in ("exit 7", "kill -9 $$"):
        assert rsh(root, code, expect=None).code == \
            (7 if code == "exit 7" else 137)
    root.run("run", "--rootfs", "e", "--", "no-such", expect=127)


def test_new_ones_come_and_go(root):
    result = root.run("run", "--rootfs", "--new", "base", "--", "sh", "-c",
                      "echo here > /made; cat /made")
    assert result.out == "here\n"
    names = [row["name"] for row in root.run("--json", "ps").json()]
    assert names == ["e"]
    assert changes(root) == []


@pytest.mark.parametrize("option", [["--at", "/x"], ["--hide", "/etc"],
                                    ["--warm"]])
def test_what_makes_no_sense_with_it_is_refused(root, option):
    result = root.run("run", "--rootfs", *option, "e", "--", "true",
                      expect=125)
    assert one_line_error(result) and "--rootfs" in result.err


def test_a_tree_that_is_no_root_says_so(at_home, tree):
    at_home.load(tree)
    at_home.mount("base", "e")
    result = at_home.run("run", "--rootfs", "e", "--", "sh", "-c", "true",
                         expect=127)
    assert one_line_error(result) and "sh: command not found" in result.err
    assert pathlib.Path(tree / "a.txt").read_text() == "alpha\n"
