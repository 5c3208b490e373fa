# SPDX-License-Identifier: MIT
"""Users who are not root: what they can do, what is said when something is
missing, and who is kept out of whose store.

Each test is a script that tests/support/as-user runs in name spaces of its
own; there the store is /mnt/data/cowfs. What works for a user as for root is
not tested here: the tests of each feature run a second time as a user (the
ctest entry integration.user).
"""
import os
import shlex
import subprocess

import mountpoint
import pytest
from conftest import have_fuse, skip_unless
from helpers import SUPPORT, one_line_error

PRELUDE = """
set -eu
cowfs() { "$COWFS_BIN" "$@"; }
S=/mnt/data/cowfs
"""
TREE = "cp -r /mnt/src/docs /mnt/home/tree; "
OTHER = "setpriv --reuid 65534 --regid 65534 --clear-groups "


@pytest.fixture
def user(as_root):
    """Runs a script as a user; setup is root's part, before it."""
    skip_unless(have_fuse(), "fuse")

    def run(script, setup="", expect=0):
        env = mountpoint.environment()
        env["COWFS_BIN"] = mountpoint.binary()
        # A setup may have taken away what doctor would look at.
        env["COWFS_USER_SETUP"] = setup + "\n:"
        child = subprocess.run(
            ["timeout", "-s", "KILL", "60", SUPPORT / "as-user", "sh", "-c",
             PRELUDE + script], env=env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True)
        result = mountpoint.Result(["as-user", script], child.returncode,
                                   child.stdout, child.stderr)
        assert not mountpoint.BAD_LOG.search(result.err), result
        assert expect is None or result.code == expect, result
        return result

    return run


def test_everything_is_in_the_users_own_place(user):
    """Also without a folder for run-time files, as after a login by su."""
    result = user(TREE + """
        unset XDG_RUNTIME_DIR
        cowfs import /mnt/home/tree -t d >/dev/null
        test "$(cowfs mount d e)" = $S/mnt/e
        diff -r --no-dereference /mnt/home/tree $S/mnt/e
        echo x >$S/mnt/e/new
        cowfs diff e
        test "$(stat -c %a $S)" = 700
        test "$(stat -c %a $S/ctl.sock)" = 600
        cowfs umount e --keep
        cowfs mount e >/dev/null
        cat $S/mnt/e/new
        cowfs umount e --discard
        cowfs daemon stop
        cowfs doctor | tail -n 1""")
    assert result.lines() == ["A\tnew", "x", "0 problems"]


def test_without_a_data_folder_it_is_below_home(user):
    result = user(TREE + """
        unset XDG_DATA_HOME
        cowfs import /mnt/home/tree -t d >/dev/null
        cowfs mount d e
        cowfs umount e
        cowfs daemon stop""")
    assert result.lines() == ["/mnt/home/.local/share/cowfs/mnt/e"]


# what, root's part, the variables of the command, what both must say
MISSING = {
    "rights for /dev/fuse": (
        "chmod 0600 /mnt/fuse", "",
        "/dev/fuse: no permission: as root, chmod 0666 /dev/fuse"),
    "no /dev/fuse": (
        "umount /dev/fuse; mount -t tmpfs none /dev", "",
        "/dev/fuse: missing: as root, modprobe fuse"),
    "no fusermount3": (
        "", "PATH=/mnt/bin",
        "fusermount3: not found in PATH: install the package fuse3"),
    "fusermount3 not setuid": (
        "cp /usr/bin/fusermount3 /mnt/f; chmod 0755 /mnt/f; "
        "mount --bind /mnt/f /usr/bin/fusermount3", "",
        "is not setuid root: as root, chown root and chmod u+s it"),
    "fusermount3 on a file system without setuid": (
        "cp -a /usr/bin/fusermount3 /mnt/f; mount -o remount,nosuid /mnt; "
        "mount --bind /mnt/f /usr/bin/fusermount3", "",
        "remount that with the option suid"),
    "no new privileges": (
        "", "setpriv --no-new-privs",
        'run "cowfs daemon start" outside of the sandbox'),
    "no account": (
        "umount /etc/passwd", "",
        "has no name, and fusermount3 wants one: add a line to /etc/passwd"),
}


@pytest.mark.parametrize("what", MISSING)
def test_what_is_missing_is_named(user, what):
    setup, prefix, words = MISSING[what]
    prefix = prefix if prefix.startswith("setpriv") else f"env {prefix}"
    result = user(TREE + f"""
        cowfs import /mnt/home/tree -t d >/dev/null
        code=0
        {prefix} "$COWFS_BIN" mount d e || code=$?
        echo "mount: $code"
        {prefix} "$COWFS_BIN" doctor | grep -v '^note: user_allow_other'
        cowfs ps
        cowfs daemon stop""", setup)
    lines = result.err.splitlines()
    assert len(lines) == 1 and words in lines[0], result
    assert lines[0].startswith("cowfs mount: /mnt/data/cowfs/mnt/e: "), result
    assert result.lines()[0] == "mount: 3", result
    assert result.lines()[-1] == "0 problems", result
    assert any(words in n for n in result.lines() if n.startswith("note: "))


def test_user_allow_other_not_set(user):
    result = user(TREE + """
        mkdir /mnt/home/at
        ! cowfs mount /mnt/home/tree e --at /mnt/home/at --allow-other
        cowfs doctor | grep user_allow_other
        cowfs mount tree-1 2>/dev/null || cowfs ps
        cowfs daemon stop""", """
        echo '# user_allow_other' >/mnt/conf
        mount --bind /mnt/conf /etc/fuse.conf""")
    words = "add the line user_allow_other to /etc/fuse.conf"
    assert len(result.err.splitlines()) == 1 and words in result.err, result
    assert result.err.startswith("cowfs mount: /mnt/home/at: "), result
    assert words in result.out and "not set" in result.out, result


@pytest.mark.parametrize("option, entered", [
    ("", False), ("--allow-other", True)])
def test_others_enter_when_told(user, option, entered):
    """Root, too, is another: it works outside of the user's name space of
    processes and asks from there."""
    result = user(TREE + f"""
        mkdir /mnt/home/at; chmod 0711 /mnt/home
        cowfs mount /mnt/home/tree e --at /mnt/home/at {option} >/dev/null
        grep -c ' /mnt/home/at .*allow_other' /proc/self/mountinfo || :
        echo go >/mnt/home/ask; cat /mnt/home/answer
        cowfs umount e
        cowfs daemon stop""", """
        echo user_allow_other >/mnt/conf
        mount --bind /mnt/conf /etc/fuse.conf
        mkfifo -m 0666 /mnt/home/ask /mnt/home/answer
        { read go </mnt/home/ask
          r=out
          timeout -s KILL 20 cat /mnt/home/at/README.md >/dev/null 2>&1 && r=in
          echo $r >/mnt/home/answer; } &""")
    assert result.lines() == (["1", "in"] if entered else ["0", "out"])


def test_without_an_account(user):
    """What needs no mount works, and in a user name space mounting does."""
    result = user(TREE + """
        export COWFS_STORE=$S
        cowfs import /mnt/home/tree -t d >/dev/null
        cowfs snapshots | grep -c '^d:\\|^d ' || cowfs snapshots
        unshare -Urm sh -euc '
            "$COWFS_BIN" mount d e
            diff -r --no-dereference /mnt/home/tree "$COWFS_STORE/mnt/e"
            "$COWFS_BIN" umount e
            "$COWFS_BIN" daemon stop'""", "umount /etc/passwd")
    assert result.lines()[-1] == "/mnt/data/cowfs/mnt/e", result


@pytest.mark.parametrize("setup, script, words", [
    ("umount /etc/passwd", "unset HOME XDG_DATA_HOME",
     "set HOME, XDG_DATA_HOME or COWFS_STORE"),
    ("mount -t tmpfs -o ro none /mnt/home", "unset XDG_DATA_HOME",
     "Read-only file system; name another place by --store, COWFS_STORE or "
     "XDG_DATA_HOME"),
    ("chown root /mnt/home; chmod 0755 /mnt/home", "unset XDG_DATA_HOME",
     "Permission denied; name another place by --store, COWFS_STORE or "
     "XDG_DATA_HOME"),
    ("", "unset XDG_DATA_HOME; export HOME=/nonexistent",
     "Permission denied; name another place by --store, COWFS_STORE or "
     "XDG_DATA_HOME"),
], ids=["no HOME", "read-only HOME", "HOME of root", "HOME that is not there"])
def test_no_place_for_a_store(user, setup, script, words):
    result = user(f"""{script}
        cowfs import /mnt/src/docs -t d || echo "import: $?"
        cowfs doctor || :""", setup)
    errors = result.err.splitlines()
    assert words in errors[0] and errors[0].startswith("cowfs import: ")
    assert result.lines()[0] == "import: 3", result
    said = [n.replace(": name", "; name") for n in result.lines() + errors[1:]
            if "store: " in n]
    assert len(said) == 1 and words in said[0], result


def test_owners_are_shown_as_stored(user):
    """Also those that the user cannot be; what they keep to themselves stays
    so, and the snapshot is the one that root would have made."""
    result = user("""
        cowfs import /mnt/tree -t d
        cd $(cowfs mount d e)
        stat -c '%n %u %g %a' * | sort
        echo x >>mine
        ! echo x 2>/dev/null >>roots
        ! chown 0 mine 2>/dev/null
        ! cat secret 2>/dev/null
        cd /
        cowfs diff e
        cowfs umount e --discard
        cowfs daemon stop""", """
        mkdir /mnt/tree; cd /mnt/tree
        echo r >roots; echo o >others; echo m >mine
        chown 1234:5678 others; chown 61234:61234 mine . ; chmod 0640 mine
        mkdir secret; chmod 0711 secret
        chmod 0755 secret
        touch -d @1 *
        COWFS_STORE=/mnt/roots "$COWFS_BIN" import /mnt/tree >&2
        cd /mnt/src""")
    lines = result.lines()
    assert lines[0] == result.err.splitlines()[0]
    assert lines[1:] == ["mine 61234 61234 640", "others 1234 5678 644",
                         "roots 0 0 644", "secret 0 0 755", "M\tmine"]


def test_what_cannot_be_read_is_named(user):
    result = user("""
        cowfs import /mnt/tree -t d || echo "import: $?"
        cowfs import /mnt/tree -t d --skip-unreadable >/dev/null
        cowfs snapshots | wc -l""", """
        mkdir /mnt/tree; echo x >/mnt/tree/open; echo x >/mnt/tree/closed
        mkdir -m 0700 /mnt/tree/shut; chmod 0600 /mnt/tree/closed""")
    assert result.lines()[0] == "import: 3", result
    assert "closed" in result.err and "shut" in result.err, result


def test_the_server_survives_a_logout(user):
    """The terminal goes, and with it the session that started the server."""
    result = user(TREE + """
        cowfs import /mnt/home/tree -t d >/dev/null
        script -qec '"$COWFS_BIN" mount d e' /dev/null </dev/null >/dev/null
        cat $S/mnt/e/README.md | head -n 1
        for p in $(pgrep -x cowfs); do
            ps -o tty= -p $p
            test $(ps -o sid= -p $p) != $(ps -o sid= -p $$)
        done
        cowfs umount e
        cowfs daemon stop""")
    lines = [n.strip() for n in result.lines()]
    assert lines[0].startswith("#") and lines[1:] == ["?", "?"], result


def test_doctor_tells_what_a_logout_does(user):
    ends = user("cowfs doctor | grep '^note: logout'", """
        mkdir -p /mnt/etc/logind.conf.d
        echo KillUserProcesses=yes >/mnt/etc/logind.conf.d/x.conf
        mkdir -p /etc/systemd; mount --bind /mnt/etc /etc/systemd""")
    assert "loginctl enable-linger" in ends.out, ends
    assert "systemd-run --user --scope" in ends.out, ends
    on = user("cowfs doctor | grep '^note: logout'", """
        mkdir /mnt/etc; echo '#KillUserProcesses=yes' >/mnt/etc/logind.conf
        mkdir -p /etc/systemd; mount --bind /mnt/etc /etc/systemd""")
    assert on.out == "note: logout: the server goes on\n"


# --- whose store ---------------------------------------------------------

COMMANDS = ("import /mnt/src/docs", "mount d", "mount /mnt/src/docs", "ps",
            "snapshots", "diff e", "umount e", "rm d", "gc", "fsck",
            "fsck --repair", "daemon start", "daemon stop", "daemon status")


def refused(result, words):
    """Each command has said one line and nothing else."""
    lines = result.err.splitlines()
    assert result.lines() == ["3"] * len(COMMANDS), result
    assert len(lines) == len(COMMANDS), result
    for line in lines:
        assert line.startswith("cowfs ") and words in line, result


def each_command(prefix=""):
    return "".join(f'{prefix}"$COWFS_BIN" {c} || echo $?\n' for c in COMMANDS)


def test_a_store_in_a_sticky_folder_that_another_made(user):
    """Whoever was quicker there must not be trusted, whatever its modes."""
    result = user("export COWFS_STORE=/mnt/tmp/cowfs\n" + each_command(), f"""
        mkdir -m 1777 /mnt/tmp
        {OTHER} env COWFS_STORE=/mnt/tmp/cowfs sh -c '
            "$COWFS_BIN" import /mnt/src/docs -t d >/dev/null
            chmod -R a+rwX /mnt/tmp/cowfs'""")
    refused(result, "no permission for the store /mnt/tmp/cowfs, which is of "
                    "user 65534: work as that user, or name another one")


def test_an_empty_folder_of_another_becomes_no_store(user):
    result = user("cowfs --store /mnt/tmp/cowfs import /mnt/src/docs",
                  f"mkdir -m 1777 /mnt/tmp; {OTHER} mkdir -m 0777 "
                  "/mnt/tmp/cowfs", expect=3)
    assert one_line_error(result) and "of user 65534" in result.err, result


def test_root_does_not_work_in_a_users_store(user):
    """What it makes there the user could not use."""
    root = each_command("COWFS_STORE=/mnt/data/cowfs ")
    result = user("true", """
        mount -o remount,suid /mnt
        setpriv --reuid 61234 --regid 61234 --clear-groups \
            env COWFS_STORE=/mnt/data/cowfs "$COWFS_BIN" import \
            /mnt/src/docs -t d >/dev/null
        find /mnt/data/cowfs | sort >/mnt/before
        """ + root + """
        COWFS_STORE=/mnt/data/cowfs "$COWFS_BIN" doctor >/mnt/doctor || :
        grep -q 'no permission' /mnt/doctor
        find /mnt/data/cowfs | sort | cmp - /mnt/before""")
    refused(result, "which is of user 61234: work as that user")


def test_a_store_that_others_may_write_to(user):
    result = user("""
        cowfs import /mnt/src/docs -t d >/dev/null
        chmod 0777 $S
        cowfs mount d e""", expect=3)
    assert one_line_error(result), result
    assert "others may write to the store" in result.err, result


def test_an_open_folder_of_ones_own_is_closed(user):
    """A folder that was there already becomes a store with modes of one."""
    result = user("""
        mount=$(stat -c %a /mnt/open)
        cowfs --store /mnt/open import /mnt/src/docs >/dev/null
        echo $mount $(stat -c %a /mnt/open)""",
                  "mkdir -m 0777 /mnt/open; chown 61234 /mnt/open; "
                  "mount -t tmpfs -o uid=61234,mode=0777 none /mnt/open")
    assert result.out == "777 755\n", result


def test_nothing_of_roots_store_can_be_read(cowfs, as_root, tree):
    """But for what is mounted, which opens by its own modes."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo x > new")
    cowfs.path.chmod(0o755)
    names = [os.path.join(d, n) for d, ds, fs in os.walk(cowfs.path)
             if not d.startswith(point) for n in fs + ds]
    files = [n for n in names if n != point and not n.endswith("/mnt")]
    assert len(files) > 10
    script = 'for f; do test ! -r "$f" || echo "$f"; done'
    child = cowfs.spawn(shlex.split(OTHER) +
                        ["sh", "-c", script, "sh", *files])
    assert cowfs.finish(child, 30).out == ""


SERVE = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1] + "~"); os.chmod(sys.argv[1] + "~", 0o666); s.listen()
os.rename(sys.argv[1] + "~", sys.argv[1])  # who sees it can connect
while True:
    print(len(s.accept()[0].recv(100)), file=open('/mnt/got', 'a'))
"""


def test_a_server_of_another_user_is_told_nothing(user):
    """The socket is where it should be, and answers; but whose is it?"""
    result = user("""
        cowfs import /mnt/src/docs -t d >/dev/null
        echo go >/mnt/data/ask; cat /mnt/data/ready
        for what in "daemon start" "mount d" "daemon status" "daemon stop"; do
            cowfs $what || echo $?
        done
        sort -u /mnt/got""", f"""
        mkfifo -m 0666 /mnt/data/ask /mnt/data/ready
        {{ read go </mnt/data/ask
           timeout 30 /usr/bin/python3 -c {shlex.quote(SERVE)} /mnt/data/cowfs/ctl.sock &
           while [ ! -S /mnt/data/cowfs/ctl.sock ]; do :; done
           echo ready >/mnt/data/ready; }} &""")
    assert result.lines() == ["ready", "3", "3", "3", "3", "0"], result
    lines = result.err.splitlines()
    assert len(lines) == 4, result
    assert all("of another user" in n for n in lines), result


STRANGER = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
try:
    s.sendall(bytes([4, 0, 0, 0, 1, 1, 0, 0]))
    print(len(s.recv(65536)))
except ConnectionError:
    print(0)
"""


def test_a_users_server_obeys_nobody_else(user):
    """Not even where modes would let another user connect."""
    result = user("""
        cowfs import /mnt/src/docs -t d >/dev/null
        cowfs daemon start 2>/dev/null
        chmod 0755 $S /mnt/data; chmod 0666 $S/ctl.sock
        echo go >/mnt/data/ask; cat /mnt/data/answer
        chmod 0700 $S; chmod 0600 $S/ctl.sock
        cowfs daemon stop
        grep -c 'refused uid 65534' $S/server.log""", f"""
        mkfifo -m 0666 /mnt/data/ask /mnt/data/answer
        {{ read go </mnt/data/ask
           {OTHER} /usr/bin/python3 -c {shlex.quote(STRANGER)} \
               /mnt/data/cowfs/ctl.sock >/mnt/data/answer; }} &""")
    assert result.lines() == ["0", "1"], result
