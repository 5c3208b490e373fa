# SPDX-License-Identifier: MIT
"""trees.py - what the works work on: origins, made once for a run.

small   the project of tests/agents: jest, pytest, cargo, a git repository
medium  a git repository with a real node_modules, 60,000 files
large   a git repository of 1,000,000 small files, generated
file    one file of 1 GiB; in a quick run of 128 MiB
root    a root file system of 300 MiB, in a quick run 40: files of this machine
"""
import itertools
import os
import pathlib
import re
import shutil
import subprocess

import project
import real

from macro.child import lacking

ROOT_BYTES = 300 << 20
SMALLEST = 16 << 10  # bytes: with all files there would be 20,000
FOLDER = 1000  # files in a folder of the large tree


class Tree:
    """has: words that works ask for; probe: a file that is there when all
    is."""

    def __init__(self, name, origin, has, probe):
        self.name, self.origin, self.has = name, origin, set(has)
        self.probe = probe
        self.entries = self.bytes = 0
        # Counted once, by one walk; works compare what they find to it.
        for top, dirs, files in os.walk(origin):
            self.entries += 1 + len(files) + sum(
                os.path.islink(os.path.join(top, d)) for d in dirs)
        out = subprocess.run(["du", "-s", "-B1", origin], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        self.bytes = int(out.split()[0])


def git(top, *args, **kw):
    return subprocess.run(["git", "-C", top, *args], check=True,
                          env=dict(os.environ, **project.GIT),
                          stdout=subprocess.DEVNULL, **kw)


def small(scratch, _args):
    project.make()
    project.copy(scratch / "small")
    return Tree("small", scratch / "small", ("git", "node", "shop"),
                "node_modules/jest/package.json")


def generated(scratch, args):
    """In place of the small one where npm or cargo is missing: what needs
    them is left out."""
    return numbered(scratch / "small", "small", min(6000, args.large))


def medium(scratch, _args):
    subprocess.run(["cp", "-a", real.make(real.ALL), scratch / "medium"], check=True)
    git(scratch / "medium", "status")
    return Tree("medium", scratch / "medium", ("git", "node", "tsc"),
                "node_modules/typescript/package.json")


def numbered(top, name, count):
    """git writes the files: no million of loose objects."""
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    child = subprocess.Popen(["git", "-C", top, "fast-import", "--quiet"],
                             stdin=subprocess.PIPE)
    with child.stdin as to:
        to.write(b"commit refs/heads/main\n"
                 b"committer b <b@example.invalid> 0 +0000\ndata 1\nx\n")
        for i in range(count):
            d, n = divmod(i, FOLDER)
            data = b"%d %d\n" % (d, n) * (1 + n % 40)
            to.write(b"M 100644 inline %d/%d/file%04d\ndata %d\n%s\n" % (
                d % 10, d, n, len(data), data))
    if child.wait():
        raise OSError("git fast-import failed")
    git(top, "reset", "-q", "--hard", "main")
    d, n = divmod(count - 1, FOLDER)
    return Tree(name, top, ("git",), f"{d % 10}/{d}/file{n:04}")


def large(scratch, args):
    return numbered(scratch / "large", "large", args.large)


def file(scratch, args):
    top = scratch / "file"
    top.mkdir()
    block = os.urandom(1 << 20)
    with open(top / "huge", "wb") as f:
        for i in range(128 if args.quick else 1024):
            f.write(i.to_bytes(8, "little") + block[8:])
    return Tree("file", top, ("huge",), "huge")


def root(scratch, args):
    """The programs that the container runs, with their libraries, and as much
    of /usr as makes it a usual size."""
    top = scratch / "root"
    for name in ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp"):
        (top / name).mkdir(parents=True)
    for name in ("sh", "echo"):
        program = shutil.which(name)
        out = subprocess.run(["ldd", program], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
        for path in re.findall(r"(/\S+) \(0x", out):
            to = top / path.lstrip("/")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to) if not to.exists() else None
        shutil.copy(program, top / "bin" / name)
    fill(top / "usr/share/fill", args.quick)
    return Tree("root", top, ("root",), "bin/echo")


def fill(to, quick):
    total = n = 0
    roots = ("/usr/share", "/usr/lib")
    for folder, dirs, files in itertools.chain(*map(os.walk, roots)):
        dirs.sort()
        for name in sorted(files):
            path = pathlib.Path(folder, name)
            if path.is_symlink() or not path.is_file():
                continue
            if path.stat().st_size < SMALLEST:
                continue
            total, n = total + path.stat().st_size, n + 1
            if total > (ROOT_BYTES >> 3 if quick else ROOT_BYTES):
                return
            (to / str(n // 200)).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to / str(n // 200) / str(n))


def make(name, scratch, args, note):
    """Makes a tree. note: called with what had to be left out."""
    try:
        if name == "small" and project.missing():
            note("small tree", "generated, without jest, pytest, cargo: no "
                 + ", no ".join(project.missing()))
            return generated(scratch, args)
        if name == "medium" and lacking("npm", "node"):
            note("medium tree", lacking("npm", "node"))
            return None
        return {"small": small, "medium": medium, "large": large,
                "file": file, "root": root}[name](scratch, args)
    except (OSError, subprocess.SubprocessError) as e:
        note(f"{name} tree", f"cannot be made: {e}")
        subprocess.run(["rm", "-rf", scratch / name])
        return None
