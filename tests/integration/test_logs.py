# SPDX-License-Identifier: MIT
"""logs: runs are recorded, and no command notices."""
import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import skip_unless
from helpers import one_line_error, sh, wait_until

HEAD, TAIL = 256 << 10, 512 << 10
PYTHON = "/usr/bin/python3"
LONG = f"sleep {2000000 + os.getpid()}"


def logs(box, *args, **kw):
    return box.run("logs", "e", *args, **kw)


def record(box, run="last"):
    return json.loads(logs(box, run, "--json").out)


def ended(box):
    """A process that is just ending may hold a stream a moment longer."""
    wait_until(lambda: record(box)["state"] == "ended", 5, "the end")
    return record(box)


def folder(box):
    return box.path / "envs/e/log"


# --- what is recorded --------------------------------------------------------

def test_a_run(box):
    before = time.time()
    sh(box, "echo out; echo err >&2; echo 'a%b\n' | head -c 3;"
            "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3",
       expect=3)
    row = ended(box)
    assert row["run"] == 1 and row["name"] == "e" and row["v"] == 1
    assert row["argv"][:2] == ["sh", "-c"] and "a%b\n" in row["argv"][2]
    assert row["dir"] == str(box.tree)
    assert row["state"] == "ended" and row["exit"] == 3
    assert "signal" not in row and "timed_out" not in row
    assert before - 1 < row["start_ms"] / 1000 <= row["end_ms"] / 1000 \
        < time.time() + 1
    assert 20 <= row["cpu_ms"] < 20000
    assert 1 << 20 <= row["memory_bytes"] < 64 << 20
    assert row["stdout"] == row["stderr"] == "pipe"
    assert row["stdout_text"] == "out\na%b" and row["stdout_bytes"] == 7
    assert row["stderr_text"] == "err\n" and row["stderr_bytes"] == 4
    shown = logs(box, "1")
    assert shown.out == "out\na%b" and shown.err == "err\n"


def test_the_list(box):
    assert logs(box).out == "" and logs(box, "--json").out == ""
    sh(box, "true")
    sh(box, "kill -9 $$", expect=137)
    sh(box, "sleep 9", "--timeout", "1", expect=124)
    box.run("run", "e", "no-such-command", expect=127)
    rows = logs(box, "--json").json()
    assert [r["run"] for r in rows] == [1, 2, 3, 4]
    assert [r.get("exit") for r in rows] == [0, None, None, 127]
    assert [r.get("signal") for r in rows] == [None, 9, 15, None]
    assert rows[2]["timed_out"] is True
    assert "stdout_text" not in rows[0]
    lines = logs(box).lines()
    assert lines[0].split() == ["RUN", "START", "TIME", "CPU", "MEMORY",
                                "RESULT", "COMMAND"]
    assert [line.split("  ")[0] for line in lines[1:]] == ["1", "2", "3", "4"]
    assert "SIGKILL" in lines[2] and "timed out" in lines[3]
    assert re.search(r" - +- +127 +no-such-command$", lines[4])


def test_many_arguments_are_cut(box):
    box.run("run", "e", "--", "true", *["x" * 1000] * 30)
    row = record(box)
    assert row["argv_cut"] and row["argv"][:2] == ["true", "x" * 1000]
    assert len(row["argv"]) == 17


# --- how the streams are -----------------------------------------------------

def test_one_pipe_keeps_its_order(box):
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done"
    result = sh(box, script, stderr=subprocess.STDOUT)
    want = "".join(f"o{i}\ne{i}\n" for i in range(1, 10))
    assert result.out == want
    row = record(box)
    assert row["stderr"] == "joined" and row["stdout_text"] == want


def on_terminal(box, argv):
    """Runs it with all three on a terminal; returns what it said there."""
    master, slave = pty.openpty()
    child = box.spawn(argv, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    said = b""
    while True:  # until nobody has it any more
        assert select.select([master], [], [], 20)[0], "who has it still?"
        try:
            said += os.read(master, 4096)
        except OSError:
            break
    assert child.wait(20) == 0
    os.close(master)
    return said.decode()


def test_a_terminal_stays_one(box):
    said = on_terminal(box, ["cowfs", "run", "e", "--", "sh", "-c",
                             "test -t 0 && test -t 1 && test -t 2 && echo y"])
    assert said == "y\r\n"
    row = record(box)
    assert row["stdout"] == row["stderr"] == "terminal"
    assert row["exit"] == 0 and row["stdout_text"] == ""
    shown = logs(box, "last")
    assert shown.out == "" and shown.err == (
        "cowfs logs: standard output went to a terminal, and is not kept\n"
        "cowfs logs: standard error went to a terminal, and is not kept\n")


def test_only_what_is_no_terminal_is_recorded(box):
    said = on_terminal(box, ["sh", "-c", "cowfs run e -- sh -c 'test -t 0 &&"
                             "! test -t 1 && test -t 2 && echo y' | cat"])
    assert said == "y\r\n"
    row = record(box)
    assert (row["stdout"], row["stderr"]) == ("pipe", "terminal")
    assert row["stdout_text"] == "y\n"


def test_a_file_stays_one(box):
    path = box.folder / "file"
    path.write_text("before\n")
    with open(path, "a") as f:
        sh(box, "stat -L -c %F /proc/self/fd/3 3>&1 >&2;"
                "echo one; seq 3", stdout=f)
    assert path.read_text() == "before\none\n1\n2\n3\n"
    row = record(box)
    assert row["stdout"] == "file" and row["stdout_text"] == "one\n1\n2\n3\n"
    assert row["stderr_text"] == "regular file\n"
    with open(path, "r+") as f:
        f.seek(7)
        sh(box, "echo two >&2; echo TWO", stdout=f, stderr=f)
    assert path.read_text() == "before\ntwo\nTWO\n3\n"
    row = record(box)
    assert row["stderr"] == "joined" and row["stdout_text"] == "two\nTWO\n"


def test_a_big_file_is_read_in_part(box):
    with open(box.folder / "file", "wb") as f:
        sh(box, "seq 1000000", stdout=f)
    row = record(box)
    whole = "".join(f"{i}\n" for i in range(1, 1000001))
    check_cut(row, whole)


def test_devices_and_sockets(box):
    sh(box, "echo x", stdout=subprocess.DEVNULL)
    assert record(box)["stdout"] == "device"
    ours, theirs = socket.socketpair()
    child = box.spawn(["cowfs", "run", "e", "echo", "socket"], stdout=theirs)
    theirs.close()
    box.finish(child, 20)
    assert ours.recv(100) == b"socket\n" and ours.recv(100) == b""
    assert record(box)["stdout_text"] == "socket\n"
    ours, theirs = socket.socketpair()
    child = box.spawn(["cowfs", "run", "e", "cat"], stdin=theirs,
                      stdout=theirs)
    theirs.close()
    ours.sendall(b"ping")
    ours.shutdown(socket.SHUT_WR)
    assert ours.recv(100) == b"ping"
    box.finish(child, 20)
    assert record(box)["stdout"] == "two-way"


def test_another_users_command_may_open_its_output(box, as_root):
    result = sh(box, "echo x > /dev/stdout; id -u", "--user", "65534")
    assert result.out == "x\n65534\n"


# --- no command notices ------------------------------------------------------

def test_every_byte_arrives(box):
    program = ("import os,hashlib\n"
               "h=hashlib.sha256()\n"
               "for i in range(4000):\n"
               "    b=os.urandom(1+i*7%5000)\n"
               "    h.update(b)\n"
               "    os.write(1,b)\n"
               "os.write(2,h.hexdigest().encode())\n")
    child = box.spawn(["cowfs", "run", "e", PYTHON, "-c", program])
    digest = hashlib.sha256()
    total = 0
    while data := os.read(child.stdout.fileno(), 3000):
        digest.update(data)
        total += len(data)
    assert child.stderr.read().decode() == digest.hexdigest()
    assert child.wait(20) == 0
    row = record(box)
    assert row["stdout_bytes"] == total and row["stdout_cut_bytes"] > 0


def test_the_callers_pipe_is_left_as_it_is(box):
    r, w = os.pipe()
    child = box.spawn(["cowfs", "run", "e", "echo", "x"], stdout=w)
    box.finish(child, 20)
    assert not fcntl.fcntl(w, fcntl.F_GETFL) & os.O_NONBLOCK
    os.set_blocking(w, False)
    child = box.spawn(["cowfs", "run", "e", "seq", "100000"], stdout=w)
    os.close(w)
    time.sleep(0.3)
    with open(r, "rb") as f:
        data = f.read()
    assert data == b"x\n" + b"".join(b"%d\n" % i for i in range(1, 100001))
    assert box.finish(child, 20).code == 0


def test_small_pieces_fit_a_pipe_that_is_read_later(box):
    """A page for each piece would be full after sixteen."""
    child = box.spawn(["cowfs", "run", "e", "sh", "-c",
                       "for i in $(seq 200); do echo $i; sleep 0.002; done"])
    assert child.wait(20) == 0
    assert child.stdout.read() == b"".join(b"%d\n" % i
                                           for i in range(1, 201))


def test_a_reader_who_goes(box):
    start = time.time()
    result = box.finish(box.spawn(
        ["sh", "-c", "{ cowfs run e yes; echo $? >&2; } | head -n 2"]), 20)
    assert result.out == "y\ny\n" and result.err == "141\n"
    # Also one that does not write at the time.
    result = box.finish(box.spawn(
        ["sh", "-c", "{ cowfs run e sh -c 'sleep 1; echo x; echo y; exit 3';"
                     "echo $? >&2; } | true"]), 20)
    assert result.err == "141\n"
    assert time.time() - start < 15


def test_a_reader_who_does_not_read(box):
    child = box.spawn(["cowfs", "run", "e", "sh", "-c", f"yes & exec {LONG}"])
    time.sleep(0.5)
    child.send_signal(signal.SIGTERM)
    assert child.wait(10) == 143
    box.run("kill", "e")
    child.communicate(timeout=10)


def test_what_stays_in_the_background_writes_on(box):
    script = "(sleep 3; echo late; sleep 1; echo later) & echo first"
    child = box.spawn(["cowfs", "run", "e", "sh", "-c", script])
    start = time.time()
    assert child.wait(20) == 0 and time.time() - start < 2.8
    row = record(box)
    assert row["state"] == "writing" and row["stdout_text"] == "first\n"
    assert logs(box, "1", "-f").out == "first\nlate\nlater\n"
    assert child.stdout.read() == b"first\nlate\nlater\n"
    row = record(box)
    assert row["state"] == "ended" and row["stdout_bytes"] == 17


def test_who_goes_on_has_nothing_else_of_the_caller(box):
    r, w = os.pipe()
    child = box.spawn(["cowfs", "run", "e", "sh", "-c", f"{LONG} & true"],
                      pass_fds=[w])
    os.close(w)
    assert child.wait(20) == 0
    assert select.select([r], [], [], 5)[0] and os.read(r, 1) == b""
    assert record(box)["state"] == "writing"
    box.run("kill", "e")
    child.communicate(timeout=10)
    wait_until(lambda: record(box)["state"] == "ended", 5, "the end")


def test_umount_leaves_nobody_who_hands_on(box):
    children = [box.spawn(["cowfs", "run", "e", "sh", "-c",
                           f"{LONG} & echo x; sleep 0.2"]) for _ in range(5)]
    for child in children:
        assert child.wait(20) == 0

    def handing_on():
        return [p for p in os.listdir("/proc") if p.isdigit() and
                name_of(p) == "cowfs-log" and
                str(box.path) in environ_of(p)]

    # Each has its name a moment after its run has returned.
    wait_until(lambda: len(handing_on()) == 5, 5, "who hands on")
    box.run("umount", "e")
    assert handing_on() == []
    for child in children:
        child.communicate(timeout=10)


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


def environ_of(pid):
    try:
        with open(f"/proc/{pid}/environ") as f:
            return f.read()
    except OSError:
        return ""


def test_what_floods_in_the_background_does_not_hold_the_run(box):
    child = box.spawn(["cowfs", "run", "e", "sh", "-c", "yes & echo x"])

    def read():
        while os.read(child.stdout.fileno(), 1 << 16):
            pass

    reader = threading.Thread(target=read)
    reader.start()
    assert child.wait(30) == 0
    box.run("kill", "e")
    reader.join(10)
    assert not reader.is_alive()


def test_the_working_directory_is_not_held(box):
    child = box.start_inside(box.point, [
        "cowfs", "run", "e", "sh", "-c", f"{LONG} & true"])
    wait_until(lambda: child.poll() is not None, 10, "the end of run")
    box.run("umount", "e")
    child.communicate(timeout=10)


# --- bounds ------------------------------------------------------------------

def check_cut(row, whole):
    assert row["stdout_bytes"] == len(whole)
    text, cut = row["stdout_text"], row["stdout_cut_bytes"]
    head, _, tail = text.partition(f"\n[cowfs: {cut} bytes are left out]\n")
    assert head == whole[:HEAD]
    assert len(head) + cut + len(tail) == len(whole)
    assert whole.endswith(tail) and TAIL <= len(tail) <= 2 * TAIL + 65536


@pytest.mark.parametrize("program", [
    "seq 1000000",
    "for i in range(1,1000001):\n print(i, flush=i%5000==0)\n"
    " if i%50000==0: time.sleep(0.06)",
])
def test_the_middle_is_cut(box, program):
    argv = program.split() if program.startswith("seq") else \
        [PYTHON, "-c", "import time\n" + program]
    result = box.run("run", "e", *argv)
    whole = "".join(f"{i}\n" for i in range(1, 1000001))
    assert result.out == whole
    check_cut(record(box), whole)
    used = os.stat(folder(box) / "1.out").st_blocks * 512
    assert used <= HEAD + 2 * TAIL + 65536
    assert "bytes are left out]\n" in logs(box, "last").out


def test_old_runs_go(box):
    for i in range(1, 290):
        (folder(box)).mkdir(exist_ok=True)
        (folder(box) / str(i)).write_text("cowfs run 1\nstart 1\n")
        (folder(box) / f"{i}.out").write_bytes(b"x" * 10)
    for _ in range(8):
        sh(box, "true")
    numbers = [r["run"] for r in logs(box, "--json").json()]
    assert numbers[-1] == 297 and 256 <= len(numbers) <= 264
    assert numbers == list(range(numbers[0], 298))
    assert not (folder(box) / "1.out").exists()


def test_all_together_are_bounded(box):
    folder(box).mkdir()
    for i in range(1, 48):
        (folder(box) / str(i)).write_text("cowfs run 1\nstart 1\n")
        (folder(box) / f"{i}.out").write_bytes(b"x" * (2 << 20))
    with open(folder(box) / "46") as f:
        # One that is being written is never taken away; nor is a newer one.
        fcntl.flock(f, fcntl.LOCK_EX)
        with open(folder(box) / "1") as g:
            fcntl.flock(g, fcntl.LOCK_EX)
            sh(box, "true")
    numbers = [r["run"] for r in logs(box, "--json").json()]
    assert numbers[0] == 1 and numbers[1:] == list(range(17, 49))


def test_a_full_disk_does_not_stop_a_command(small_disk, tree):
    skip_unless(shutil.which("bwrap"), "bwrap")
    small_disk.load(tree)
    small_disk.mount("base", "e")
    small_disk.run("run", "e", "true")
    ballast = small_disk.path / "ballast"
    child = small_disk.spawn(["cowfs", "run", "e", "sh", "-c",
                              "echo begun; read x; seq 100000; exit 5"],
                             stdin=subprocess.PIPE)
    assert child.stdout.read(6) == b"begun\n"
    small_disk.finish(small_disk.spawn(
        ["dd", "if=/dev/zero", f"of={ballast}", "bs=64k"]), 60)
    result = small_disk.finish(child, 20, b"go\n")
    assert result.code == 5 and len(result.out) == 588895
    assert result.err == ""
    second = small_disk.run("run", "e", "echo", "unrecorded")
    ballast.unlink()
    assert second.out == "unrecorded\n"
    row, = small_disk.run("logs", "e", "2", "--json").json()
    assert row["exit"] == 5 and row["stdout_bytes"] == 588901
    assert row["stdout_lost_bytes"] > 0
    assert "No space left" in small_disk.run("logs", "e", "2").err
    assert small_disk.run("run", "e", "echo", "again").err == ""


# --- secrets -----------------------------------------------------------------

def leaks(box, *secrets):
    for top, dirs, names in os.walk(box.path):
        dirs[:] = [d for d in dirs if d != "mnt"]
        for name in names:
            path = os.path.join(top, name)
            data = open(path, "rb").read() if os.path.isfile(path) else b""
            for secret in secrets:
                if secret.encode() in data:
                    yield secret, path


def test_secrets_are_covered(box):
    box.env.update(PLAIN="plain-of-caller", GH_TOKEN="caller-token-1")
    file = box.folder / "key"
    file.write_text("of-a-file-" + "x" * 50 + "\n")
    box.env["S1"] = "secret-one"
    sh(box, 'echo "$S1 $K $DB_PASSWORD $NORMAL";'
            'printf of-a-; sleep 0.2; printf "file-"; sleep 0.2;'
            f'echo {"x" * 50}; echo end secret-one >&2; : caller-token-1',
       "--secret", "S1", "--secret", f"K={file}", "-e", "DB_PASSWORD=hunter2",
       "-e", "NORMAL=visible")
    box.run("run", "e", "-e", "X_API_KEY=ab0cd9ef", "--", "true",
            "--password=secret-one", "xab0cd9efy", "--token", "t0k-option",
            "curl -H 'Authorization: Bearer b34r-header' u",
            "PGPASSWORD=pw-before psql", "postgres://me:pw-in-url@host/db",
            "https://host/a@b", "--key=v",
            "PWD=/x", "MONKEY=1", "--verbose")
    assert not list(leaks(box, "secret-one", "of-a-file-x", "hunter2",
                          "ab0cd9ef", "t0k-option", "b34r-header",
                          "pw-before", "pw-in-url",
                          "caller-token-1"))
    row = record(box, "1")
    assert row["stdout_text"] == ("*" * 10 + " " + "*" * 60 +
                                  " ******* visible\n" + "*" * 60 + "\n")
    assert row["stderr_text"] == "end **********\n"
    assert record(box)["argv"] == [
        "true", "--password=***", "x***y", "--token", "***",
        "curl -H 'Authorization: ***' u", "PGPASSWORD=*** psql",
        "postgres://me:***@host/db", "https://host/a@b", "--key=***",
        "PWD=/x", "MONKEY=1", "--verbose"]


def test_secrets_in_files_are_covered(box):
    box.env["S1"] = "secret-one"
    with open(box.folder / "f", "w") as f:
        sh(box, 'echo "<$S1>"', "--secret", "S1", stdout=f)
    assert (box.folder / "f").read_text() == "<secret-one>\n"
    assert record(box)["stdout_text"] == "<**********>\n"


# --- detached, followed, killed ----------------------------------------------

def test_detached_runs_are_followed(box):
    box.run("run", "-d", "e", "--", "sh", "-c",
            "for i in 1 2 3 4; do echo $i; echo e$i >&2; sleep 0.3; done;"
            "exit 7")
    row = record(box)
    assert row["state"] == "running" and row["detached"] is True
    assert "exit" not in row
    start = time.time()
    child = box.spawn(["cowfs", "logs", "e", "-f"], bufsize=0)
    assert child.stdout.readline() == b"1\n" and time.time() - start < 0.9
    assert box.finish(child, 20).out == "e1\n2\ne2\n3\ne3\n4\ne4\n"
    assert record(box)["exit"] == 7


def test_json_is_followed_by_line(box):
    box.run("run", "-d", "e", "--", "sh", "-c",
            "echo a; sleep 0.4; echo b; exit 2")
    rows = logs(box, "-f", "--json").json()
    assert "".join(r["text"] for r in rows[:-1]) == "a\nb\n"
    assert {r["stream"] for r in rows[:-1]} == {"stdout"} and len(rows) >= 3
    assert rows[-1]["exit"] == 2 and rows[-1]["state"] == "ended"


def test_a_run_that_is_killed(box):
    child = box.spawn(["cowfs", "run", "e", "sh", "-c",
                       f"echo said; exec {LONG}"])
    assert child.stdout.readline() == b"said\n"
    wait_until(lambda: record(box)["stdout_text"] == "said\n", 5, "its words")
    child.kill()
    child.communicate(timeout=10)
    row = record(box)
    assert row["state"] == "lost" and "exit" not in row
    assert row["stdout_text"] == "said\n"
    assert "lost" in logs(box).lines()[1]


# --- whose they are ----------------------------------------------------------

def test_they_stay_with_the_environment(box):
    sh(box, "echo x > made")
    box.run("umount", "--keep", "e")
    box.run("daemon", "stop")
    assert [r["run"] for r in logs(box, "--json").json()] == [1]
    assert not box.status()
    box.mount("e")
    child = box.inside(box.point, ["cowfs", "logs", ".", "--json"])
    assert child.json()[0]["run"] == 1
    box.run("umount", "e")
    assert one_line_error(logs(box, expect=3))
    box.mount("base", "e")
    assert logs(box).out == ""


def test_bad_use(box):
    sh(box, "true")
    for args in (["0"], ["x"], ["-1"], ["1x"], ["1", "2"]):
        assert one_line_error(logs(box, *args, expect=2)), args
    assert one_line_error(logs(box, "2", expect=3))
    assert one_line_error(box.run("logs", "none", expect=3))
    assert one_line_error(box.run("logs", "bad name", expect=2))
    box.mount("base", "f")
    assert one_line_error(box.run("logs", "f", "last", expect=3))
    (folder(box) / "2").write_text("")
    assert one_line_error(logs(box, "2", expect=3))
    assert len(logs(box, "--json").json()) == 1


def test_records_are_for_their_owner(box):
    sh(box, "echo x")
    assert folder(box).stat().st_mode & 0o777 == 0o700
    for name in ("1", "1.out"):
        assert (folder(box) / name).stat().st_mode & 0o777 == 0o600
