#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""headers.py BUILD - each header compiles alone, under -Werror, with the
flags that the build gives to the layer it belongs to."""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

from common import ROOT, finish, tracked


def flags_by_folder(build):
    """The include paths and definitions of each folder's layer."""
    commands = json.loads((build / "compile_commands.json").read_text())
    flags = {}
    for c in commands:
        path = pathlib.Path(c["file"])
        if not path.is_relative_to(ROOT):
            continue
        words = c.get("arguments") or shlex.split(c["command"])
        keep, it = [], iter(words[1:])
        for w in it:
            if w in ("-isystem", "-I", "-D"):
                keep += [w, next(it)]
            elif w.startswith(("-I", "-D", "-isystem", "-std", "-W")):
                keep.append(w)
        folder = str(path.parent.relative_to(ROOT))
        # Beside a layer there may be a program, which has other flags.
        if any(f"cowfs_{path.parent.name}.dir" in w for w in words):
            flags[folder] = keep
        flags.setdefault(folder, keep)
    return flags


def compile_alone(name, flags):
    source = f'#include "{ROOT / name}"\nextern int headers_py;\n'
    run = subprocess.run(
        [os.environ.get("CC", "cc"), *flags, "-Werror",
         "-fsyntax-only", "-x", "c", "-"],
        input=source, capture_output=True, text=True)
    return None if run.returncode == 0 else f"{name}: {run.stderr.strip()}"


def main():
    flags = flags_by_folder(pathlib.Path(sys.argv[1]))
    jobs, faults = [], []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in tracked():
            folder = name.rpartition("/")[0]
            if not name.endswith(".h"):
                continue
            # tests/support has headers without a source beside them.
            if folder == "tests/support":
                folder = "tests/unit"
            if folder in flags:
                jobs.append(pool.submit(compile_alone, name, flags[folder]))
            elif folder.startswith(("fs/", "daemon/")):
                faults.append(f"{name}: the build has no source beside it")
    faults += [j.result() for j in jobs if j.result()]
    finish("headers", faults)


if __name__ == "__main__":
    main()
