# SPDX-License-Identifier: MIT
"""small_root.py - a root file system of a few of this machine's programs and
their libraries, at the places where they have them."""
import pathlib
import re
import shutil
import subprocess

PROGRAMS = ("sh", "cat", "chmod", "cp", "env", "id", "ln", "ls", "mkdir",
            "mknod", "mv", "rm", "sleep", "stat", "touch")


def libraries(programs):
    out = subprocess.run(["ldd", *programs], stdout=subprocess.PIPE, text=True,
                         check=True).stdout
    return set(re.findall(r"(/\S+) \(0x", out))


def put(top, path):
    """By its name here, whatever links lead there."""
    to = top / path.lstrip("/")
    if not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)


def make(top, programs=PROGRAMS):
    top = pathlib.Path(top)
    for name in ("bin", "dev", "etc", "home/u", "proc", "root", "run", "tmp"):
        (top / name).mkdir(parents=True)
    (top / "tmp").chmod(0o1777)
    found = [shutil.which(name) for name in programs]
    for path in libraries(found):
        put(top, path)
    for program in found:
        shutil.copy(program, top / "bin")
    (top / "etc/passwd").write_text(
        "root:x:0:0::/root:/bin/sh\nada:x:1234:1235::/home/u:/bin/sh\n")
    (top / "etc/group").write_text("root:x:0:\nlovers:x:77:\n")
    (top / "etc/os-release").write_text('NAME="small"\n')
