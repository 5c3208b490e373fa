# SPDX-License-Identifier: MIT
"""What the lints share: the tracked files, C without comments."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tracked():
    """Files of the project, as git knows them; also those not yet added. A
    tree without git (a tarball) is walked."""
    try:
        out = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z",
             "--cached", "--others", "--exclude-standard"],
            capture_output=True, check=True).stdout
        names = out.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                 if not re.match(r"(build|\.git/)", str(p.relative_to(ROOT)))]
    return sorted(n for n in names if n and (ROOT / n).is_file())


def c_files():
    return [n for n in tracked() if n.endswith((".c", ".h"))]


_SKIP = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def without_comments(source):
    """Comments, strings and characters become spaces; lines stay."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m[0])
    return _SKIP.sub(blank, source)


def finish(name, faults):
    for fault in faults:
        print(fault)
    print(f"{name}: {len(faults)} faults")
    sys.exit(1 if faults else 0)
