# SPDX-License-Identifier: MIT
"""umount: work is never thrown away unasked, and nothing remains after."""
import os
import re
import signal

import mountpoint
from helpers import wait_until


def trash_is_empty(store):
    trash = store.path / "trash"
    return not trash.exists() or not os.listdir(trash)


def envs(store):
    folder = store.path / "envs"
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_without_changes_it_is_removed_at_once(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "find . -type f -exec cat {} + > /dev/null")
    result = cowfs.run("umount", "e")
    assert not result.out
    assert cowfs.run("--json", "ps").out == "" and not envs(cowfs)
    wait_until(lambda: trash_is_empty(cowfs), 10, "trash is empty")
    cowfs.run("mount", "e", expect=3)


def test_undone_changes_are_no_changes(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo x > new; rm new; mv a.txt z; mv z a.txt; mkdir d; "
                    "rmdir d")
    cowfs.run("umount", "e")
    assert not envs(cowfs)


def test_with_changes_it_is_rescued_and_says_so(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo x > new; echo y > a.txt")  # and src/hard
    result = cowfs.run("umount", "e")
    assert not result.out
    assert re.search(r"\b3\b", result.err), result
    assert len(result.err.splitlines()) <= 2, result
    assert not mountpoint.mounts_below(cowfs.path / "mnt" / "e")
    assert not envs(cowfs)
    rescue, = cowfs.run("--json", "rescue", "ls").json()
    assert rescue["rescue"] in result.err
    cowfs.run("rescue", "restore", rescue["rescue"], "e")
    assert cowfs.sh(cowfs.mount("e"), "cat new a.txt").out == "x\ny\n"


def test_discard(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "rm -r src; for i in $(seq 300); do echo $i > n$i; done")
    cowfs.run("umount", "e", "--discard")
    assert not envs(cowfs)
    wait_until(lambda: trash_is_empty(cowfs), 10, "trash is empty")


def test_what_is_thrown_away_is_told(cowfs, tree):
    """And of much, that it is much: nobody waits for it to be counted."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "printf 12345 > new; rm a.txt; mkdir d")
    err = cowfs.run("umount", "e", "--discard").err
    assert "e: thrown away: 3 changed paths, 5 bytes" in err
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "seq 1001 | xargs touch")
    err = cowfs.run("umount", "e", "--discard").err
    assert "e: thrown away: more than 1000 changed inodes" in err


def test_discard_of_a_kept_environment(cowfs, tree):
    cowfs.load(tree)
    cowfs.sh(cowfs.mount("base", "e"), "echo x > new")
    cowfs.run("umount", "e", "--keep")
    rows = cowfs.run("--json", "ps").json()
    assert [r["name"] for r in rows] == ["e"]
    assert cowfs.run("diff", "e").out == "A\tnew\n"
    cowfs.run("umount", "e", "--discard")
    assert cowfs.run("--json", "ps").out == "" and not envs(cowfs)


def test_dry_run_changes_nothing(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo x > new")
    cowfs.run("umount", "e", "--discard", "--dry-run", expect=None)
    assert cowfs.sh(point, "cat new").out == "x\n"


def test_all_goes_on_after_a_failure(cowfs, tree):
    cowfs.load(tree)
    points = [cowfs.mount("base", n) for n in ("a", "b", "c")]
    child = hold(cowfs, points[1], "")
    cowfs.run("umount", "--all", expect=4)
    rows = cowfs.run("--json", "ps").json()
    assert [r["name"] for r in rows] == ["b"]
    assert mountpoint.mounts_below(cowfs.folder)[-1] == points[1]
    end(child)
    cowfs.run("umount", "--all")
    cowfs.run("umount", "--all")  # none is mounted
    assert not envs(cowfs)


def busy_lines(result):
    return [line for line in result.err.splitlines()
            if re.match(r"\d+ \S+ /", line)]


def hold(store, point, source):
    """Starts a child that holds something, and waits until it does."""
    child = store.start_inside(
        point, [mountpoint.PYTHON, "-uc",
                source + "\nprint('held', flush=True)\n"
                "import time; time.sleep(60)"])
    assert child.stdout.readline() == b"held\n"
    return child


def end(child):
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def assert_busy(store, point, child):
    result = store.run("umount", "e", "--discard", expect=4)
    lines = busy_lines(result)
    assert lines, result
    assert any(str(point) in line for line in lines), result
    assert store.sh(point, "cat a.txt").out == "alpha\n"
    end(child)
    store.run("umount", "e", "--discard")
    assert not mountpoint.mounts_below(point)


def test_busy_by_an_open_file(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    assert_busy(cowfs, point, hold(
        cowfs, point, "f = open('held', 'w'); import os; os.chdir('/')"))


def test_busy_by_a_working_directory(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    assert_busy(cowfs, point, hold(cowfs, point + "/src", ""))


def test_the_command_itself_holds_nothing(cowfs, tree):
    """Called from inside the mount; the shell that calls it stays there."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    for args in (".", "../e", "e", "--all"):
        result = cowfs.sh(point, f"cowfs umount {args} && exit 9 || exit $?",
                          expect=None)
        assert result.code == 4, result
        lines = busy_lines(result)
        assert lines and not any(" cowfs " in r for r in lines), result
    gone = cowfs.sh(point + "/src", "exec cowfs umount ..", expect=None)
    assert gone.code in (0, 4), gone
    assert not any(" cowfs " in r for r in busy_lines(gone)), gone


def test_busy_by_a_mapping(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    assert_busy(cowfs, point, hold(
        cowfs, point, "import mmap, os\nf = open('b.txt')\n"
        "m = mmap.mmap(f.fileno(), 0, prot=1)\nf.close(); os.chdir('/')"))


def test_busy_in_another_mount_name_space(cowfs, as_root, tree):
    """A copy of the mount that no unmounting of ours reaches."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    child = cowfs.spawn(["unshare", "-m", "--propagation", "private", "sh",
                         "-c", f"cd '{point}/src'; echo held; exec sleep 60"])
    assert child.stdout.readline() == b"held\n"
    result = cowfs.run("umount", "e", "--discard", expect=4)
    assert busy_lines(result), result
    end(child)
    cowfs.run("umount", "e", "--discard", expect=None)
    wait_until(lambda: not envs(cowfs), 10, "the environment is gone")


def test_an_unrelated_copy_of_the_mount_does_not_stay(cowfs, as_root, tree):
    """A program that unshared and does not use the mount: propagation takes
    its copy away, or it is named."""
    cowfs.load(tree)
    cowfs.mount("base", "e")
    child = cowfs.spawn(["unshare", "-m", "sh", "-c",
                         "echo held; exec sleep 60"])
    assert child.stdout.readline() == b"held\n"
    result = cowfs.run("umount", "e", "--discard", expect=None)
    assert result.code in (0, 4), result
    if result.code == 4:
        assert busy_lines(result), result
        end(child)
        cowfs.run("umount", "e", "--discard")
    else:
        end(child)
    assert not envs(cowfs)


def test_a_copy_that_follows_ours_in_all_but_its_end_is_busy(cowfs, as_root,
                                                             tree):
    """As engines bind a container's root: a slave of the mount, which does not
    lie on what the mount lies on."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    child = cowfs.spawn(
        ["unshare", "-m", "--propagation", "slave", "sh", "-euc",
         f"mount -t tmpfs own /mnt; mkdir /mnt/root; "
         f"mount --bind '{point}' /mnt/root; umount '{point}'; "
         "echo held; exec sleep 60"])
    assert child.stdout.readline() == b"held\n"
    result = cowfs.run("umount", "e", "--discard", expect=4)
    assert busy_lines(result) == [f"{child.pid} sleep /mnt/root"], result
    assert cowfs.run("--json", "ps").json()[0]["state"] == "mounted"
    assert cowfs.sh(point, "cat a.txt").out == "alpha\n"
    end(child)
    cowfs.run("umount", "e", "--discard")
    assert not envs(cowfs)


def test_several_names(cowfs, tree):
    cowfs.load(tree)
    for n in ("a", "b", "c"):
        cowfs.mount("base", n)
    cowfs.run("umount", "a", "c")
    assert [r["name"] for r in cowfs.run("--json", "ps").json()] == ["b"]
    cowfs.run("umount", "b", "nowhere", expect=3)
    assert not envs(cowfs)


# --- what uses it from elsewhere ---------------------------------------------

DEAF = ("import signal, os\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n")


def pid_of(child):
    """Of the program that hold started: timeout's child."""
    with open(f"/proc/{child.pid}/task/{child.pid}/children") as f:
        return int(f.read())


def test_kill_ends_who_holds_it_and_names_them(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    held = [hold(cowfs, point + "/src", ""), hold(cowfs, point, DEAF),
            hold(cowfs, point, DEAF + "f = open('held', 'w'); os.chdir('/')")]
    bystander = hold(cowfs, "/", "")
    pids = [pid_of(child) for child in held]
    result = cowfs.run("umount", "e", "--kill")
    named = set(re.findall(r"^cowfs umount: e: ended (\d+) \S+ /", result.err,
                           re.M))
    assert named == {str(pid) for pid in pids}, result
    assert not any(mountpoint.alive(pid) for pid in pids)
    for child in held:
        child.communicate(timeout=5)
    assert bystander.poll() is None
    end(bystander)
    assert not envs(cowfs) and not mountpoint.mounts_below(point)
    rescue, = cowfs.run("--json", "rescue", "ls").json()
    assert rescue["rescue"] in result.err


def test_kill_as_a_dry_run_ends_nobody(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    child = hold(cowfs, point, "")
    result = cowfs.run("umount", "e", "--kill", "--dry-run")
    assert f"e: would end {pid_of(child)} " in result.out, result
    assert child.poll() is None
    assert "ended" not in cowfs.run("umount", "e", expect=4).err
    assert child.poll() is None
    end(child)


def test_kill_leaves_who_calls_it(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    other = hold(cowfs, point, "")
    holder = pid_of(other)
    result = cowfs.sh(point, "echo $$; cowfs umount --kill e || echo $?; "
                             "cat a.txt")
    shell, code, text = result.out.split()
    assert (code, text) == ("4", "alpha"), result
    assert re.search(rf"^{shell} sh /", result.err, re.M), result
    assert f"e: ended {holder} " in result.err and not mountpoint.alive(holder)
    other.communicate(timeout=5)
    cowfs.run("umount", "e", "--kill")
    assert not envs(cowfs)


def test_kill_in_another_mount_name_space(cowfs, as_root, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    child = cowfs.spawn(["unshare", "-m", "--propagation", "private", "sh",
                         "-c", f"cd '{point}/src'; echo held; exec sleep 60"])
    assert child.stdout.readline() == b"held\n"
    cowfs.run("umount", "e", "--kill")
    assert child.wait(5) == -signal.SIGTERM
    child.communicate()
    assert not envs(cowfs)
