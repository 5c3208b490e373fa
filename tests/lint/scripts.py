#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scripts.py - every shell script parses, every Python file compiles, and
what starts with #! can be executed."""
import os
import subprocess

from common import ROOT, finish, tracked


def main():
    faults = []
    for name in tracked():
        path = ROOT / name
        with open(path, "rb") as f:
            first = f.readline()
        shell = name.endswith(".sh") or (
            first.startswith(b"#!") and b"sh" in first)
        if shell:
            interpreter = "sh" if first.strip().endswith(b"/sh") else "bash"
            run = subprocess.run([interpreter, "-n", path],
                                 capture_output=True, text=True)
            if run.returncode:
                faults.append(f"{name}: {run.stderr.strip()}")
        if name.endswith(".py") or b"python" in first:
            try:
                compile(path.read_bytes(), name, "exec")
            except SyntaxError as e:
                faults.append(f"{name}: {e}")
        if first.startswith(b"#!") and not os.access(path, os.X_OK):
            faults.append(f"{name}: starts with #! and is not executable")
    finish("scripts", faults)


if __name__ == "__main__":
    main()
