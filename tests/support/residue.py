# SPDX-License-Identifier: MIT
"""residue.py - lists of what a machine has that a program may leave behind.

For tests in name spaces of their own (tests/support/apart), where the lists
have nothing of anybody else's.
"""
import os
import pathlib
import re
import time

import mountpoint

IPC = ("shm", "sem", "msg")
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run/user", "/run/lock")
CONTROL = pathlib.Path("/sys/fs/cgroup")


def _processes():
    """Words of all living ones but this and what it has started itself."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if mountpoint.alive(pid):
            found.append(f"{pid} {words.replace(bytes(1), b' ')}")
    return found


def _name_spaces():
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for kind in os.listdir(f"/proc/{pid}/ns"):
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
        except OSError:
            continue
    return found


def _ports():
    """Sockets that listen, and names of unix sockets."""
    found = []
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        rows = pathlib.Path(f"/proc/net/{kind}").read_text().splitlines()[1:]
        found += [f"{kind} {row.split()[1]}" for row in rows
                  if row.split()[3] in ("0A", "07")]
    rows = pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
    return found + ["unix " + row.split()[7] for row in rows
                    if len(row.split()) > 7]


def _ipc():
    found = []
    for kind in IPC:
        rows = pathlib.Path(f"/proc/sysvipc/{kind}").read_text().splitlines()
        found += [f"{kind} {row.split()[0]}" for row in rows[1:]]
    return found


def _files():
    return [os.path.join(folder, name) for folder in FOLDERS
            if os.path.isdir(folder) for name in os.listdir(folder)]


def _mounts():
    return [line.split()[4] for line in
            pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]


def control_groups(names):
    """Groups of sandboxes of environments with such names, anywhere."""
    wanted = re.compile(r"cowfs-(" + "|".join(map(re.escape, names)) +
                        r")-[0-9a-f]+-[0-9a-f]+")
    return [os.path.join(top, d) for top, dirs, _ in os.walk(CONTROL)
            for d in dirs if wanted.fullmatch(d)]


def lists():
    return {"processes": _processes(), "name spaces": _name_spaces(),
            "ports": _ports(), "ipc": _ipc(), "files": _files(),
            "mounts": _mounts()}


def differences(before, after):
    """Lines that tell what is there now and was not, or the other way."""
    found = []
    for what, old in before.items():
        new = after[what]
        found += [f"{what}: new: {x}" for x in sorted(set(new) - set(old))]
        found += [f"{what}: gone: {x}" for x in sorted(set(old) - set(new))]
        if len(new) != len(old) and not set(new) ^ set(old):
            found.append(f"{what}: {len(new)}, not {len(old)}")
    return found


def assert_as_before(before, limit=5.0):
    """Some moments for what is being collected by the first process."""
    end = time.monotonic() + limit
    while differences(before, lists()) and time.monotonic() < end:
        time.sleep(0.05)
    left = differences(before, lists())
    assert not left, "\n".join(left)
