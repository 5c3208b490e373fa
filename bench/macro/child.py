# SPDX-License-Identifier: MIT
"""child.py - scripts in children under a time limit, and what is done about
those that do not end.

Nothing else in bench/ touches a mount. A script is bash's, for its clock costs
no process: "t0; COMMAND; t1" tells what COMMAND took, "wrong WHAT" that its
result is not the right one. The harness takes a number from a script only when
it ended well.
"""
import os
import re
import shutil
import signal
import subprocess
import time

import mountpoint

PRELUDE = r"""
t0() { T0=${EPOCHREALTIME/[.,]/}; }
t1() { T1=${EPOCHREALTIME/[.,]/}; echo "VALUE $(( T1 - T0 ))e-6"; }
value() { echo "VALUE $1"; }
wrong() { echo "wrong: $*" >&2; exit 9; }
same() { [ "$1" = "$2" ] || wrong "$3: '${1:0:200}' and not '${2:0:200}'"; }
"""
CONNECTIONS = "/sys/fs/fuse/connections"


class Failed(Exception):
    """A work did not do what it should: there is no number for it."""


class Hangs(Failed):
    """It was not done in time."""


def last_words(text):
    lines = [line for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("wrong: ")]
    return told[-1] if told else " / ".join(lines[-3:]) or "no message"


def run(script, env, limit=600, cwd="/"):
    """Runs a script; returns what it prints. Raises Failed, Hangs."""
    process = subprocess.Popen(
        ["timeout", "-s", "KILL", str(limit), "bash", "-euc", PRELUDE + script],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True, cwd=cwd, env=env)
    try:
        out, err = process.communicate(timeout=limit + 5)
    except BaseException as e:
        # One that goes on would keep a mount busy. It may wait for a server
        # that does not answer: then clear_mounts() is what ends it.
        os.killpg(process.pid, signal.SIGKILL)
        if isinstance(e, subprocess.TimeoutExpired):
            raise Hangs(f"not done after {limit} s") from None
        raise
    if process.returncode in (137, -signal.SIGKILL):
        raise Hangs(f"not done after {limit} s")
    if process.returncode:
        raise Failed(last_words(err.decode(errors="replace")))
    return out.decode(errors="replace")


def values(script, env, limit=600, cwd="/"):
    """The numbers that a script tells, in its order."""
    found = re.findall(r"^VALUE (\S+)$", run(script, env, limit, cwd), re.M)
    if not found:
        raise Failed("told no value")
    return [float(v) for v in found]


def connection_of(point):
    """The folder of a FUSE mount's switches, by its device number."""
    with open("/proc/self/mountinfo", "rb") as f:
        for line in f.read().splitlines():
            fields = line.split(b" ")
            if mountpoint._unescape(fields[4]) == point:
                kind = fields[fields.index(b"-") + 1]
                if kind.startswith(b"fuse"):
                    minor = fields[2].split(b":")[1].decode()
                    return f"{CONNECTIONS}/{minor}"
    return None


def abort(point):
    """Ends a FUSE connection: whoever waits for its server gets an error."""
    folder = connection_of(point)
    if folder and not os.path.isdir(folder):
        subprocess.run(["mount", "-t", "fusectl", "fusectl", CONNECTIONS],
                       stderr=subprocess.DEVNULL)
    try:
        with open(f"{folder}/abort", "w") as f:
            f.write("1")
    except OSError:
        pass  # it is gone, or no FUSE mount


def clear_mounts(folder):
    """Takes away what is mounted below a folder: as it should be, else by
    force. Returns whether force was needed."""
    forced = False
    for point in reversed(mountpoint.mounts_below(folder)):
        try:
            done = subprocess.run(["timeout", "-s", "KILL", "10", "umount",
                                   point], stderr=subprocess.DEVNULL,
                                  timeout=12).returncode == 0
        except subprocess.TimeoutExpired:
            done = False
        if not done:
            forced = True
            abort(point)
            mountpoint._umount2(point, mountpoint.MNT_DETACH)
    return forced


def remove(folder):
    """A folder of ours, with what is mounted there."""
    mountpoint.force_away(folder) if mountpoint.processes_of(folder) else None
    clear_mounts(folder)
    # Name spaces that are just ending hold it a moment longer.
    for _ in range(20):
        if subprocess.run(["rm", "-rf", "--one-file-system",
                           folder]).returncode == 0:
            return
        time.sleep(.5)


def lacking(*programs):
    """What is not installed, in words; None: all is there."""
    missing = [p for p in programs if not shutil.which(p)]
    return "there is no " + ", no ".join(missing) if missing else None
