# SPDX-License-Identifier: MIT
"""run and kill: commands in the sandbox of an environment."""
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import termios
import time

import pytest

import mountpoint
from conftest import skip_unless
from helpers import one_line_error, sh, wait_until

# Seconds that nothing else on the machine sleeps, other runs of this included.
SLEEP = str(1000000 + os.getpid())
NAP, DOZE = "1" + SLEEP, "2" + SLEEP
# Holds no pipe that a test waits for.
LONG = f"sleep {SLEEP} > /dev/null 2>&1"


def sleepers(seconds):
    """Living processes that sleep so long."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", seconds.encode()] and \
                mountpoint.alive(entry):
            found.append(int(entry))
    return found


# --- what it is like in there ------------------------------------------------

def test_it_appears_at_its_origins_path(box):
    assert sh(box, "pwd; cat a.txt").out == f"{box.tree}\nalpha\n"
    sh(box, "echo new > made")
    assert box.run("diff", "e").out == "A\tmade\n"
    assert not (box.tree / "made").exists()


def test_the_working_directory_is_translated(box):
    for folder in (box.tree / "src", box.point + "/src"):
        child = box.inside(folder, ["cowfs", "run", "e", "pwd"])
        assert child.out == f"{box.tree}/src\n"
    assert box.inside("/", ["cowfs", "run", "e", "pwd"]).out == \
        f"{box.tree}\n"


def test_the_origin_may_be_gone(box):
    box.tree.rename(box.folder / "elsewhere")
    assert sh(box, "pwd; cat a.txt").out == f"{box.tree}\nalpha\n"


@pytest.mark.parametrize("at", ["/workspace", "/srv/no/such", "mount",
                                "/usr/local/no-such"])
def test_at(box, at):
    want = box.point if at == "mount" else at
    result = sh(box, "pwd; cat a.txt; ls /usr/bin/env", "--at", at)
    assert result.out == f"{want}\nalpha\n/usr/bin/env\n"


def test_home_is_private_and_stays(box):
    (box.home / "secret").write_text("s")
    assert sh(box, "echo ~; ls -A ~; echo x > ~/kept").out == \
        f"{box.home}\n"
    assert not (box.home / "kept").exists()
    box.run("kill", "e")
    assert sh(box, "cat ~/kept").out == "x\n"
    box.run("umount", "e")
    box.mount("base", "e")
    assert sh(box, "ls -A ~").out == ""


def test_tool_chains_and_settings_are_in_home(box):
    for path, text in ((".cargo/bin/tool", "#!/bin/sh\necho tool\n"),
                       (".nvm/v1/bin/node", "#!/bin/sh\necho node $0\n"),
                       ("own/bin/mine", "#!/bin/sh\ncat ~/own/lib\n"),
                       ("own/lib", "lib\n"),
                       (".gitconfig", "[user]\n\tname = N\n"),
                       (".cargo/credentials", "token"),
                       (".npmrc", "registry=http://r/\n"
                                  "//r/:_authToken=abc\n_auth = def\n")):
        file = box.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    for folder in (".cargo/bin", ".nvm/v1/bin", "own/bin"):
        box.env["PATH"] = f"{box.home}/{folder}:" + box.env["PATH"]
    result = sh(box, "tool; node; mine; cat ~/.gitconfig ~/.npmrc;"
                     "ls ~/.cargo; echo x >> ~/.cargo/bin/tool ||"
                     "echo x >> ~/.gitconfig || echo x > ~/own/lib || exit 7",
                expect=7)
    assert result.out == (f"tool\nnode {box.home}/.nvm/v1/bin/node\nlib\n"
                          "[user]\n\tname = N\nregistry=http://r/\nbin\n")


def test_variables_are_a_clean_list(box):
    box.env.update(TOKEN="t", PASSED="p p\nq", LC_TIME="C", TZ="UTC")
    file = box.folder / "vars"
    file.write_text("# comment\nA=1\n\n B=x=y\nPASSED\n")
    result = sh(box, 'echo "$TOKEN|$PASSED|$LC_TIME|$TZ|$A|$B|$C|$D"',
                "--env", "C=c\nc", "-e", "D=", "--env-file", file)
    assert result.out == "|p p\nq|C|UTC|1|x=y|c\nc|\n"
    names = sh(box, "env").out
    assert "COWFS_ENV=e\n" in names and "COWFS_STORE" not in names
    # npm and pip ask no network in each new HOME whether they are new.
    assert "npm_config_update_notifier=false\n" in names
    assert "PIP_DISABLE_PIP_VERSION_CHECK=1\n" in names
    assert sh(box, 'test -w "$XDG_RUNTIME_DIR" && stat -c %a '
                   '"$XDG_RUNTIME_DIR"').out == "700\n"


def test_secrets_are_in_memory_only(box):
    box.env["KEY_A"] = "hush-" + "one"
    file = box.folder / "key"
    file.write_text("hush-" + "two\n")
    child = box.spawn(["cowfs", "run", "--secret", "KEY_A", "--secret",
                       f"KEY_B={file}", "e", "--", "sh", "-c",
                       'echo "$KEY_A $KEY_B"; exec cat'],
                      stdin=subprocess.PIPE)
    line = child.stdout.readline().decode()
    ps = box.finish(box.spawn(["ps", "axww", "-o", "args"]), 10).out
    box.finish(child, 10)
    assert line == "hush-one hush-two\n"
    assert "hush-" not in ps
    file.unlink()
    for top, dirs, files in os.walk(box.path):
        dirs[:] = [d for d in dirs if d != "mnt"]
        for name in files:
            path = os.path.join(top, name)
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    assert b"hush-" not in f.read(), name


def test_rw_ro_and_hide(box):
    for name in ("rw", "ro", "hidden"):
        folder = box.folder / name
        folder.mkdir()
        (folder / "f").write_text(name)
    script = (f"cd {box.folder}; cat rw/f ro/f; ls hidden; echo x > rw/g;"
              "echo x > ro/g || exit 5")
    result = sh(box, script, "--rw", box.folder / "rw", "--ro",
                box.folder / "ro", "--hide", box.folder / "hidden", expect=5)
    assert result.out == "rwro"
    assert (box.folder / "rw/g").read_text() == "x\n"
    # It has one shape for as long as it lives.
    other = sh(box, "true", expect=125)
    assert one_line_error(other) and "kill" in other.err


def test_runs_share_one_sandbox(box):
    sh(box, "echo x > /tmp/f; echo y > /dev/shm/g; " + LONG +
       " & echo $! > /tmp/pid")
    result = sh(box, "cat /tmp/f /dev/shm/g; kill $(cat /tmp/pid)")
    assert result.out == "x\ny\n"
    wait_until(lambda: not sleepers(SLEEP), 5, "it was ended")


def test_many_first_runs_at_once_make_one_sandbox(box):
    children = [box.spawn(["cowfs", "run", "e", "--", "sh", "-c",
                           f"echo {i} > /tmp/n{i}; readlink /proc/1/ns/pid"
                           " || readlink /proc/self/ns/pid"])
                for i in range(8)]
    spaces = {box.finish(c, 60).out for c in children}
    assert len(spaces) == 1
    assert len(sh(box, "ls /tmp").out.split()) >= 8


def test_as_another_user(box, as_root):
    result = sh(box, "id -u; id -g; touch ~/x && stat -c %u ~/x; "
                     "echo y > $XDG_RUNTIME_DIR/y",
                "--user", "65534:65533")
    assert result.out == "65534\n65533\n65534\n"


def test_a_kept_environment_is_mounted(box):
    sh(box, "echo x > new")
    box.run("umount", "e", "--keep")
    assert sh(box, "cat new").out == "x\n"


def test_a_path_names_the_environment(box):
    result = box.run("run", box.point, "--", "cat", "a.txt")
    assert result.out == "alpha\n"


def test_without_network(box):
    assert sh(box, "cat /proc/net/dev | grep -c :", "--net",
              "none").out == "1\n"


def groups():
    """The cgroups of sandboxes on this machine."""
    return {os.path.join(top, d) for top, dirs, _ in os.walk("/sys/fs/cgroup")
            for d in dirs if d.startswith("cowfs-e-")}


def controller(name):
    """Whether this process could limit by a controller."""
    with open("/proc/self/cgroup") as f:
        v1 = any(name in line.split(":")[1].split(",") for line in f)
    return os.geteuid() == 0 and v1


LIMITED = {
    "memory": ("x = bytearray(200 << 20)", "64M", 137),
    "pids": ("import os\ntry:\n for i in range(50):\n"
             "  os.fork() or os.execvp('sh', ['sh', '-c', "
             "'exec sleep 60 >&- 2>&-'])\n"
             "except BlockingIOError: os._exit(9)", "20", 9),
}


@pytest.mark.parametrize("name", LIMITED)
def test_limits(box, name):
    skip_unless(controller(name), f"cgroup.{name}")
    before = groups()
    source, limit, code = LIMITED[name]
    box.run("run", f"--{name}", limit, "e", "--", mountpoint.PYTHON, "-c",
            source, expect=code)
    assert groups() > before
    box.run("kill", "e")
    assert groups() == before


def test_limit_of_processors(box):
    skip_unless(controller("cpu"), "cgroup.cpu")
    burn = ("import time\nt = time.monotonic()\n"
            "while time.monotonic() < t + 1: pass\n"
            "print(time.process_time())")
    result = box.run("run", "--cpus", "0.2", "e", "--", mountpoint.PYTHON,
                     "-c", burn)
    assert float(result.out) < 0.5, result
    box.run("umount", "e")


def test_a_user_without_cgroups_is_told(box):
    if os.geteuid() == 0:
        pytest.skip("root has them")
    result = sh(box, "true", "--memory", "1G", expect=125)
    assert one_line_error(result) and "cgroup" in result.err


def test_nested(box):
    tool = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs x /mnt && echo yes"]
    assert box.run("run", "e", "--", *tool, expect=None).out == ""
    box.run("kill", "e")
    assert box.run("run", "e", "--nested", "--", *tool).out == "yes\n"


# --- as if called directly ---------------------------------------------------

def test_exit_codes(box):
    for script, code in (("exit 0", 0), ("exit 41", 41),
                         ("kill -TERM $$", 143), ("kill -KILL $$", 137),
                         ("kill -SEGV $$", 139)):
        assert sh(box, script, expect=code).err == ""


@pytest.mark.parametrize("args, code", [
    (["e", "--", "no-such-command"], 127),
    (["e", "--", "./no/such"], 127),
    (["e", "--", "./a.txt"], 126),
    (["e", "--", "./src"], 126),
    (["nowhere", "--", "true"], 125),
    (["--bogus", "e", "true"], 125),
    ([], 125),
    (["--net", "moon", "e", "true"], 125),
    (["--timeout", "soon", "e", "true"], 125),
    (["--at", "relative", "e", "true"], 125),
    (["--at", "/proc", "e", "true"], 125),
    (["--memory", "much", "e", "true"], 125),
    (["--cpus", "1,5", "e", "true"], 125),
    (["--pids", "0", "e", "true"], 125),
    (["--env", "=x", "e", "true"], 125),
    (["--env", "NOT_SET_HERE", "e", "true"], 125),
    (["--env-file", "/no/such", "e", "true"], 125),
    (["--secret", "NOT_SET_HERE", "e", "true"], 125),
    (["--rw", "/no/such", "e", "true"], 125),
    (["--new", "nowhere", "--", "true"], 125),
])
def test_failures(box, args, code):
    assert one_line_error(box.run("run", *args, expect=code))


def test_options_end_where_the_command_begins(box):
    assert box.run("run", "e", "echo", "--json", "-h", "--",
                   "x").out == "--json -h -- x\n"
    assert box.run("run", "e", "--", "--help", expect=127).out == ""


def test_standard_streams(box):
    data = bytes(range(256)) * 5000
    child = box.spawn(["cowfs", "run", "e", "--", "sh", "-c",
                       "tee /dev/stderr | md5sum; exec 1>&-"],
                      stdin=subprocess.PIPE)
    out, err = child.communicate(data, 30)
    assert err == data and len(out) > 32
    closed = box.finish(box.spawn(
        ["sh", "-c", "cowfs run e -- sh -c 'ls /proc/self/fd | tr \\\\n .'"
         " 2>&- <&-"]), 30)
    assert closed.code == 0


def test_the_sandbox_keeps_nothing_of_its_callers(box):
    """Who waits for the end of a pipe does not wait for the sandbox's."""
    ends = [os.pipe() for _ in range(3)]
    child = box.spawn(["cowfs", "run", "e", "--", "true"], stdin=ends[0][0],
                      pass_fds=[ends[1][1], ends[2][1]])
    assert child.wait(30) == 0
    os.close(ends[0][0])
    with pytest.raises(BrokenPipeError):
        os.write(ends[0][1], b"x")
    for mine, its in ends[1:]:
        os.close(its)
        assert select.select([mine], [], [], 5)[0] and not os.read(mine, 1)
        os.close(mine)
    os.close(ends[0][1])


def test_signals_are_handed_on(box):
    child = box.spawn(["cowfs", "run", "e", "--", "sh", "-c",
                       "trap 'echo usr' USR1; trap 'echo term; exit 3' TERM;"
                       "echo up; while :; do sleep 0.05; done"])
    assert child.stdout.readline() == b"up\n"
    os.kill(child.pid, signal.SIGUSR1)
    assert child.stdout.readline() == b"usr\n"
    os.kill(child.pid, signal.SIGTERM)
    assert child.stdout.readline() == b"term\n"
    assert child.wait(10) == 3
    child.communicate()


def test_kill_9_of_run_ends_its_command(box):
    child = box.spawn(["cowfs", "run", "e", "--", "sh", "-c",
                       f"echo up; exec sleep {SLEEP}"])
    assert child.stdout.readline() == b"up\n"
    child.kill()
    child.communicate()
    wait_until(lambda: not sleepers(SLEEP), 5, "the command has ended")


def test_a_signal_to_its_group_stays_inside(box):
    result = box.finish(box.spawn(
        ["sh", "-c", "cowfs run e -- sh -c 'kill -9 0'; echo still $?"]), 30)
    assert result.out == "still 137\n"


def test_timeout(box):
    t0 = time.monotonic()
    sh(box, f"sleep {SLEEP}; true", "--timeout", "1", expect=124)
    assert time.monotonic() - t0 < 4
    assert not sleepers(SLEEP)
    sh(box, "exit 5", "--timeout", "30s", expect=5)


def test_stop_and_go_on(box):
    child = box.spawn(["cowfs", "run", "e", "--", "sh", "-c",
                       "echo up; kill -STOP $$; echo on"])
    assert child.stdout.readline() == b"up\n"
    wait_until(lambda: mountpoint._stat_field(child.pid, 0) == "T", 5,
               "run has stopped, too")
    os.kill(child.pid, signal.SIGCONT)
    assert box.finish(child, 10).out == "on\n"


def read_until(fd, text, limit=10):
    seen = b""
    end = time.monotonic() + limit
    while text not in seen:
        ready, _, _ = select.select([fd], [], [], 0.2)
        if ready:
            seen += os.read(fd, 4096)
        assert time.monotonic() < end, seen
    return seen


def test_a_shell_on_a_terminal(box):
    """Job control, ^C, ^Z, the size of the window."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update(box.env, SHELL="/bin/sh", TERM="dumb")
        os.execvp("cowfs", ["cowfs", "run", "-e", "PS1=ready:", "e", "--",
                            "bash", "--norc", "--noprofile", "-i"])
    try:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, b"\x21\0\x54\0\0\0\0\0")
        os.write(fd, b"stty size; echo done-$((40+2))\n")
        seen = read_until(fd, b"done-42")
        assert b"33 84" in seen, seen
        os.write(fd, f"sleep {NAP}\n".encode())
        wait_until(lambda: sleepers(NAP), 5, "it sleeps")
        os.write(fd, b"\x1a")
        read_until(fd, b"Stopped")
        os.write(fd, f"kill %1; wait; sleep {DOZE}\n".encode())
        wait_until(lambda: sleepers(DOZE), 5, "it sleeps again")
        os.write(fd, b"\x03")
        wait_until(lambda: not sleepers(DOZE), 5, "it is interrupted")
        read_until(fd, b"ready:")
        os.write(fd, b"echo after-$((40+2))\n")
        read_until(fd, b"after-42")
        os.write(fd, b"exit 6\n")
        wait_until(lambda: not mountpoint.alive(pid), 10, "it ends")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 6
    finally:
        os.close(fd)


def test_detach(box):
    result = sh(box, f"echo x > /tmp/up; exec sleep {SLEEP}", "--detach")
    assert result.out == ""
    wait_until(lambda: sleepers(SLEEP), 5, "it runs")
    box.run("run", "e", "--detach", "no-such-command", expect=127)
    box.run("kill", "e")
    assert not sleepers(SLEEP)


def test_new_in_one_go(box):
    names = box.run("--json", "ps").out
    result = box.run("run", "--new", "base", "--", "sh", "-c",
                     "cat a.txt; exit 9", expect=9)
    assert result.out == "alpha\n"
    assert box.run("--json", "ps").out == names


def test_new_rescues_what_changed(box):
    before = box.run("--json", "ps").out
    result = box.run("run", "--new", "base", "--", "sh", "-c",
                     "echo x > made; exit 7", expect=7)
    rescue, = box.run("--json", "rescue", "ls").json()
    assert rescue["rescue"] in result.err
    assert box.run("--json", "ps").out == before
    box.run("rescue", "restore", rescue["rescue"], "again")
    assert box.sh(box.mount("again"), "cat made").out == "x\n"


# --- the end -----------------------------------------------------------------

HIDING = [
    f"{LONG} & true",
    f"(setsid {LONG} &); true",
    f"trap '' TERM; (setsid nohup {LONG} &); true",
    f"(cd /; exec setsid sh -c '{LONG}; {LONG}' > /dev/null 2>&1) & true",
]


@pytest.mark.parametrize("how", ["kill", "umount"])
def test_nothing_outlives_it(box, how):
    for script in HIDING:
        sh(box, script)
    wait_until(lambda: len(sleepers(SLEEP)) == len(HIDING), 5, "all sleep")
    box.run(how, "e")
    assert not sleepers(SLEEP)
    if how == "umount":
        assert box.run("--json", "ps").out == ""
    else:
        assert sh(box, "ls /tmp").err == ""


def test_umount_names_others_and_ends_nothing_then(box):
    sh(box, f"{LONG} & true")
    holder = box.start_inside(box.point, ["sh", "-c", "echo up; exec cat"],
                              stdin=subprocess.PIPE)
    assert holder.stdout.readline() == b"up\n"
    result = box.run("umount", "e", expect=4)
    assert re.search(r"^\d+ cat /", result.err, re.M), result
    assert "sleep" not in result.err
    assert sleepers(SLEEP)
    result = box.run("umount", "e", "--kill")
    assert re.search(r"e: ended \d+ cat /", result.err), result
    assert "sleep" not in result.err and not sleepers(SLEEP)
    holder.communicate(timeout=5)


def test_what_is_written_at_the_end_is_rescued(box):
    """The sandbox ends first: nobody writes any more when work is read."""
    sh(box, "trap 'echo last > made; exit' TERM; : > /tmp/up; "
            "while :; do sleep 0.05; done > /dev/null", "--detach")
    wait_until(lambda: sh(box, "test -e /tmp/up", expect=None).code == 0, 10,
               "the trap is set")
    result = box.run("umount", "e")
    rescue, = box.run("--json", "rescue", "ls").json()
    assert rescue["rescue"] in result.err
    box.run("rescue", "restore", rescue["rescue"], "again")
    assert box.sh(box.mount("again"), "cat made").out == "last\n"


def test_dry_runs_end_nothing(box):
    sh(box, f"{LONG} & true")
    assert "would be" in box.run("kill", "e", "--dry-run").out
    assert "would be" in box.run("umount", "e", "--dry-run").out
    assert sleepers(SLEEP)


def test_kill_with_a_signal(box):
    sh(box, f"{LONG} & true")
    row = box.run("--json", "kill", "e", "-s", "sigterm").json()[0]
    assert row["processes"] == 1
    wait_until(lambda: not sleepers(SLEEP), 5, "it has ended")
    sh(box, "true")
    box.run("kill", "e", "--signal", "NONE", expect=2)
    box.run("kill", "nowhere", expect=3)


def test_after_the_servers_death_doctor_ends_it(box):
    sh(box, f"{LONG} & echo x > new")
    box.kill_server()
    assert sleepers(SLEEP)
    found = box.run("doctor", expect=1).out
    assert re.search(r"^problem: e: a sandbox with 1 process", found, re.M)
    box.run("doctor", "--fix", expect=None)
    assert not sleepers(SLEEP)
    assert sh(box, "cat new").out == "x\n"


def test_a_sandbox_of_a_dead_mount_is_not_used_again(box):
    sh(box, f"{LONG} & echo x > new")
    box.kill_server()
    assert sh(box, "cat new").out == "x\n"
    assert not sleepers(SLEEP)


def test_detached_from_inside_the_mount(box):
    box.inside(box.point, ["cowfs", "run", "e", "-d", "--", "sleep", SLEEP])
    box.run("umount", "e")
    assert not sleepers(SLEEP)


def test_stopping_commands_do_not_hold_it_up(box):
    child = box.spawn(["cowfs", "run", "e", "--", "sh", "-c",
                       "echo up; kill -STOP $$"])
    assert child.stdout.readline() == b"up\n"
    wait_until(lambda: mountpoint._stat_field(child.pid, 0) == "T", 5, "stop")
    box.run("umount", "e", expect=None)
    os.kill(child.pid, signal.SIGCONT)
    box.finish(child, 10)
    box.run("umount", "e", expect=None)
    assert not mountpoint.mounts_below(box.folder / "store/mnt/e")


def test_a_busy_script_is_no_foreign_user(box):
    """Its processes come and go while umount looks."""
    sh(box, "while :; do (cd src; ls | cat; true) > /dev/null; done",
       "--detach")
    for _ in range(3):
        box.run("umount", "e", "--keep")
        box.mount("e")
        sh(box, "while :; do (cd src; ls | cat) > /dev/null; done",
           "--detach")
    box.run("umount", "e")


def test_links_in_home_lead_nowhere(box):
    """What a command plants there must not guide bubblewrap, which works with
    more rights, at the next start. /oldroot is the host's / at that time."""
    target = box.folder / "target"
    target.mkdir()
    (box.home / ".cargo/bin").mkdir(parents=True)
    (box.home / ".rustup").mkdir()
    (box.home / ".gitconfig").write_text("[user]\n\tname = N\n")
    sh(box, "true")
    box.run("kill", "e")
    inside = box.path / "envs/e/box/home"
    shutil.rmtree(inside / ".cargo")
    (inside / ".rustup").rmdir()
    (inside / ".gitconfig").unlink()
    (inside / ".cargo").symlink_to(f"/oldroot{target}")
    (inside / ".rustup").symlink_to(f"/oldroot{target}/made")
    (inside / ".gitconfig").symlink_to(f"/oldroot{target}/file")
    assert sh(box, "cat ~/.gitconfig; ls -d ~/.cargo/bin/.").out == (
        f"[user]\n\tname = N\n{box.home}/.cargo/bin/.\n")
    assert not os.listdir(target)


def test_links_in_the_environment_lead_nowhere(box):
    target = box.folder / "target"
    target.mkdir()
    (box.tree / "shared").mkdir()
    sh(box, f"ln -s /oldroot{target}/made shared")
    box.run("kill", "e")
    assert one_line_error(sh(box, "true", "--rw", box.tree / "shared",
                             expect=125))
    assert not os.listdir(target)
