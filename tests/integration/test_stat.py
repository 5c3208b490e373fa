# SPDX-License-Identifier: MIT
"""stat: what an environment and the processes in it take."""
import re

from helpers import one_line_error, wait_until

MIB = 1 << 20


def stat(box):
    row, = box.run("--json", "stat", "e").json()
    return row


def start(box, program):
    box.run("run", "--detach", "e", "--", "/usr/bin/python3", "-c", program +
            "\nopen('/tmp/up', 'w')\nimport time; time.sleep(600)")
    wait_until(lambda: box.run("run", "e", "test", "-e", "/tmp/up",
                               expect=None).code == 0, 20, "it is up")


def test_nothing_runs(box):
    row = stat(box)
    assert (row["name"], row["state"]) == ("e", "mounted")
    assert row["processes"] == row["memory_bytes"] == row["cpu_ms"] == 0
    box.run("run", "e", "true")
    assert stat(box)["processes"] == 0


def test_processes_and_memory(box):
    start(box, f"b = b'x' * {64 * MIB}\nimport os\n"
               "for _ in range(3):\n"
               "    if not os.fork():\n"
               "        break")
    wait_until(lambda: stat(box)["processes"] == 4, 10, "all have started")
    # The four share it: it counts once.
    assert 64 * MIB <= stat(box)["memory_bytes"] < 160 * MIB
    box.run("kill", "e")
    assert stat(box)["processes"] == 0


def test_processor_time_with_that_of_children(box):
    start(box, "import subprocess, time\n"
               "subprocess.run(['/usr/bin/python3', '-c', "
               "'import time\\nwhile time.process_time() < 0.4: pass'])\n"
               "while time.process_time() < 0.4: pass")
    # 0.8 s, less what is lost in whole ticks
    assert 740 <= stat(box)["cpu_ms"] < 3000


def test_room_and_inodes(box):
    before = stat(box)
    box.sh(box.point, "for i in 1 2 3; do head -c 1000000 /dev/urandom > n$i; "
                      "done; sync n1 n2 n3")
    after = stat(box)
    assert after["used_inodes"] == before["used_inodes"] + 3
    assert after["used_bytes"] >= before["used_bytes"] + 3000000


def test_for_people_and_when_kept(box):
    box.run("umount", "e", "--keep")
    text = box.run("stat", "e").out
    assert re.search(r"^State: +kept$", text, re.M), text
    assert re.search(r"^CPU time: +0\.000 s$", text, re.M), text
    assert one_line_error(box.run("stat", "nosuch", expect=3))
